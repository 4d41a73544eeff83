"""Reassignments of partitions to other brokers (KIP-455), and how much of them is left to copy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pykbroker.client.admin.admin import TIMEOUT_MS, Admin, check, refusal
from pykbroker.client.brokers import Brokers
from pykbroker.client.errors import Disconnected
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition, indexes_by_topic
from wire.error_codes import ErrorCode
from wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from wire.messages.metadata import MetadataRequest

REASONS: Mapping[int, str] = {ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "no reassignment is in progress"}


class Reassignment(NamedTuple):
    """A reassignment in progress. `replicas` includes those that it adds and removes."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.replicas if broker not in self.removing)


async def reassignments(admin: Admin) -> dict[TopicPartition, Reassignment]:
    """Return all reassignments in progress, sorted by partition."""
    answer = await admin.connection.ask(ListPartitionReassignmentsRequest(TIMEOUT_MS))
    check(answer.error_code, answer.error_message or "reassignments")
    found = {
        TopicPartition(topic.name, part.partition_index): Reassignment(
            TopicPartition(topic.name, part.partition_index),
            tuple(part.replicas),
            tuple(part.adding_replicas),
            tuple(part.removing_replicas),
        )
        for topic in answer.topics
        for part in topic.partitions
    }
    return dict(sorted(found.items()))


async def reassign(
    admin: Admin, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, ApiError | None]:
    """Begin to move partitions to these replicas, or cancel their moves where the replicas are None.

    Return the refusal of each partition, or None. Raise ApiError if the request is refused as a whole.
    """
    topics: dict[str, ReassignableTopic] = {}
    for (name, index), replicas in targets.items():
        topic = topics.setdefault(name, ReassignableTopic(name, []))
        topic.partitions.append(ReassignablePartition(index, None if replicas is None else list(replicas)))
    request = AlterPartitionReassignmentsRequest(TIMEOUT_MS, topics=list(topics.values()))
    answer = await admin.connection.ask(request)
    check(answer.error_code, answer.error_message or "the reassignment")
    return {
        partition: refusal(partition, part.error_code, part.error_message or REASONS.get(part.error_code, "refused"))
        for topic in answer.responses
        for part in topic.partitions
        for partition in [TopicPartition(topic.name, part.partition_index)]
    }


async def replica_bytes(
    admin: Admin, wanted: Mapping[int, Iterable[TopicPartition]]
) -> dict[tuple[int, TopicPartition], int]:
    """Return the sizes of replicas, by broker id and partition. Brokers that do not answer are left out."""
    brokers, found = Brokers(admin), dict[tuple[int, TopicPartition], int]()
    metadata = await admin.connection.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False))
    try:
        for broker in metadata.brokers:
            topics = indexes_by_topic(wanted.get(broker.node_id, ()))
            if not topics:
                continue
            request = DescribeLogDirsRequest([DescribableLogDirTopic(*each) for each in topics.items()])
            try:
                alone = len(metadata.brokers) == 1
                connection = await brokers.connection(broker.host, broker.port, alone=alone)
                answer = await connection.ask(request)
            except (OSError, Disconnected):
                continue
            for directory in answer.results:
                for topic in directory.topics:
                    for part in topic.partitions:
                        if not part.is_future_key:
                            one = TopicPartition(topic.name, part.partition_index)
                            found[broker.node_id, one] = part.partition_size
    finally:
        brokers.close()
    return found
