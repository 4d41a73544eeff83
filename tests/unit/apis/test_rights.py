"""Every row of the table of rights, on a running broker: the answers to clients that lack the right or have it.

A client has all rights but those of one row. It is answered as the row says, whether the resource exists or not, and
with each of the operations of which one suffices it is answered as a client that may do everything.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pykbroker.apis.raft.fetch import MetadataLogFetch
from pykbroker.apis.records.list_offsets import ListOffsets
from pykbroker.broker.parts import Parts
from pykbroker.core.config.resource import ConfigResource
from pykbroker.core.new_topic import NewTopic
from pykbroker.core.security import rights
from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.core.security.rights import RIGHTS, Denial, Right
from pykbroker.core.security.session import UNNAMED, Purpose, Session
from tests.unit.apis.calling import Denies, context, gone_through
from tests.unit.apis.conftest import Client, batch, fetch_request, produce_request, serving
from wire.api import ApiKey
from wire.declare import Request
from wire.messages import alter_configs, incremental_alter_configs
from wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from wire.messages.delete_groups import DeleteGroupsRequest
from wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from wire.messages.describe_cluster import DescribeClusterRequest
from wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from wire.messages.describe_groups import DescribeGroupsRequest
from wire.messages.describe_producers import DescribeProducersRequest
from wire.messages.describe_producers import TopicRequest as ProducersTopic
from wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from wire.messages.describe_transactions import DescribeTransactionsRequest
from wire.messages.end_txn import EndTxnRequest
from wire.messages.fetch import FetchRequest
from wire.messages.find_coordinator import CoordinatorType, FindCoordinatorRequest
from wire.messages.heartbeat import HeartbeatRequest
from wire.messages.init_producer_id import InitProducerIdRequest
from wire.messages.join_group import JoinGroupRequest
from wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from wire.messages.list_groups import ListGroupsRequest
from wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from wire.messages.list_transactions import ListTransactionsRequest
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from wire.messages.sync_group import SyncGroupRequest
from wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from wire.sentinels import LATEST_TIMESTAMP

CLUSTER_ACTION = Operation.CLUSTER_ACTION
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)
EXISTING = {TOPIC: "t", GROUP: "g", TRANSACTIONAL_ID: "x", CLUSTER: "t"}
"""A resource of each type that exists. Requests with a right on the cluster name a topic."""
ABSENT = "absent"
CONFIG_KINDS = {TOPIC: ConfigResource.TOPIC, GROUP: ConfigResource.GROUP, CLUSTER: ConfigResource.CLIENT_METRICS}

Example = Callable[[str], tuple[Request[Any], int]]
"""A request that needs the right for the resource of this name, and the version of the request."""


def transactional_batch() -> bytes:
    return batch(b"value", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)


def producing(records: bytes, transactional_id: str | None = None) -> Example:
    def example(name: str) -> tuple[Request[Any], int]:
        request = produce_request("t" if transactional_id is not None else name, records)
        request.transactional_id = None if transactional_id is None else name
        return request, 12

    return example


def fetching_as_follower(name: str) -> tuple[Request[Any], int]:
    request = fetch_request(name, 0)
    request.replica_id = 7
    return request, 12


def described(kind: ConfigResource) -> Example:
    return lambda name: (DescribeConfigsRequest([DescribeConfigsResource(kind, name)]), 4)


def altered(kind: ConfigResource) -> Example:
    return lambda name: (alter_configs.AlterConfigsRequest([alter_configs.AlterConfigsResource(kind, name)], True), 2)


def incrementally_altered(kind: ConfigResource) -> Example:
    resource = incremental_alter_configs.AlterConfigsResource
    return lambda name: (incremental_alter_configs.IncrementalAlterConfigsRequest([resource(kind, name)], True), 1)


def committed(name: str, group: str = "g") -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group, topics=[OffsetCommitRequestTopic(name, partitions=[OffsetCommitRequestPartition()])]
    )


def committed_in_transaction(transactional_id: str = "x", group: str = "g", topic: str = "t") -> TxnOffsetCommitRequest:
    topics = [TxnOffsetCommitRequestTopic(topic, [TxnOffsetCommitRequestPartition()])]
    return TxnOffsetCommitRequest(transactional_id, group, 7, 0, topics=topics)


def added(transactional_id: str, topic: str) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=7,
        v3_and_below_topics=[AddPartitionsToTxnTopic(topic, [0])],
    )


def offsets(group: str, *topics: str) -> OffsetFetchRequest:
    asked = [OffsetFetchRequestTopics(topic, partition_indexes=[0]) for topic in topics]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=asked or None)])


def found(kind: CoordinatorType) -> Example:
    return lambda name: (FindCoordinatorRequest(key_type=kind, coordinator_keys=[name]), 6)


def heartbeat(group: str, *topics: str, epoch: int = 0) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group, "m", epoch, rebalance_timeout_ms=60_000, subscribed_topic_names=[*topics], topic_partitions=[]
    )


def creation(name: str) -> tuple[CreateTopicsRequest, int]:
    return CreateTopicsRequest([CreatableTopic(name, 1, 1)], validate_only=True), 7


def metadata(name: str | None, *, creates: bool = False, **fields: Any) -> tuple[MetadataRequest, int]:
    topics = None if name is None else [MetadataRequestTopic(name=name)]
    return MetadataRequest(topics, allow_auto_topic_creation=creates, **fields), 10


EXAMPLES: dict[Right, Example] = {
    rights.PRODUCE_TRANSACTION: producing(transactional_batch(), ""),
    rights.PRODUCE_TOPIC: producing(batch(b"value")),
    rights.FETCH_AS_FOLLOWER: fetching_as_follower,
    rights.FETCH_TOPIC: lambda name: (fetch_request(name, 0), 12),
    rights.LIST_OFFSETS_TOPIC: lambda name: (
        ListOffsetsRequest(-1, 0, [ListOffsetsTopic(name, [ListOffsetsPartition()])]),
        7,
    ),
    rights.OFFSET_FOR_LEADER_EPOCH_TOPIC: lambda name: (
        OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(name, [OffsetForLeaderPartition()])]),
        4,
    ),
    rights.DELETE_RECORDS_TOPIC: lambda name: (
        DeleteRecordsRequest([DeleteRecordsTopic(name, [DeleteRecordsPartition(0, 0)])]),
        2,
    ),
    rights.DESCRIBE_PRODUCERS_TOPIC: lambda name: (DescribeProducersRequest([ProducersTopic(name, [0])]), 0),
    rights.METADATA_TOPIC: metadata,
    rights.METADATA_ALL_TOPICS: lambda _: metadata(None),
    rights.METADATA_CREATION: lambda _: metadata("not a name", creates=True),
    rights.METADATA_CLUSTER_OPERATIONS: lambda _: metadata(None, include_cluster_authorized_operations=True),
    rights.DESCRIBE_TOPIC_PARTITIONS_TOPIC: lambda name: (DescribeTopicPartitionsRequest([TopicRequest(name)]), 0),
    rights.DESCRIBE_TOPIC_PARTITIONS_ALL_TOPICS: lambda _: (DescribeTopicPartitionsRequest(), 0),
    rights.CREATE_TOPICS_TOPIC: lambda name: (CreateTopicsRequest([CreatableTopic(name, 1, 1)], validate_only=True), 7),
    rights.CREATE_TOPICS_CONFIGS: lambda _: (
        CreateTopicsRequest([CreatableTopic(ABSENT, 1, 1)], validate_only=True),
        7,
    ),
    rights.DELETE_TOPICS_NAME: lambda name: (DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=9000), 6),
    rights.DELETE_TOPICS_TOPIC: lambda name: (DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=9000), 6),
    rights.CREATE_PARTITIONS_TOPIC: lambda name: (
        CreatePartitionsRequest([CreatePartitionsTopic(name, 9, None)], 9000, validate_only=True),
        3,
    ),
    rights.FIND_COORDINATOR_GROUP: found(CoordinatorType.GROUP),
    rights.FIND_COORDINATOR_TRANSACTION: found(CoordinatorType.TRANSACTION),
    rights.FIND_COORDINATOR_SHARE: found(CoordinatorType.SHARE),
    rights.JOIN_GROUP: lambda name: (JoinGroupRequest(name, session_timeout_ms=1), 9),
    rights.SYNC_GROUP: lambda name: (SyncGroupRequest(name), 4),
    rights.HEARTBEAT: lambda name: (HeartbeatRequest(name), 4),
    rights.LEAVE_GROUP: lambda name: (LeaveGroupRequest(name, members=[MemberIdentity("m")]), 5),
    rights.OFFSET_COMMIT_GROUP: lambda name: (committed("t", name), 9),
    rights.OFFSET_COMMIT_TOPIC: lambda name: (committed(name), 9),
    rights.OFFSET_FETCH_GROUP: lambda name: (offsets(name, "t"), 9),
    rights.OFFSET_FETCH_TOPIC: lambda name: (offsets("g", name), 9),
    rights.OFFSET_FETCH_ALL_TOPICS: lambda _: (offsets("g"), 9),
    rights.OFFSET_DELETE_GROUP: lambda name: (OffsetDeleteRequest(name), 0),
    rights.OFFSET_DELETE_TOPIC: lambda name: (
        OffsetDeleteRequest("g", [OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(7)])]),
        0,
    ),
    rights.CONSUMER_GROUP_HEARTBEAT_GROUP: lambda name: (heartbeat(name, "t", epoch=9), 1),
    rights.CONSUMER_GROUP_HEARTBEAT_TOPIC: lambda name: (heartbeat("c", "t", name, epoch=9), 1),
    rights.CONSUMER_GROUP_DESCRIBE_GROUP: lambda name: (ConsumerGroupDescribeRequest([name]), 1),
    rights.CONSUMER_GROUP_DESCRIBE_TOPIC: lambda _: (ConsumerGroupDescribeRequest(["c"]), 1),
    rights.LIST_GROUPS_GROUP: lambda _: (ListGroupsRequest(), 5),
    rights.DESCRIBE_GROUPS_GROUP: lambda name: (DescribeGroupsRequest([name]), 6),
    rights.DELETE_GROUPS_GROUP: lambda name: (DeleteGroupsRequest([name]), 2),
    rights.INIT_PRODUCER_ID_TRANSACTION: lambda name: (InitProducerIdRequest(name, 1), 5),
    rights.INIT_PRODUCER_ID_IDEMPOTENT: lambda _: (InitProducerIdRequest(None), 5),
    rights.ADD_PARTITIONS_TO_TXN_TRANSACTION: lambda name: (added(name, "t"), 3),
    rights.ADD_PARTITIONS_TO_TXN_TOPIC: lambda name: (added("x", name), 3),
    rights.ADD_PARTITIONS_TO_TXN_BROKER: lambda _: (AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction("y")]), 4),
    rights.ADD_OFFSETS_TO_TXN_TRANSACTION: lambda name: (AddOffsetsToTxnRequest(name, 7, 0, "g"), 4),
    rights.ADD_OFFSETS_TO_TXN_GROUP: lambda name: (AddOffsetsToTxnRequest("x", 7, 0, name), 4),
    rights.TXN_OFFSET_COMMIT_TRANSACTION: lambda name: (committed_in_transaction(name), 4),
    rights.TXN_OFFSET_COMMIT_GROUP: lambda name: (committed_in_transaction(group=name), 4),
    rights.TXN_OFFSET_COMMIT_TOPIC: lambda name: (committed_in_transaction(topic=name), 4),
    rights.END_TXN: lambda name: (EndTxnRequest(name, 7, 0), 4),
    rights.DESCRIBE_TRANSACTIONS_TRANSACTION: lambda name: (DescribeTransactionsRequest([name]), 0),
    rights.DESCRIBE_TRANSACTIONS_TOPIC: lambda _: (DescribeTransactionsRequest(["x"]), 0),
    rights.LIST_TRANSACTIONS_TRANSACTION: lambda _: (ListTransactionsRequest(), 2),
    rights.DESCRIBE_CLUSTER_OPERATIONS: lambda _: (
        DescribeClusterRequest(include_cluster_authorized_operations=True),
        1,
    ),
    **{rights.DESCRIBE_CONFIGS[kind]: described(kind) for kind in CONFIG_KINDS.values()},
    **{rights.ALTER_CONFIGS[kind]: altered(kind) for kind in CONFIG_KINDS.values()},
    **{rights.INCREMENTAL_ALTER_CONFIGS[kind]: incrementally_altered(kind) for kind in CONFIG_KINDS.values()},
}
ELSEWHERE = {
    rights.CONSUMER_GROUP_HEARTBEAT_PATTERN,  # decided by the group coordinator
    rights.JOIN_GROUP_PATTERN,
    rights.FETCH_METADATA_LOG,  # on listeners of controllers only
    rights.DESCRIBE_CONTROLLERS,
    rights.LIST_OFFSETS_AS_FOLLOWER,  # of partitions that another broker follows
}
"""Rows without an example, which have tests of their own. Rows that are asked `first` are in test_cluster_rights.py."""


class Recorder:
    """An authorizer that denies some operations on resources of a type, and records what it is asked."""

    def __init__(self) -> None:
        self.denied: set[tuple[Operation, ResourceType, bool]] = set()
        self.asked: list[tuple[Operation, ResourceType, str, Purpose]] = []

    def allows(
        self,
        session: Session,
        operation: Operation,
        resource: ResourceType,
        name: str,
        purpose: Purpose = UNNAMED,
        count: int = 1,
    ) -> bool:
        self.asked.append((operation, resource, name, purpose))
        return (operation, resource, False) not in self.denied

    def allows_somewhere(
        self, session: Session, operation: Operation, resource: ResourceType, purpose: Purpose = UNNAMED
    ) -> bool:
        self.asked.append((operation, resource, "", purpose))
        return (operation, resource, True) not in self.denied

    def basis(self, session: Session) -> frozenset[Any]:
        return frozenset(self.denied)


class Guarded:
    """A client of a broker whose authorizer is a `Recorder`."""

    def __init__(self, client: Client, recorder: Recorder) -> None:
        self._client, self._recorder = client, recorder

    async def answer(self, right: Right, name: str, granted: object = None) -> Any:
        """Return the answer to a client that lacks the needs of `right`, apart from `granted`."""
        recorder = self._recorder
        recorder.denied = {
            (need.operation, need.resource, need.anywhere) for need in right.needs if need is not granted
        }
        recorder.asked.clear()
        request, version = EXAMPLES[right](name)
        response = await self._client.call(request, version)
        self._check_questions(right.api)
        return response

    def _check_questions(self, api: ApiKey) -> None:
        """Assert that only what the table has was asked for, each need once for each resource."""
        asked = [one for one in self._recorder.asked if one[3].grants]
        assert len(set(asked)) == len(asked)
        known = {(need.operation, need.resource, need.purpose) for right in RIGHTS[api] for need in right.needs}
        assert {(operation, resource, purpose) for operation, resource, _, purpose in asked} <= known


def codes(part: Any) -> set[int]:
    """Return all error codes of a response."""
    found = set()
    for name in getattr(part, "__struct_fields__", ()):
        value = getattr(part, name)
        if name.endswith("error_code"):
            found.add(value)
        for inner in value if isinstance(value, list) else ():
            found |= codes(inner)
    return found


@pytest.fixture
async def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Guarded]:
    recorder = Recorder()
    monkeypatch.setattr(Parts, "authorizer_of", lambda self, listener: recorder)
    topics = ("offsets_topic", "transaction_state_log")
    configs = {f"{topic}_{config}": "1" for topic in topics for config in ("num_partitions", "replication_factor")}
    configs["transaction_state_log_min_isr"] = "1"
    async with serving(tmp_path, topics=(NewTopic("t", 1),), **configs) as running:
        client = await running.connect()
        for kind in (CoordinatorType.GROUP, CoordinatorType.TRANSACTION):
            await client.call(*found(kind)("x"))
        assert codes(await client.call(committed("t"), 9)) == {0}
        assert codes(await client.call(heartbeat("c", "t"), 1)) == {0}
        begun = await client.call(InitProducerIdRequest("x", 60_000), 5)
        adding = added("x", "t")
        adding.v3_and_below_producer_id, adding.v3_and_below_producer_epoch = begun.producer_id, begun.producer_epoch
        assert codes(await client.call(adding, 3)) == {0}
        yield Guarded(client, recorder)


async def test_every_row_of_the_table_is_asked_for_before_anything_is_told(guarded: Guarded) -> None:
    for right in EXAMPLES:
        existing = EXISTING[right.needs[-1].resource]
        names = [existing] if right is rights.DELETE_TOPICS_TOPIC else [existing, ABSENT]
        refusals = [codes(await guarded.answer(right, name)) - {0} for name in names]
        if right.denial is not Denial.LEFT_OUT:
            assert refusals == [{right.code}] * len(names), right
            for need in right.needs:
                assert right.code not in codes(await guarded.answer(right, ABSENT, need)), right
        else:
            answers = [await guarded.answer(right, existing, need) for need in right.needs]
            assert await guarded.answer(right, existing) not in answers, right


def test_only_brokers_read_the_metadata_log() -> None:
    nothing: Any = None
    answer: Any = MetadataLogFetch(1, "c", nothing, nothing)(context(17, Denies(CLUSTER_ACTION)), FetchRequest())
    assert answer.error_code == rights.FETCH_METADATA_LOG.code


@pytest.mark.parametrize(("authorizer", "offset"), [(Denies(), 9), (Denies(CLUSTER_ACTION), 5)])
def test_only_brokers_see_offsets_above_the_high_watermark(authorizer: Denies, offset: int) -> None:
    leading = SimpleNamespace(followers={7}, knows_latest=lambda high_watermark: True)
    partition = SimpleNamespace(
        leading=leading,
        leader_epoch=0,
        high_watermark=5,
        require_leader=lambda epoch: SimpleNamespace(log_end_offset=9),
        upper_offset=lambda committed_only: 5,
    )
    replicas: Any = SimpleNamespace(partition=lambda key: partition)
    asked = ListOffsetsPartition(timestamp=LATEST_TIMESTAMP)
    request = ListOffsetsRequest(7, topics=[ListOffsetsTopic("t", [asked])])
    answer = gone_through(ListOffsets(replicas)(context(7, authorizer), request))
    assert answer.topics[0].partitions[0].offset == offset


def test_every_row_has_an_example() -> None:
    rows = {right for rows in RIGHTS.values() for right in rows if not right.first}
    assert rows - ELSEWHERE == EXAMPLES.keys()
