"""The errors of the consumer's pure half, which its faces raise as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pykbroker.core.consumer.position import CommittedOffset
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode


class ConsumerError(Exception):
    """An error of the consumer that a retry alone does not resolve."""


class ConsumerClosed(RuntimeError):
    """The error of a call on a consumer that is closed."""


class ConsumerTimeout(TimeoutError):
    """The error of a call that was not done within `default.api.timeout.ms`. It may be repeated."""


class NoOffsetForPartition(ConsumerError):
    """The error of partitions without a committed offset and without a reset policy."""

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        self.partitions = frozenset(partitions)
        names = ", ".join(sorted(map(str, self.partitions)))
        super().__init__(f"Undefined offset with no reset policy for partitions: [{names}]")


class OffsetsOutOfRange(ConsumerError):
    """The error of positions that their logs do not have, without a reset policy."""

    def __init__(self, offsets: Mapping[TopicPartition, int], message: str) -> None:
        super().__init__(message)
        self.offsets = dict(offsets)


class LogTruncation(ConsumerError):
    """The error of positions whose records were truncated, without a reset policy (KIP-320).

    `divergent` has the first offset at which the log differs, for partitions where the broker knows it.
    """

    def __init__(
        self, offsets: Mapping[TopicPartition, int], divergent: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        names = ", ".join(f"{partition} at offset {offset}" for partition, offset in sorted(offsets.items()))
        super().__init__(f"Detected log truncation: {names}; seek to an offset of the log, or set auto.offset.reset")
        self.offsets, self.divergent = dict(offsets), dict(divergent)


class UnreadableRecords(ConsumerError):
    """The error of a batch that cannot be read, for example because its CRC does not match."""

    def __init__(self, partition: TopicPartition, offset: int, cause: str) -> None:
        super().__init__(
            f"Received exception when fetching the next record from {partition}. If needed, please seek past the "
            f"record to continue consumption. The batch at offset {offset} is invalid: {cause}"
        )
        self.partition, self.offset = partition, offset


class TopicsUnauthorized(ApiError):
    """The error of topics that the client may not read."""

    def __init__(self, topics: Iterable[str]) -> None:
        self.topics = frozenset(topics)
        names = ", ".join(sorted(self.topics))
        super().__init__(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"Not authorized to access topics: [{names}]")


class GroupDataMalformed(ConsumerError):
    """The error of a subscription or an assignment in a group that cannot be decoded. The next poll joins again."""


class CommitFailed(ConsumerError):
    """The error of a commit by a member that the group has removed or replaced."""


class SubscriptionConflict(ConsumerError):
    """The error of mixing subscribed topics, patterns and assigned partitions."""
