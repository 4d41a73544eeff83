"""AssignReplicasToDirs (KIP-858): a broker reports the log directory of each of its replicas.

With the report, the controller can tell a replica that was never created from one whose directory is lost.
"""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.context import METADATA_FEATURE, ControllerContext, MetadataDecision
from pykbroker.core.metadata.record import DIRECTORIES_LEVEL, Record
from wire.error_codes import ErrorCode
from wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)
from wire.stored.metadata_topics import PartitionChangeRecord


def assign_directories(context: ControllerContext, request: AssignReplicasToDirsRequest) -> MetadataDecision:
    """Return the metadata records and the response. An assignment that the metadata already has writes no record."""
    if context.feature(METADATA_FEATURE) < DIRECTORIES_LEVEL:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "Directory assignment is not supported yet.")
    broker = context.registered(request.broker_id, request.broker_epoch)
    records: list[Record] = []
    answered = []
    for directory in request.directories:
        topics = [
            AssignReplicasToDirsResponseTopicData(
                topic_id=topic.topic_id,
                partitions=[
                    AssignReplicasToDirsResponsePartitionData(
                        partition_index=partition.partition_index,
                        error_code=_assign(
                            context, records, broker.id, topic.topic_id, partition.partition_index, directory.id
                        ),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in directory.topics
        ]
        answered.append(AssignReplicasToDirsResponseDirectoryData(id=directory.id, topics=topics))
    return records, AssignReplicasToDirsResponse(directories=answered)


def _assign(
    context: ControllerContext, records: list[Record], broker_id: int, topic_id: bytes, index: int, directory: bytes
) -> ErrorCode:
    topic = context.draft.topics.get(topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker_id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    directories = list(partition.directories)
    place = partition.replicas.index(broker_id)
    if directories[place] != directory:
        directories[place] = directory
        records.append(PartitionChangeRecord(partition_id=index, topic_id=topic_id, directories=directories))
    return ErrorCode.NONE
