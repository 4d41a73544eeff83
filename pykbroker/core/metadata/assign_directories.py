"""AssignReplicasToDirs (KIP-858): a broker reports the log directory of each of its replicas.

With the report, the controller can tell a replica that was never created from one whose directory is lost. A replica in
a directory that is offline loses its leadership and leaves the ISR.

The report of a lost replica begins a new leader epoch, which Kafka does not do: leaders then refuse a late fetch of the
lost replica, which would otherwise be taken for one of the empty replica that replaces it.
"""

from __future__ import annotations

from functools import partial

import msgspec

from pykbroker.core.errors import ApiError
from pykbroker.core.ids import LOST
from pykbroker.core.metadata.context import METADATA_FEATURE, ControllerContext, Deciding
from pykbroker.core.metadata.image import TopicImage
from pykbroker.core.metadata.partition_change import ReplicaAssignment, change, without
from pykbroker.core.metadata.record import DIRECTORIES_LEVEL, Record
from pykbroker.core.metadata.replay import NO_LEADER_CHANGE
from pykbroker.core.steps import each
from wire.error_codes import ErrorCode
from wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)
from wire.sentinels import NO_LEADER
from wire.stored.metadata_topics import PartitionChangeRecord


def assign_directories(context: ControllerContext, request: AssignReplicasToDirsRequest) -> Deciding:
    """Return the metadata records and the response. An assignment that the metadata already has writes no record."""
    if context.feature(METADATA_FEATURE) < DIRECTORIES_LEVEL:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "Directory assignment is not supported yet.")
    broker = context.registered(request.broker_id, request.broker_epoch)
    records: list[Record] = []
    answered = []
    for directory in request.directories:
        topics = []
        for topic in directory.topics:
            indexes = [partition.partition_index for partition in topic.partitions]
            assign = partial(_assign, context, records, broker.id, topic.topic_id, directory.id)
            topics.append(
                AssignReplicasToDirsResponseTopicData(
                    topic_id=topic.topic_id, partitions=(yield from each(assign, indexes))
                )
            )
        answered.append(AssignReplicasToDirsResponseDirectoryData(id=directory.id, topics=topics))
    return records, AssignReplicasToDirsResponse(directories=answered)


def _assign(
    context: ControllerContext, records: list[Record], broker_id: int, topic_id: bytes, directory: bytes, index: int
) -> AssignReplicasToDirsResponsePartitionData:
    answer = AssignReplicasToDirsResponsePartitionData(partition_index=index)
    topic = context.draft.topics.get(topic_id)
    partition = None if topic is None else topic.partitions.get(index)
    if topic is None:
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_ID
    elif partition is None:
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif broker_id not in partition.replicas:
        answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    elif partition.directory(broker_id) != directory:
        record = move(context, topic, index, broker_id, directory)
        records += [record] if record is not None else []
    return answer


def move(
    context: ControllerContext, topic: TopicImage, index: int, broker_id: int, directory: bytes
) -> PartitionChangeRecord | None:
    """Return the record that moves a replica to a directory. In an offline directory it leaves the ISR.

    A lost replica begins a new leader epoch.

    A replica that replaces one in an offline directory is not in the ISR, and leaves the ELR, since it begins anew.
    """
    partition = topic.partitions[index]
    broker = context.broker(broker_id)
    target = ReplicaAssignment.of(partition)
    if broker is None or not broker.is_online(directory):
        target = msgspec.structs.replace(target, isr=without(partition.isr, (broker_id,)))
    anew = broker is None or not broker.is_online(partition.directory(broker_id))
    record = change(
        context,
        topic,
        index,
        target,
        context.rules(topic.name),
        directories={broker_id: directory},
        lost=broker_id if anew and broker_id in partition.elr else None,
    )
    # The new leader epoch fences late fetches of the lost replica: see 3 of `core/replication/repair`.
    if record is not None and directory == LOST and record.leader == NO_LEADER_CHANGE and partition.leader != NO_LEADER:
        record.leader = partition.leader
    return record
