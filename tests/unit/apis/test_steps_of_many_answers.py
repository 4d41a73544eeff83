"""Requests with thousands of results: the handler computes them in several steps, between which other tasks run."""

from __future__ import annotations

from collections.abc import Coroutine
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from pykbroker.apis.configs.incremental_alter_configs import IncrementalAlterConfigs
from pykbroker.apis.groups.consumer_group_describe import ConsumerGroupDescribe
from pykbroker.apis.groups.consumer_group_heartbeat import ConsumerGroupHeartbeat
from pykbroker.apis.groups.describe_groups import DescribeGroups
from pykbroker.apis.groups.find_coordinator import FindCoordinator
from pykbroker.apis.groups.list_groups import ListGroups
from pykbroker.apis.groups.offset_commit import OffsetCommit
from pykbroker.apis.groups.offset_delete import OffsetDelete
from pykbroker.apis.groups.offset_fetch import OffsetFetch
from pykbroker.apis.records.delete_records import DeleteRecords
from pykbroker.apis.records.describe_producers import DescribeProducers
from pykbroker.apis.records.offset_for_leader_epoch import OffsetForLeaderEpoch
from pykbroker.apis.topics.create_partitions import CreatePartitions
from pykbroker.apis.topics.create_topics import CreateTopics
from pykbroker.apis.topics.delete_topics import DeleteTopics
from pykbroker.apis.topics.describe_topic_partitions import DescribeTopicPartitions
from pykbroker.apis.topics.list_partition_reassignments import ListPartitionReassignments
from pykbroker.apis.topics.metadata import Metadata
from pykbroker.apis.transactions.describe_transactions import DescribeTransactions
from pykbroker.apis.transactions.txn_offset_commit import TxnOffsetCommit
from pykbroker.apis.transactions.write_txn_markers import AT_ONCE_MAX, WriteTxnMarkers
from pykbroker.core.address import Address
from pykbroker.core.errors import ApiError
from pykbroker.core.log.producers import Producers
from pykbroker.core.metadata.delete_topics import delete_topics
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.core.security.session import Session
from pykbroker.core.steps import Steps
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.core.txn.requests import FindTransaction, FoundTransactions
from pykbroker.core.txn.transaction import Transaction
from pykbroker.machines.call import Call, refused
from pykbroker.server.answers import Answers
from pykbroker.server.endpoints import BrokerEndpoints
from pykbroker.server.forwarding import ControllerRequests
from pykbroker.server.handler import ApiHandler, Later, resolve
from pykbroker.world import portions
from tests.unit.apis.calling import Denies, context
from tests.unit.apis.test_steps_of_many_partitions import IMAGE, counted, others_turns
from wire.error_codes import ErrorCode
from wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
)
from wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from wire.messages.describe_groups import DescribeGroupsRequest
from wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from wire.messages.describe_transactions import DescribeTransactionsRequest
from wire.messages.find_coordinator import FindCoordinatorRequest
from wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderTopic
from wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

MANY = 20_000
PORTIONS = MANY // portions.AT_ONCE_MAX
NAMES = [f"nowhere{number}" for number in range(MANY)]


def caught(steps: Steps[Any]) -> Steps[Any]:
    """Return the result of the steps, or the error that they raise."""
    try:
        return (yield from steps)
    except ApiError as error:
        return error


def described(producers: Producers, topics: list[TopicRequest]) -> tuple[int, Any]:
    log = SimpleNamespace(producers=producers)
    replicas: Any = SimpleNamespace(partition=lambda *_: SimpleNamespace(require_leader=lambda: log))
    steps: Any = DescribeProducers(lambda: IMAGE, replicas)(context(0), DescribeProducersRequest(topics))
    return counted(steps)


def test_the_producers_of_a_partition_are_described_in_several_steps() -> None:
    producers = Producers()
    for number in range(MANY):
        producers.remember(number, 0, 0, number, 0, 0, transactional=False)
    count, response = described(producers, [TopicRequest("t", [0])])
    assert len(response.topics[0].partitions[0].active_producers) == MANY
    assert count >= PORTIONS


