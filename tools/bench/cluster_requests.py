"""Requests about a cluster: its brokers, the leaders and ISRs of a topic, its controller, and topics with a placement.

Unlike `frames`, this module uses ``wire``: it asks what the clusters are like, and measures nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tools.bench.frames import Caller
from wire.declare import Request, Response
from wire.frame import decode_response, encode_request
from wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
)
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from wire.sentinels import NO_LEADER

PATIENCE_S = 5
CREATE_MS_MAX = 30_000
METADATA_VERSION, CREATE_VERSION, QUORUM_VERSION = 7, 5, 0
METADATA_TOPIC = "__cluster_metadata"

R = TypeVar("R", bound=Response)


@dataclass(frozen=True)
class TopicView:
    """A topic as one broker knows it: the leader and the ISR of each partition, in their order."""

    leaders: list[int]
    isrs: list[list[int]]

    def is_full(self, partitions: int, replicas: int) -> bool:
        """Whether all partitions have a leader, and as many replicas in the ISR."""
        return (
            len(self.leaders) == partitions
            and NO_LEADER not in self.leaders
            and all(len(isr) == replicas for isr in self.isrs)
        )


def call(caller: Caller, response: type[R], request: Request[Any], version: int) -> R:
    """Send a request, and return the response."""
    frame = encode_request(request, version, 1, "bench")
    return decode_response(response, version, caller.call(frame))[1]


def metadata(port: int, topic: str | None = None) -> MetadataResponse | None:
    """Return the metadata of a topic, or of none, as the broker on this port knows it; None if it does not answer."""
    topics = [] if topic is None else [MetadataRequestTopic(name=topic)]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    try:
        with Caller(port, PATIENCE_S) as caller:
            return call(caller, MetadataResponse, request, METADATA_VERSION)
    except OSError:
        return None


def broker_count(port: int) -> int | None:
    """Return the number of live brokers that the broker on this port knows, or None if it does not answer."""
    found = metadata(port)
    return None if found is None else len(found.brokers)


def describe(port: int, topic: str) -> TopicView | None:
    """Return a topic as the broker on this port knows it, or None if it does not answer."""
    found = metadata(port, topic)
    if found is None:
        return None
    partitions = sorted(found.topics[0].partitions, key=lambda one: one.partition_index)
    return TopicView([one.leader_id for one in partitions], [one.isr_nodes for one in partitions])


def raft_leader(port: int) -> int:
    """Return the active controller of a cluster of Kafka's nodes."""
    topic = DescribeQuorumRequestTopicData(METADATA_TOPIC, [DescribeQuorumRequestPartitionData(0)])
    with Caller(port, PATIENCE_S) as caller:
        found = call(caller, DescribeQuorumResponse, DescribeQuorumRequest([topic]), QUORUM_VERSION)
    return found.topics[0].partitions[0].leader_id


def create_placed(port: int, topic: str, placed: Sequence[Sequence[int]]) -> None:
    """Create a topic whose partitions have these replicas, the first of which is preferred as leader.

    Raise RuntimeError if the topic is refused.
    """
    assignments = [CreatableReplicaAssignment(index, list(brokers)) for index, brokers in enumerate(placed)]
    request = CreateTopicsRequest([CreatableTopic(topic, -1, -1, assignments)], CREATE_MS_MAX)
    with Caller(port) as caller:
        result = call(caller, CreateTopicsResponse, request, CREATE_VERSION).topics[0]
    if result.error_code:
        raise RuntimeError(f"topic {topic} was not created: {result.error_message}")
