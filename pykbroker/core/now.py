"""The time at which a machine is called."""

from __future__ import annotations

from typing import NamedTuple


class Now(NamedTuple):
    """Both clocks in ms: the monotonic clock of deadlines, and the wall clock since 1970 of stored timestamps."""

    monotonic_ms: float
    wall_ms: int