def test_a_partition_that_is_named_repeatedly_is_described_once() -> None:
    _, response = described(Producers(), [TopicRequest("t", [1, 0, 1]), TopicRequest("t", [0] * MANY)])
    (topic,) = response.topics
    assert [one.partition_index for one in topic.partitions] == [1, 0]


def test_producers_of_an_unknown_topic_are_refused_one_partition_per_step() -> None:
    count, response = described(Producers(), [TopicRequest("nowhere", list(range(MANY)))])
    assert {one.error_code for one in response.topics[0].partitions} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert count >= MANY


@pytest.mark.parametrize("topic", ["t", "nowhere"])
def test_offset_commits_are_checked_in_several_steps(topic: str) -> None:
    call = Call()
    call.settle(OffsetDeleteResponse())
    groups: Any = SimpleNamespace(ask=lambda name, asked: call)
    asked = OffsetDeleteRequest(
        "g", [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(0) for _ in range(MANY)])]
    )
    steps: Any = OffsetDelete(groups, lambda: IMAGE)(context(0), asked)
    count, response = counted(steps)
    assert count >= PORTIONS
    assert sum(len(one.partitions) for one in response.topics) == (MANY if topic == "nowhere" else 0)


def test_refused_offsets_are_merged_one_topic_per_step() -> None:
    call = Call()
    call.settle(OffsetDeleteResponse())
    groups: Any = SimpleNamespace(ask=lambda name, asked: call)
    asked = OffsetDeleteRequest(
        "g", [OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(0)]) for name in NAMES]
    )
    steps: Any = OffsetDelete(groups, lambda: IMAGE)(context(0), asked)
    count, response = counted(steps)
    assert count >= 2 * MANY
    assert [topic.name for topic in response.topics] == NAMES


NOTHING: Any = None


class DeniesTopics(Denies):
    """An authorizer that denies everything on topics, and the creation of topics."""

    def allows(self, session: Session, operation: Operation, resource: ResourceType, *_: object, **__: object) -> bool:
        return resource is not ResourceType.TOPIC and operation is not Operation.CREATE


DENIED_ON_TOPICS = DeniesTopics()
DENIED = Denies(Operation.DESCRIBE, Operation.CLUSTER_ACTION)
ENDPOINTS = BrokerEndpoints(1, MetadataImage, {"PLAINTEXT": Address("h", 1)})
OF_MANY: Any = SimpleNamespace(
    name="nowhere",
    topics=SimpleNamespace(by_name={name: SimpleNamespace(name=name) for name in NAMES}),
    cluster=MetadataImage().cluster,
)
LISTED = Call()
LISTED.settle(ListGroupsResponse(groups=[ListedGroup(name) for name in NAMES]))
OF_GROUPS: Any = SimpleNamespace(ask_all=lambda request: [LISTED])
OF_TOPICS = Call()
OF_TOPICS.settle(ConsumerGroupDescribeResponse(groups=[DescribedGroup(members=[Member(subscribed_topic_names=NAMES)])]))
OF_ONE_GROUP: Any = SimpleNamespace(ask=lambda name, asked: OF_TOPICS)
UNKNOWN: Any = SimpleNamespace(ask=lambda name, asked: refused(ApiError(ErrorCode.GROUP_ID_NOT_FOUND)))
METADATA = Metadata(1, "c", lambda: OF_MANY, NOTHING, ENDPOINTS, True, NOTHING, Answers(), NOTHING)


COMMITTED = [OffsetCommitRequestTopic(name, partitions=[OffsetCommitRequestPartition()]) for name in NAMES]
IN_TRANSACTION = [TxnOffsetCommitRequestTopic(name, [TxnOffsetCommitRequestPartition()]) for name in NAMES]


