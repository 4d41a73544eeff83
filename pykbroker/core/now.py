"""The time that is passed to a state machine."""

from __future__ import annotations

from typing import NamedTuple


class Now(NamedTuple):
    """The time on two clocks, in ms: the monotonic clock for deadlines, the wall clock (since 1970) for timestamps."""

    monotonic_ms: float
    wall_ms: int
