"""The broker that serves a request: pure functions from requests to leaders and coordinators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pykbroker.sim.history import Place
from wire.declare import Request, Response
from wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wire.messages.delete_records import DeleteRecordsRequest
from wire.messages.end_txn import EndTxnRequest
from wire.messages.fetch import FetchRequest, FetchResponse, FetchTopic
from wire.messages.find_coordinator import CoordinatorType
from wire.messages.heartbeat import HeartbeatRequest
from wire.messages.init_producer_id import InitProducerIdRequest
from wire.messages.join_group import JoinGroupRequest
from wire.messages.leave_group import LeaveGroupRequest
from wire.messages.list_offsets import ListOffsetsRequest
from wire.messages.offset_commit import OffsetCommitRequest
from wire.messages.offset_fetch import OffsetFetchRequest
from wire.messages.produce import ProduceRequest, ProduceResponse
from wire.messages.sync_group import SyncGroupRequest
from wire.messages.txn_offset_commit import TxnOffsetCommitRequest

CoordinatorKey = tuple[int, str]
"""The key type and the key of FindCoordinator."""
LeaderLookup = Callable[[Place], int]
"""A function that returns the node id of a partition's leader."""
COORDINATED: dict[type, tuple[int, str]] = {
    InitProducerIdRequest: (CoordinatorType.TRANSACTION, "transactional_id"),
    AddPartitionsToTxnRequest: (CoordinatorType.TRANSACTION, "v3_and_below_transactional_id"),
    AddOffsetsToTxnRequest: (CoordinatorType.TRANSACTION, "transactional_id"),
    EndTxnRequest: (CoordinatorType.TRANSACTION, "transactional_id"),
    TxnOffsetCommitRequest: (CoordinatorType.GROUP, "group_id"),
    OffsetCommitRequest: (CoordinatorType.GROUP, "group_id"),
    OffsetFetchRequest: (CoordinatorType.GROUP, "group_id"),
    JoinGroupRequest: (CoordinatorType.GROUP, "group_id"),
    SyncGroupRequest: (CoordinatorType.GROUP, "group_id"),
    HeartbeatRequest: (CoordinatorType.GROUP, "group_id"),
    LeaveGroupRequest: (CoordinatorType.GROUP, "group_id"),
    ConsumerGroupHeartbeatRequest: (CoordinatorType.GROUP, "group_id"),
}
"""The requests to coordinators: the key type, and the field that has the key."""


def coordinator_key(request: Request[Any]) -> CoordinatorKey | None:
    """Return the key of the coordinator that serves a request, or None if no coordinator does."""
    if type(request) not in COORDINATED:
        return None
    key_type, name = COORDINATED[type(request)]
    key = getattr(request, name)
    if isinstance(request, OffsetFetchRequest) and request.groups:
        key = request.groups[0].group_id
    return (key_type, key) if key else None


def split(request: Request[Any], leader_of: LeaderLookup) -> dict[int, Request[Any]]:
    """Split a request for partitions by their leaders, and return the parts by node id.

    Return an empty dictionary for a request that any broker serves.
    """
    if isinstance(request, ProduceRequest):
        return _split_produce(request, leader_of)
    if isinstance(request, FetchRequest):
        return _split_fetch(request, leader_of)
    if isinstance(request, ListOffsetsRequest | DeleteRecordsRequest):
        (topic,) = request.topics
        (partition,) = topic.partitions
        return {leader_of((topic.name, partition.partition_index)): request}
    return {}


def _split_produce(request: ProduceRequest, leader_of: LeaderLookup) -> dict[int, Request[Any]]:
    parts: dict[int, Request[Any]] = {}
    for topic in request.topic_data:
        (data,) = topic.partition_data
        part = parts.setdefault(
            leader_of((topic.name, data.index)),
            ProduceRequest(
                transactional_id=request.transactional_id,
                acks=request.acks,
                timeout_ms=request.timeout_ms,
                topic_data=[],
            ),
        )
        assert isinstance(part, ProduceRequest)
        part.topic_data.append(topic)
    return parts


def _split_fetch(request: FetchRequest, leader_of: LeaderLookup) -> dict[int, Request[Any]]:
    topics: dict[tuple[int, str], FetchTopic] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            key = leader_of((topic.topic, partition.partition)), topic.topic
            topics.setdefault(key, FetchTopic(topic.topic, topic.topic_id, [])).partitions.append(partition)
    parts: dict[int, Request[Any]] = {}
    for (node_id, _), topic in topics.items():
        part = parts.setdefault(
            node_id,
            FetchRequest(
                max_wait_ms=request.max_wait_ms,
                min_bytes=request.min_bytes,
                max_bytes=request.max_bytes,
                isolation_level=request.isolation_level,
                topics=[],
            ),
        )
        assert isinstance(part, FetchRequest)
        part.topics.append(topic)
    return parts


def merged(request: Request[Any], leader_of: LeaderLookup, answers: dict[int, Response]) -> Response:
    """Return one response from the responses of all leaders. Produce responses keep the order of the request."""
    whole, *others = answers.values()
    if isinstance(request, ProduceRequest):
        taken = {node_id: iter(answer.responses) for node_id, answer in _produced(answers)}
        places = [(topic.name, topic.partition_data[0].index) for topic in request.topic_data]
        return ProduceResponse(responses=[next(taken[leader_of(place)]) for place in places])
    for other in others:
        assert isinstance(whole, FetchResponse)
        assert isinstance(other, FetchResponse)
        whole.responses += other.responses
    return whole


def _produced(answers: dict[int, Response]) -> Iterator[tuple[int, ProduceResponse]]:
    for node_id, answer in answers.items():
        assert isinstance(answer, ProduceResponse)
        yield node_id, answer
