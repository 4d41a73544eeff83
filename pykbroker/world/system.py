"""The world of a real machine: its files, sockets, clocks, threads and randomness."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from pykbroker.world.client_world import ClientWorld
from pykbroker.world.system_disk import SystemDisk
from pykbroker.world.system_limits import open_files_max
from pykbroker.world.system_net import SystemNet
from pykbroker.world.system_off_loop import SystemOffLoop
from pykbroker.world.system_worker import SystemWorkers
from pykbroker.world.world import World


def wall_ms() -> int:
    """Return the milliseconds since 1970 by the wall clock."""
    return time.time_ns() // 1_000_000


def random_bits(bits: int) -> int:
    """Return a number of so many bits that no one can predict."""
    return random.SystemRandom().getrandbits(bits)


def system_client_world() -> ClientWorld:
    """Return a client's seams to this machine."""
    return ClientWorld(SystemNet(), wall_ms, time.perf_counter_ns, random.SystemRandom())


def system_world(data_dirs: Sequence[str], *, durable: bool = True) -> World:
    """Return a broker's seams to this machine. If `durable` is false, files are never fsynced."""
    off_loop = SystemOffLoop()
    return World(
        disks=tuple(SystemDisk(path, off_loop, durable=durable) for path in data_dirs),
        net=SystemNet(),
        wall_ms=wall_ms,
        ticks_ns=time.perf_counter_ns,
        off_loop=off_loop,
        workers=SystemWorkers(),
        rng=random.SystemRandom(),
        open_files_max=open_files_max(),
    )
