"""A frozen snapshot of the controller's counters, made on demand."""

from __future__ import annotations

import msgspec


class ControllerStatistics(msgspec.Struct, frozen=True):
    """The metadata as this broker applies it, and who waits for a change of it."""

    epoch: int
    offset: int
    """The offset of the last record in the current image."""
    brokers: int
    topics: int
    partitions: int
    waiting: int
    """The number of callers whose change is not committed yet."""
