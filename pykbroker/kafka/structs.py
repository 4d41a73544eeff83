"""The named tuples of kafka-python."""

from __future__ import annotations

from typing import Any, NamedTuple

from pykbroker.core.topic_partition import TopicPartition as TopicPartition


class TopicPartitionReplica(NamedTuple):
    """A replica of a partition. `broker_id` is the node id of its broker."""

    topic: str
    partition: int
    broker_id: int


class OffsetAndMetadata(NamedTuple):
    """A committed offset. `leader_epoch` is -1 if it is unknown."""

    offset: int | None = None
    metadata: str = ""
    leader_epoch: int = -1


class ConsumerGroupMetadata(NamedTuple):
    """A consumer's membership in its group, which fences offsets of members that have left (KIP-447)."""

    group_id: str | None = None
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    state: str = "<unjoined>"


class OffsetAndTimestamp(NamedTuple):
    """The offset of a record and its timestamp, in ms since 1970."""

    offset: int
    timestamp: int
    leader_epoch: int


class KafkaRecord(NamedTuple):
    """A record that was read, which kafka-python calls ConsumerRecord.

    Sizes are in bytes, or -1 for a part that the record lacks. `leader_epoch` is -1 if it is unknown. `timestamp_type`
    is 0 for the time of the producer and 1 for that of the broker.
    """

    topic: str
    partition: int
    leader_epoch: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: list[tuple[str, bytes | None]]
    checksum: None
    serialized_key_size: int
    serialized_value_size: int
    serialized_header_size: int


class KafkaRecordMetadata(NamedTuple):
    """The place of a record that was acknowledged. Sizes are in bytes, or -1 for a part that the record lacks."""

    topic: str
    partition: int
    topic_partition: TopicPartition
    offset: int
    timestamp: int
    checksum: None
    serialized_key_size: int
    serialized_value_size: int
    serialized_header_size: int
