"""All seams of one broker, built once and handed out piece by piece."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from pykbroker.world.disk import Disk
from pykbroker.world.net import Net
from pykbroker.world.off_loop import OffLoop
from pykbroker.world.worker import Workers


@dataclass(frozen=True, slots=True)
class World:
    """One machine. Only the composition root holds it; each part gets the seam it uses."""

    disks: tuple[Disk, ...]
    net: Net
    wall_ms: Callable[[], int]
    """Milliseconds since 1970, for stamps in records, never for deadlines."""
    ticks_ns: Callable[[], int]
    """Nanoseconds of a monotonic clock, to measure how long things took."""
    off_loop: OffLoop
    workers: Workers
    rng: random.Random
    open_files_max: int = 1 << 20
    """Descriptors that the process may have open: files and connections."""
