"""The pace of a task that may write only so many records a second."""

from __future__ import annotations

import msgspec

PORTION_S = 0.25
"""The time in whose portions records are written, so that the rate is even."""


class WritePace(msgspec.Struct, frozen=True):
    """A rate in records a second, or None for no limit."""

    rate: float | None = None

    def portion(self, rows: int) -> int:
        """Return how many of some rows are written at once."""
        return rows if self.rate is None else min(rows, max(1, int(self.rate * PORTION_S)))

    def wait_s(self, written: int, elapsed_s: float) -> float:
        """Return the seconds to wait, after `written` records in `elapsed_s`."""
        return 0.0 if self.rate is None else max(0.0, written / self.rate - elapsed_s)