@pytest.mark.parametrize(
    ("handler", "request_"),
    [
        (CreateTopics(NOTHING), CreateTopicsRequest([*map(CreatableTopic, NAMES)])),
        (CreatePartitions(NOTHING), CreatePartitionsRequest([*map(CreatePartitionsTopic, NAMES)])),
        (
            ConsumerGroupHeartbeat(NOTHING, lambda: True),
            ConsumerGroupHeartbeatRequest("g", subscribed_topic_names=NAMES),
        ),
        (ConsumerGroupDescribe(OF_ONE_GROUP, lambda: True), ConsumerGroupDescribeRequest(["g"])),
        (OffsetCommit(NOTHING, lambda: IMAGE), OffsetCommitRequest("g", topics=COMMITTED)),
        (
            TxnOffsetCommit(NOTHING, NOTHING, NOTHING, lambda: IMAGE, NOTHING, NOTHING),
            TxnOffsetCommitRequest("x", "g", topics=IN_TRANSACTION),
        ),
        (
            OffsetFetch(UNKNOWN, lambda: IMAGE, lambda: False),
            OffsetFetchRequest("g", [OffsetFetchRequestTopic(name) for name in NAMES]),
        ),
        (
            FindCoordinator(lambda: IMAGE, NOTHING, {1: OF_MANY}, ENDPOINTS),
            FindCoordinatorRequest(key_type=1, coordinator_keys=NAMES),
        ),
    ],
    ids=lambda part: type(part).__name__ if isinstance(part, ApiHandler) else "",
)
def test_each_right_that_the_client_does_not_have_is_asked_for_in_its_own_step(handler: Any, request_: Any) -> None:
    denies = DENIED if isinstance(handler, FindCoordinator) else DENIED_ON_TOPICS
    count, answer = counted(caught(resolve(handler(context(4, denies), request_))))
    assert count >= MANY
    if isinstance(answer, Later):  # for the controller
        assert isinstance(answer.work, Coroutine)
        answer.work.close()


@pytest.mark.parametrize(
    ("handler", "request_", "times"),
    [
        (METADATA, MetadataRequest(None), 1),
        (METADATA, MetadataRequest([MetadataRequestTopic(name=f"absent-{name}") for name in NAMES]), 2),
        (DescribeTopicPartitions(lambda: OF_MANY, 9, 1, NOTHING, ENDPOINTS), DescribeTopicPartitionsRequest([]), 1),
        (OffsetForLeaderEpoch(NOTHING), OffsetForLeaderEpochRequest(topics=[*map(OffsetForLeaderTopic, NAMES)]), 1),
        (ListGroups(OF_GROUPS), ListGroupsRequest(), 1),
    ],
    ids=["Metadata", "Metadata of absent topics", "DescribeTopicPartitions", "OffsetForLeaderEpoch", "ListGroups"],
)
def test_each_name_is_authorized_in_its_own_step(handler: Any, request_: Any, times: int) -> None:
    count, _ = counted(handler(context(4, DENIED), request_))
    assert count >= times * MANY


@pytest.mark.parametrize(
    ("handler", "request_"),
    [
        (ConsumerGroupDescribe(UNKNOWN, lambda: True), ConsumerGroupDescribeRequest(NAMES)),
        (DescribeGroups(UNKNOWN), DescribeGroupsRequest(NAMES)),
    ],
    ids=["ConsumerGroupDescribe", "DescribeGroups"],
)
def test_each_group_is_described_in_its_own_step(handler: Any, request_: Any) -> None:
    count, response = counted(handler(context(0), request_))
    assert count >= 2 * MANY
    assert [group.group_id for group in response.groups] == NAMES


async def test_each_group_is_described_in_its_own_step_after_a_wait() -> None:
    call = Call()
    groups: Any = SimpleNamespace(ask=lambda name, asked: call)
    steps: Any = DescribeGroups(groups)(context(0), DescribeGroupsRequest(NAMES))
    _, later = counted(steps)
    call.settle(ApiError(ErrorCode.NOT_COORDINATOR))
    count, response = counted(await later.work)
    assert count >= MANY
    assert len(response.groups) == MANY


async def test_each_topic_of_a_transaction_is_authorized_in_its_own_step() -> None:
    known = Transaction("x", 7, 1000, partitions=frozenset(TopicPartition(name, 0) for name in NAMES))

    async def send(_request: FindTransaction) -> FoundTransactions:
        return FoundTransactions((known,))

    transactions: Any = SimpleNamespace(send=send)
    request = DescribeTransactionsRequest(["x"])
    later: Any = DescribeTransactions(transactions)(context(0, DENIED_ON_TOPICS), request)
    count, response = counted(await later.work)
    assert count >= MANY
    assert response.transaction_states[0].topics == []


