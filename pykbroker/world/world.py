"""The seams of one broker to its machine, which are created once at start."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec

from pykbroker.world.disk import Disk
from pykbroker.world.net import Net
from pykbroker.world.off_loop import OffLoop
from pykbroker.world.worker import Workers


class World(msgspec.Struct, frozen=True):
    """The seams to one machine. Only `pykbroker.broker` holds a whole `World`.

    Every other package gets the seams that it uses.
    """

    disks: tuple[Disk, ...]
    net: Net
    wall_ms: Callable[[], int]
    """A function that returns milliseconds since 1970, for timestamps of records, never for deadlines."""
    ticks_ns: Callable[[], int]
    """A function that returns the nanoseconds of a monotonic clock, for measuring durations."""
    off_loop: OffLoop
    workers: Workers
    rng: random.Random
    open_files_max: int = 1 << 20
    """The maximum number of descriptors that the process may have open for files and connections."""
