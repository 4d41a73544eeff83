"""The counters of a producer, with the names of Kafka's metrics."""

from __future__ import annotations

import msgspec


class ProducerCounters(msgspec.Struct):
    """Totals since the producer was made. They are counted for each batch, not for each record."""

    record_send: int = 0
    record_error: int = 0
    record_retry: int = 0
    batch_split: int = 0
    requests: int = 0
    """Produce requests, also those that are sent again."""
    bytes_sent: int = 0
    """The bytes of all batches, after compression."""
