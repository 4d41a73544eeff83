"""A snapshot of what a producer has done."""

from __future__ import annotations

import msgspec


class ProducerStatistics(msgspec.Struct, frozen=True):
    """Totals since the producer was made, and the memory now. Sizes are in bytes, after compression for those sent."""

    records_sent: int
    records_failed: int
    records_retried: int
    batches_split: int
    requests: int
    bytes_sent: int
    buffer_bytes: int
    buffer_available_bytes: int
    waiting: int
    """The calls that wait for memory."""
