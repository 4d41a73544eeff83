"""The answers of a scripted node to ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.sim.scripted.leadership import ServingNode, log_of
from wire.declare import NIL
from wire.header import RequestHeader
from wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from wire.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP


async def answer_list_offsets(
    node: ServingNode, header: RequestHeader, request: ListOffsetsRequest
) -> ListOffsetsResponse:
    """Return the offsets for timestamps."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(topic.name, [_list_offset(node, topic.name, each) for each in topic.partitions])
            for topic in request.topics
        ]
    )


def _list_offset(node: ServingNode, topic: str, asked: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
    partition = node.state.named(topic, NIL, asked.partition_index)
    try:
        log = log_of(node, partition, NIL, asked.current_leader_epoch)
    except ApiError as error:
        return ListOffsetsPartitionResponse(asked.partition_index, error.code)
    if asked.timestamp in (LATEST_TIMESTAMP, EARLIEST_TIMESTAMP):
        offset = log.end_offset if asked.timestamp == LATEST_TIMESTAMP else log.start_offset
        return ListOffsetsPartitionResponse(asked.partition_index, 0, -1, offset, node.state.leader_epoch(partition))
    found = (
        max(log.records, key=lambda record: record.timestamp, default=None)
        if asked.timestamp == MAX_TIMESTAMP
        else log.first_since(asked.timestamp)
    )
    if found is None:
        return ListOffsetsPartitionResponse(asked.partition_index, 0)
    epoch = log.epoch_at(found.offset)
    return ListOffsetsPartitionResponse(asked.partition_index, 0, found.timestamp, found.offset, epoch)


async def answer_offset_for_leader_epoch(
    node: ServingNode, header: RequestHeader, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Return the end offsets of leader epochs (KIP-320)."""
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        answered = []
        for asked in topic.partitions:
            try:
                partition = node.state.named(topic.topic, NIL, asked.partition)
                log = log_of(node, partition, NIL, asked.current_leader_epoch)
                end = log.end_of_epoch(asked.leader_epoch)
                answered.append(EpochEndOffset(0, asked.partition, end.epoch, end.offset))
            except ApiError as error:
                answered.append(EpochEndOffset(error.code, asked.partition))
        response.topics.append(OffsetForLeaderTopicResult(topic.topic, answered))
    return response
