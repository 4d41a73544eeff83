"""Counters of the requests, records and bytes of one topic, as Kafka's `BrokerTopicMetrics` has them."""

from __future__ import annotations

from wire.error_codes import ErrorCode

EXPECTED_OF_PRODUCE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""The errors of appends that Kafka does not count as failed Produce requests."""
EXPECTED_OF_FETCH = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""The errors of reads that Kafka does not count as failed Fetch requests."""
COUNTERS = (
    "appends",
    "appends_refused",
    "appends_failed",
    "messages_in",
    "bytes_in",
    "bytes_out",
    "fetches",
    "fetches_failed",
)


class TopicTraffic:
    """The counters of one topic since the topic was opened or created. Bytes are sizes of record batches.

    `appends` counts appended batches, including batches of this broker's coordinators. `appends_refused` counts refused
    batches, and `appends_failed` the refused batches that Kafka counts as failed. `fetches` counts Fetch requests that
    read the topic. `fetches_failed` counts failed reads of one partition.
    """

    __slots__ = COUNTERS

    appends: int
    appends_refused: int
    appends_failed: int
    messages_in: int
    bytes_in: int
    bytes_out: int
    fetches: int
    fetches_failed: int

    def __init__(self) -> None:
        for name in COUNTERS:
            setattr(self, name, 0)

    def add(self, other: TopicTraffic) -> None:
        """Add the counters of another topic."""
        for name in COUNTERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def count_append(self, records: int, size: int) -> None:
        """Count an appended batch of `size` bytes."""
        self.appends += 1
        self.messages_in += records
        self.bytes_in += size

    def refuse_append(self, code: int) -> None:
        """Count a refused batch."""
        self.appends_refused += 1
        self.appends_failed += code not in EXPECTED_OF_PRODUCE

    def refuse_fetch(self, code: int) -> None:
        """Count a failed read of one partition, unless Kafka does not count this error."""
        self.fetches_failed += code not in EXPECTED_OF_FETCH
