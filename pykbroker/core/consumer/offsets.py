"""ListOffsets: the offsets of timestamps, and of the ends of logs, from the leaders of their partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pykbroker.core.consumer.errors import TopicsUnauthorized
from pykbroker.core.consumer.position import PartitionLeaderOf
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode
from wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic
from wire.sentinels import CONSUMER_REPLICA_ID, NO_LEADER_EPOCH, NO_OFFSET


class TimedOffset(NamedTuple):
    """The first offset whose record has at least the requested timestamp, and its timestamp and leader epoch."""

    offset: int
    timestamp: int
    epoch: int = NO_LEADER_EPOCH


class OffsetsFound(NamedTuple):
    """The offsets of a ListOffsets response, None where the log has none, and the partitions to ask for again."""

    offsets: dict[TopicPartition, TimedOffset | None]
    retry: set[TopicPartition]


class LeaderRequests(NamedTuple):
    """The ListOffsets requests by node id, and the partitions whose leader is unknown."""

    by_node: dict[int, ListOffsetsRequest]
    leaderless: set[TopicPartition]


def list_offsets_requests(
    timestamps: Mapping[TopicPartition, int], leader_of: PartitionLeaderOf, *, committed: bool, timeout_ms: int
) -> LeaderRequests:
    """Return the requests for the offsets of these timestamps, one for each leader.

    With `committed`, the end of a log is its last stable offset, otherwise its high watermark.
    """
    by_node: dict[int, dict[str, ListOffsetsTopic]] = {}
    leaderless = set()
    for partition, timestamp in timestamps.items():
        leader = leader_of(partition)
        if leader.node is None:
            leaderless.add(partition)
            continue
        topics = by_node.setdefault(leader.node, {})
        topic = topics.setdefault(partition.topic, ListOffsetsTopic(partition.topic, []))
        topic.partitions.append(ListOffsetsPartition(partition.partition, leader.epoch, timestamp))
    requests = {
        node: ListOffsetsRequest(CONSUMER_REPLICA_ID, int(committed), list(topics.values()), timeout_ms)
        for node, topics in by_node.items()
    }
    return LeaderRequests(requests, leaderless)


def requested_partitions(request: ListOffsetsRequest) -> dict[TopicPartition, int]:
    """Return the timestamps of a request by partition."""
    return {
        TopicPartition(topic.name, each.partition_index): each.timestamp
        for topic in request.topics
        for each in topic.partitions
    }


def offsets_found(request: ListOffsetsRequest, response: ListOffsetsResponse) -> OffsetsFound:
    """Return what a response says. Raise TopicsUnauthorized if a topic may not be read.

    A partition that the response omits is to be asked for again.
    """
    found = OffsetsFound({}, set(requested_partitions(request)))
    unauthorized = set()
    for topic in response.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            if partition not in found.retry:
                continue
            if each.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                unauthorized.add(topic.name)
            if each.error_code in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT):
                is_known = not each.error_code and each.offset != NO_OFFSET
                offset = TimedOffset(each.offset, each.timestamp, each.leader_epoch) if is_known else None
                found.offsets[partition] = offset
                found.retry.discard(partition)
    if unauthorized:
        raise TopicsUnauthorized(unauthorized)
    return found
