"""A simulated machine: a host on the network, volumes that survive its processes, and a wall clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from zlib import crc32

from pykbroker.sim.disk import DiskFaults, SimDisk
from pykbroker.sim.net import SimNet
from pykbroker.sim.network import Network
from pykbroker.sim.off_loop import InlineOffLoop
from pykbroker.sim.poison import WALL_S
from pykbroker.sim.power_loss import after_power_loss
from pykbroker.sim.process import Process
from pykbroker.sim.scheduler import resume
from pykbroker.sim.simulation import Simulation
from pykbroker.sim.volume import Directory, Inode, Volume
from pykbroker.sim.worker import InlineWorkers
from pykbroker.world.world import World

OFF_LOOP_S = 0.0002
SMALL_FILE_BYTES = 100
"""The number of bytes added to the size of each file when the choice of a file for bit rot is weighted by size."""


class SimMachine:
    """A simulated machine, on which one process runs at a time."""

    def __init__(self, simulation: Simulation, network: Network, name: str, volumes: int = 1) -> None:
        self.name = name
        self.disk_faults = DiskFaults()
        self.skew_s = 0.0
        """The number of seconds by which the machine's wall clock is fast, apart from its drift."""
        self._drift, self._drifts_since_s = 0.0, 0.0
        self.process = Process(name)
        self.process.kill()
        self._simulation, self._network = simulation, network
        self._dice = simulation.dice(f"machine {name}")
        self._volumes = [Volume() for _ in range(volumes)]
        self._disks: list[SimDisk] = []
        self._lives = 0
        self._loses_power = False
        for number in range(volumes):
            self._watch(number)

    @property
    def is_up(self) -> bool:
        """Whether a process runs on the machine."""
        return not self.process.dead

    def boot(self, main: Callable[[World], Awaitable[object]]) -> None:
        """Start a process that runs `main` with the world of this machine."""
        assert not self.is_up, f"{self.name} is up"
        self._lives += 1
        self._network.host_up(self.name)
        self._simulation.trace(self.name, "boots")
        self.process = Process(f"{self.name} {self._lives}", self._died)
        self._simulation.start(self.process, main, self._world())

    def _world(self) -> World:
        life, simulation, process = self.process.name, self._simulation, self.process
        self._disks = [
            SimDisk(
                volume,
                f"/{self.name}/{number}",
                faults=self.disk_faults,
                dice=simulation.dice(f"disk {number} of {life}"),
                enter=process.step,
                wall_ms=self._wall_ms,
            )
            for number, volume in enumerate(self._volumes)
        ]
        off_loop = InlineOffLoop(simulation.dice(f"threads of {life}"), OFF_LOOP_S)
        return World(
            disks=tuple(self._disks),
            net=SimNet(self._network, process, self.name, simulation.dice(f"net of {life}")),
            wall_ms=self._wall_ms,
            ticks_ns=lambda: int(simulation.now * 1e9),
            off_loop=off_loop,
            workers=InlineWorkers(off_loop),
            rng=simulation.dice(f"dice of {life}"),
        )

    def directories(self) -> Iterator[str]:
        """Yield the names of what is in the root of each volume, as processes see it."""
        for volume in self._volumes:
            yield from volume.root.entries

    def contents(self, directory: str, suffix: str) -> Iterator[bytes]:
        """Yield what processes see of the files in a directory whose names end with `suffix`, sorted by name."""
        for volume in self._volumes:
            node = volume.root.entries.get(directory)
            if isinstance(node, Directory):
                for name, each in sorted(node.entries.items()):
                    if isinstance(each, Inode) and name.endswith(suffix):
                        yield bytes(each.content)

    # ---- faults

    def drift(self, seconds_per_second: float) -> None:
        """Set how many seconds the wall clock gains in each second. It loses them if the number is negative."""
        self.skew_s = self._fast_s()
        self._drift, self._drifts_since_s = seconds_per_second, self._simulation.now

    def _wall_ms(self) -> int:
        """Return the time of the machine's wall clock."""
        return int((WALL_S + self._simulation.now + self._fast_s()) * 1000)

    def _fast_s(self) -> float:
        return self.skew_s + self._drift * (self._simulation.now - self._drifts_since_s)

    def wipe(self) -> None:
        """Replace all volumes by empty ones, as after a failure of the disks. No process may run."""
        assert not self.is_up, f"{self.name} is up"
        self._simulation.trace(self.name, "is wiped")
        for number in range(len(self._volumes)):
            self._volumes[number] = Volume()
            self._watch(number)

    def set_disk_faults(self, faults: DiskFaults) -> None:
        self.disk_faults = faults
        for disk in self._disks:
            disk.faults = faults

    def used_bytes(self) -> int:
        """Return the used bytes of the fullest volume."""
        return max(volume.used_bytes() for volume in self._volumes)

    def kill(self) -> None:
        """Kill the process as SIGKILL does: the page cache survives."""
        self._loses_power = False
        self.process.kill()

    def lose_power(self) -> None:
        """Cut the power: a random part of the unsynced data is lost, and peers get no notice.

        The process may already have ended.
        """
        self._loses_power = True
        if self.is_up:
            self.process.kill()
        else:
            self._died()

    def die_within(self, effects: int, *, power: bool) -> None:
        """Kill the process, or cut the power, before one of the next `effects` operations on disk or network."""
        self._loses_power = power
        self.process.steps_left = self._dice.randrange(effects)

    def pause(self) -> None:
        """Stop the process as SIGSTOP does."""
        self.process.paused = True

    def resume(self) -> None:
        """Continue the process as SIGCONT does."""
        if self.is_up:
            resume(self.process)

    def flip_bits(self, count: int, directories: tuple[str, ...]) -> None:
        """Flip random bits of files below these directories."""
        for _ in range(count):
            volume = self._dice.choice(self._volumes)
            files = [inode for inode in volume.files_below(directories) if inode.durable]
            if files:
                (inode,) = self._dice.choices(files, [len(inode.durable) + SMALL_FILE_BYTES for inode in files])
                volume.flip(inode.number, self._dice.randrange(len(inode.durable)), self._dice.randrange(8))

    def _died(self) -> None:
        self._simulation.trace(self.name, "loses power" if self._loses_power else "is killed")
        for disk in self._disks:
            disk.release()
        if not self._loses_power:
            self._network.kill(self.process)
            return
        self._network.host_down(self.name)
        for number, volume in enumerate(self._volumes):
            self._volumes[number] = after_power_loss(volume, self._dice)
            self._watch(number)

    def _watch(self, number: int) -> None:
        """Trace every change of the volume with this number."""

        def noted(name: str, args: tuple[object, ...]) -> None:
            facts = (crc32(arg) if isinstance(arg, bytes) else arg for arg in args)
            self._simulation.trace(self.name, number, name, *facts)

        self._volumes[number].noted = noted