def test_reassignments_are_listed_in_several_steps() -> None:
    steps: Any = ListPartitionReassignments(lambda: IMAGE)(
        context(0), ListPartitionReassignmentsRequest(topics=[ListPartitionReassignmentsTopics("t", [0] * MANY)])
    )
    count, response = counted(steps)
    assert count >= PORTIONS
    assert response.topics == []


@pytest.mark.parametrize(("markers", "topics", "partitions"), [(MANY, 1, 1), (1, MANY, 1), (1, 1, MANY)])
async def test_transaction_markers_are_appended_and_awaited_in_several_steps(
    markers: int, topics: int, partitions: int
) -> None:
    turns, awaited_at = 0, list[int]()

    class Ending:
        async def wait(self) -> None:
            """Return at once, as if the marker were committed."""
            awaited_at.append(turns)

    endings: Any = SimpleNamespace(append=lambda topic, index, marker: Ending())
    asked = WriteTxnMarkersRequest(
        [
            WritableTxnMarker(
                number, topics=[WritableTxnMarkerTopic("t", list(range(partitions))) for _ in range(topics)]
            )
            for number in range(markers)
        ]
    )
    answer: Any = WriteTxnMarkers(endings, inf)(context(1), asked)
    found = list[Any]()

    async def run() -> None:
        found.append(await answer.work)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        while not found:
            await trio.lowlevel.checkpoint()
            turns += 1
    assert awaited_at[0] >= MANY // AT_ONCE_MAX
    assert turns - awaited_at[0] >= MANY // AT_ONCE_MAX - 1
    assert sum(len(topic.partitions) for marker in found[0].markers for topic in marker.topics) == MANY


def test_the_partitions_of_delete_records_are_collected_in_several_steps() -> None:
    def nowhere(*_: object) -> None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    replicas: Any = SimpleNamespace(partition=nowhere)
    steps: Any = DeleteRecords(replicas)(
        context(2), DeleteRecordsRequest(topics=[DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 1)] * MANY)])
    )
    count, response = counted(steps)
    assert count >= PORTIONS
    assert len(response.topics[0].partitions) == 1


def test_each_topic_is_deleted_in_its_own_step() -> None:
    machine: Any = SimpleNamespace(draft=SimpleNamespace(names={}, topics={}))
    steps: Any = delete_topics(machine, DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in NAMES]))
    count, (records, response) = counted(steps)
    assert count >= 2 * MANY
    assert (records, [one.name for one in response.responses]) == ([], NAMES)


@pytest.mark.parametrize("version", [5, 6])
async def test_the_topics_of_delete_topics_are_authorized_in_several_steps(version: int) -> None:
    async def delete(request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        assert [topic.name for topic in request.topics] == NAMES
        return DeleteTopicsResponse()

    controller: Any = SimpleNamespace(ask=delete)
    asked = (
        DeleteTopicsRequest(topic_names=list(NAMES))
        if version == 5
        else DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in NAMES])
    )
    held = DeleteTopics(controller, lambda: IMAGE, True)(context(version), asked)
    turns, _ = await others_turns(held)
    assert turns >= (2 if version == 5 else 1) * PORTIONS


async def test_config_resources_are_authorized_in_several_steps_and_altered_one_per_step() -> None:
    async def alter(request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
        return IncrementalAlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(0, None, one.resource_type, one.resource_name) for one in request.resources
            ]
        )

    controller = ControllerRequests(SimpleNamespace(ask=alter))
    held = IncrementalAlterConfigs(1, controller)(
        context(1), IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(2, name) for name in NAMES])
    )
    turns, steps = await others_turns(held)
    assert turns >= PORTIONS
    count, response = counted(steps)
    assert count >= 2 * MANY
    assert [one.resource_name for one in response.responses] == NAMES
