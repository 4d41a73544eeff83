"""The wait for a time of a client's clock, whose rounding differs from that of trio's clock."""

from __future__ import annotations

LATE_S = 1e-6
"""The time added to a wait. Without it, a wait may end before its time by the other clock, and be repeated."""


def wait_s(due_ms: float, now_ms: float) -> float:
    """Return the seconds to wait until `due_ms`."""
    return max(0.0, due_ms - now_ms) / 1000 + LATE_S
