"""The seams of one client to its machine."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec

from pykbroker.world.net import Net


class ClientWorld(msgspec.Struct, frozen=True):
    """The seams of a producer or a consumer, which are created with it."""

    net: Net
    wall_ms: Callable[[], int]
    """A function that returns milliseconds since 1970, for timestamps of records, never for deadlines."""
    ticks_ns: Callable[[], int]
    """A function that returns the nanoseconds of the monotonic clock that trio's clock follows."""
    rng: random.Random
