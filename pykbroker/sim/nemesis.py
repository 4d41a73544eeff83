"""The faults of a simulation: each seed has its own mix and its own pace."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import ClassVar

import trio

from pykbroker.sim.broker_node import BrokerNode
from pykbroker.sim.network import Network
from pykbroker.sim.simulation import Simulation

PACES_S = (0.3, 1.0, 5.0)
EFFECTS_MAX = 60
"""Within so many effects on disk and network the broker dies in the middle of a step."""
STALLED, STALL_S_MAX = 0.4, 5.0
"""The part of the clients whose connections stall at once, and for how long."""


class Nemesis:
    """Injects one fault after the other into a broker and the network."""

    POWER: ClassVar = ("lose_power", "lose_power_midstep", "fail_syncs")
    """Power losses, used only where every acknowledged record is synced."""
    DISK: ClassVar = ("fill_disk", "fail_reads", "fail_syncs")
    """Faults of the disk, which may end the broker."""
    ROT = "rot"
    """Bit rot, which loses records without a copy: the broker must only serve nothing wrong."""
    KINDS: ClassVar = (
        "kill",
        "kill_midstep",
        "restart",
        "pause",
        "isolate",
        "deafen",
        "mute",
        "lose_segments",
        "slow_disk",
        "fill_disk",
        "fail_reads",
        "skew_clock",
        "stall",
        *POWER,
    )

    def __init__(
        self,
        simulation: Simulation,
        network: Network,
        node: BrokerNode,
        clients: list[str],
        directories: tuple[str, ...],
        kinds: tuple[str, ...],
    ) -> None:
        self._simulation, self._network, self._node, self._machine = simulation, network, node, node.machine
        self._clients, self._directories, self._dice = clients, directories, simulation.dice("nemesis")
        self._kinds = [kind for kind in kinds if self._dice.random() < 0.6] or list(kinds)
        self._pace_s = self._dice.choice(PACES_S)
        self.happened: dict[str, int] = {}

    async def run(self, until_s: float) -> None:
        """Inject faults until that time, then end them all."""
        while self._simulation.now < until_s:
            await trio.sleep(self._dice.expovariate(1 / self._pace_s))
            if self._kinds:
                await self._strike(self._dice.choice(self._kinds))
        await self._calm()

    async def _strike(self, kind: str) -> None:
        self.happened[kind] = self.happened.get(kind, 0) + 1
        self._simulation.trace("nemesis", kind)
        self._node.start()
        await self._simulation.at_rest()
        fault: Callable[[], Awaitable[None]] = getattr(self, kind)
        await fault()

    async def _calm(self) -> None:
        self._network.heal()
        await self._node.wait_serving()

    async def _wait(self) -> None:
        await trio.sleep(self._dice.uniform(0.1, 2) * min(1.0, self._pace_s))

    async def _start_again(self) -> None:
        await self._wait()
        self._node.start()

    # ---- the faults

    async def kill(self) -> None:
        """Kill the broker and start it again."""
        self._machine.kill()
        await self._start_again()

    async def lose_power(self) -> None:
        """Cut the power, which may lose all unsynced data."""
        self._machine.lose_power()
        await self._start_again()

    async def kill_midstep(self) -> None:
        """Kill the broker between two system calls."""
        await self._die_within(power=False)

    async def lose_power_midstep(self) -> None:
        """Cut the power between two system calls."""
        await self._die_within(power=True)

    async def _die_within(self, *, power: bool) -> None:
        self._machine.die_within(EFFECTS_MAX, power=power)
        with trio.move_on_after(5):
            await self._machine.process.gone.wait()
        self._machine.process.steps_left = -1
        await self._start_again()

    async def restart(self) -> None:
        """Stop the broker in order and start it again."""
        await self._node.stop()
        await self._start_again()

    async def pause(self) -> None:
        """Stop the process with SIGSTOP and continue it with SIGCONT."""
        self._machine.pause()
        await self._wait()
        self._machine.resume()

    async def isolate(self) -> None:
        """Cut all traffic between the clients and the broker."""
        await self._cut(deaf=True, mute=True)

    async def deafen(self) -> None:
        """Drop all traffic to the broker."""
        await self._cut(deaf=True, mute=False)

    async def mute(self) -> None:
        """Drop all traffic from the broker."""
        await self._cut(deaf=False, mute=True)

    async def _cut(self, *, deaf: bool, mute: bool) -> None:
        for client in self._clients:
            if deaf:
                self._network.cut(client, self._machine.name)
            if mute:
                self._network.cut(self._machine.name, client)
        await self._wait()
        self._network.heal()

    async def lose_segments(self) -> None:
        """Lose TCP segments and reset connections, as bad cables do."""
        before = self._network.faults
        self._network.faults = replace(before, lost=0.05, reset=0.01)
        await self._wait()
        self._network.faults = before

    async def stall(self) -> None:
        """Delay what some clients have sent, while their new connections are fast."""
        for client in self._clients:
            if self._dice.random() < STALLED:
                self._network.stall(client, self._dice.uniform(0.2, STALL_S_MAX))
        await self._wait()

    async def slow_disk(self) -> None:
        """Slow down every operation of the device."""
        await self._worsen_disk(wait_s=0.2, stalls=0.05)

    async def fill_disk(self) -> None:
        """Leave room for only a few more batches on the disk."""
        await self._worsen_disk(room_bytes=self._machine.used_bytes() + self._dice.randrange(100_000))

    async def fail_reads(self) -> None:
        """Make some sectors unreadable; the operator restarts the broker."""
        await self._worsen_disk(read_fails=0.05)
        await self.kill()

    async def fail_syncs(self) -> None:
        """Some fsync fails, and what was dirty is lost, nobody can tell how much; then the power goes, at times after
        a start that has seen in the page cache what is lost.
        """
        await self._worsen_disk(sync_fails=0.3)
        if self._dice.random() < 0.5:
            await self.kill()
            await self._wait()
        await self.lose_power()

    async def _worsen_disk(self, **faults: float) -> None:
        before = self._machine.disk_faults
        self._machine.set_disk_faults(replace(before, **faults))  # type: ignore[arg-type]
        await self._wait()
        self._machine.set_disk_faults(before)

    async def rot(self) -> None:
        """Flip bits in files of partitions while the broker is down."""
        self._machine.kill()
        self._machine.flip_bits(self._dice.randrange(1, 4), self._directories)
        await self._start_again()

    async def skew_clock(self) -> None:
        """Set the wall clock forward or back."""
        self._machine.skew_s = self._dice.uniform(-30, 30)
