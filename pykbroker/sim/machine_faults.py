"""The faults of a broker's machine: of its process, its power, its disks and its clock."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import trio

from pykbroker.sim.broker_node import BrokerNode
from pykbroker.sim.fault_pace import FaultPace

EFFECTS_MAX = 60
"""The maximum number of operations on disk and network after which a broker is killed between two system calls."""
DEATH_S_MAX = 5
CLOCK_SKEW_S_MAX = 30


class MachineFaults:
    """The faults of the broker's machine. `directories` are the partition directories in whose files bits may flip."""

    def __init__(self, node: BrokerNode, directories: tuple[str, ...], pace: FaultPace, dice: Random) -> None:
        self._node, self._machine, self._directories = node, node.machine, directories
        self._pace, self._dice = pace, dice

    # ---- the process

    async def kill(self) -> None:
        """Kill the broker and start it again."""
        self._machine.kill()
        await self._start_again()

    async def kill_midstep(self) -> None:
        """Kill the broker between two system calls."""
        await self._die_within(power=False)

    async def restart(self) -> None:
        """Shut down the broker cleanly and start it again."""
        await self._node.stop()
        await self._start_again()

    async def pause(self) -> None:
        """Stop the process with SIGSTOP and continue it with SIGCONT."""
        self._machine.pause()
        await self._pace.wait_during()
        self._machine.resume()

    # ---- the power and the clock

    async def lose_power(self) -> None:
        """Cut the power, which may lose any part of the unsynced data."""
        self._machine.lose_power()
        await self._start_again()

    async def lose_power_midstep(self) -> None:
        """Cut the power between two system calls."""
        await self._die_within(power=True)

    async def skew_clock(self) -> None:
        """Set the wall clock forward or back."""
        self._machine.skew_s = self._dice.uniform(-CLOCK_SKEW_S_MAX, CLOCK_SKEW_S_MAX)

    # ---- the disks

    async def slow_disk(self) -> None:
        """Slow down every operation of the device."""
        await self._worsen_disk(wait_s=0.2, stalls=0.05)

    async def fill_disk(self) -> None:
        """Leave room for only a few more batches on the disk."""
        await self._worsen_disk(room_bytes=self._machine.used_bytes() + self._dice.randrange(100_000))

    async def fail_reads(self) -> None:
        """Make some sectors unreadable for a time, and restart the broker as an operator would."""
        await self._worsen_disk(read_fails=0.05)
        await self.kill()

    async def fail_syncs(self) -> None:
        """Fail some fsyncs, lose a random part of the data that they should have written, and cut the power.

        In some runs, the broker is restarted before the power is cut, and then still finds the lost data in the page
        cache.
        """
        await self._worsen_disk(sync_fails=0.3)
        if self._dice.random() < 0.5:
            await self.kill()
            await self._pace.wait_during()
        await self.lose_power()

    async def rot(self) -> None:
        """Flip bits in files of partitions while the broker is stopped."""
        self._machine.kill()
        self._machine.flip_bits(self._dice.randrange(1, 4), self._directories)
        await self._start_again()

    # ---- internals

    async def _start_again(self) -> None:
        await self._pace.wait_during()
        self._node.start()

    async def _die_within(self, *, power: bool) -> None:
        self._machine.die_within(EFFECTS_MAX, power=power)
        with trio.move_on_after(DEATH_S_MAX):
            await self._machine.process.gone.wait()
        self._machine.process.steps_left = -1
        await self._start_again()

    async def _worsen_disk(self, **faults: float) -> None:
        before = self._machine.disk_faults
        self._machine.set_disk_faults(replace(before, **faults))  # type: ignore[arg-type]
        await self._pace.wait_during()
        self._machine.set_disk_faults(before)
