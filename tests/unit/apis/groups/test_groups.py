"""The APIs of groups on a complete broker: every version of every request, before and after a restart."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from pykbroker.apis.groups.consumer_group_describe import ConsumerGroupDescribe
from pykbroker.apis.groups.find_coordinator import FindCoordinator
from pykbroker.apis.groups.offset_fetch import OffsetFetch
from pykbroker.core.config.resource import ConfigResource
from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.core.security.session import Session
from pykbroker.machines.call import Call
from pykbroker.server.endpoints import BrokerEndpoints
from tests.unit.apis.calling import Denies, context, gone_through
from tests.unit.apis.conftest import Client, serving
from wire.error_codes import ErrorCode
from wire.messages import consumer_group_describe
from wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from wire.messages.delete_groups import DeleteGroupsRequest
from wire.messages.delete_topics import DeleteTopicsRequest
from wire.messages.describe_groups import DescribeGroupsRequest
from wire.messages.find_coordinator import FindCoordinatorRequest
from wire.messages.heartbeat import HeartbeatRequest
from wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from wire.messages.leave_group import LeaveGroupRequest
from wire.messages.list_groups import ListGroupsRequest
from wire.messages.metadata import MetadataRequest
from wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

NIL = bytes(16)
CONFIGS = {
    "offsets_topic_num_partitions": "3",
    "offsets_topic_replication_factor": "1",
    "group_initial_rebalance_delay_ms": "0",
}


async def find(client: Client, group: str = "g") -> None:
    (found,) = (await client.call(FindCoordinatorRequest(coordinator_keys=[group]), 6)).coordinators
    assert (found.error_code, found.node_id, found.port > 0) == (0, 1, True)


async def join(client: Client, member_id: str = "", version: int = 9, group: str = "g") -> Any:
    return await client.call(
        JoinGroupRequest(group, 10_000, 10_000, member_id, None, "consumer", [JoinGroupRequestProtocol("range", b"")]),
        version,
    )


async def joined(client: Client, version: int = 9) -> Any:
    """Return the JoinGroup response of the only member of a stable group."""
    member_id = (await join(client, "", version)).member_id if version >= 4 else ""
    member = await join(client, member_id, version)
    assert (member.error_code, member.generation_id, member.protocol_name) == (0, 1, "range")
    synced = await client.call(
        SyncGroupRequest("g", 1, member.member_id, assignments=[SyncGroupRequestAssignment(member.member_id, b"all")]),
        4,
    )
    assert synced.assignment == b"all"
    return member


def committing(
    offset: int, *, group: str = "g", topic: str = "t", topic_id: bytes = NIL, partition: int = 0, **fields: Any
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group,
        topics=[
            OffsetCommitRequestTopic(topic, topic_id, [OffsetCommitRequestPartition(partition, offset, -1, "why")])
        ],
        **fields,
    )


async def commit(client: Client, offset: int, version: int = 9, **fields: Any) -> int:
    response = await client.call(committing(offset, **fields), version)
    return int(response.topics[0].partitions[0].error_code)


def offsets_in(response: Any) -> dict[tuple[str, int], tuple[int, str, int]]:
    """Return the offset, metadata and error code of each partition of the first group."""
    topics = response.groups[0].topics if response.groups else response.topics
    return {
        (topic.name or getattr(topic, "topic_id", NIL), one.partition_index): (
            one.committed_offset,
            one.metadata,
            one.error_code,
        )
        for topic in topics
        for one in topic.partitions
    }


async def fetch(client: Client, version: int = 9, group: str = "g", topics: dict[str, list[int]] | None = None) -> Any:
    if version < 8:
        old = None if topics is None else [OffsetFetchRequestTopic(*one) for one in topics.items()]
        return offsets_in(await client.call(OffsetFetchRequest(group, old), version))
    new = None if topics is None else [OffsetFetchRequestTopics(name, NIL, parts) for name, parts in topics.items()]
    return offsets_in(
        await client.call(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=new)]), version)
    )


async def test_the_first_find_coordinator_creates_the_offsets_topic(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("t", 1),), **CONFIGS) as local_broker:
        client = await local_broker.connect()
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(find, await local_broker.connect())
        listed = (await client.call(MetadataRequest(topics=None), 12)).topics
        made = next(one for one in listed if one.name == "__consumer_offsets")
        assert (len(made.partitions), made.is_internal) == (3, True)
        for version in range(7):
            asked = FindCoordinatorRequest(coordinator_keys=["a", "b"]) if version >= 4 else FindCoordinatorRequest("a")
            answer = await client.call(asked, version)
            found = answer.coordinators if version >= 4 else [answer]
            assert {(one.error_code, one.node_id) for one in found} == {(0, 1)}
            assert len(found) == (2 if version >= 4 else 1)
            assert found[0].error_message == ("NONE" if 1 <= version <= 3 else "")
        for kind, code in (
            (1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (2, ErrorCode.INVALID_REQUEST),
            (9, ErrorCode.INVALID_REQUEST),
        ):
            refused = await client.call(FindCoordinatorRequest(key_type=kind, coordinator_keys=["a"]), 6)
            assert refused.coordinators[0].error_code == code
        refused = await client.call(FindCoordinatorRequest("a", 9), 3)
        assert (refused.error_code, refused.error_message) == (code, code.message)


async def test_find_coordinator_returns_an_error_if_the_offsets_topic_cannot_be_created(tmp_path: Path) -> None:
    async with serving(tmp_path, offsets_topic_replication_factor="2") as local_broker:
        client = await local_broker.connect()
        for version in (3, 6):
            answer = await client.call(
                FindCoordinatorRequest("g") if version == 3 else FindCoordinatorRequest(coordinator_keys=["g"]), version
            )
            refused = answer if version == 3 else answer.coordinators[0]
            assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert "replication factor" in refused.error_message


async def test_a_key_without_the_right_is_refused_as_such_if_the_offsets_topic_cannot_be_created() -> None:
    class Own(Denies):
        def allows(self, session: Session, operation: Operation, resource: ResourceType, name: str, *_: Any) -> bool:
            return name == "own"

    async def create_topics(_request: CreateTopicsRequest) -> CreateTopicsResponse:
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "the controller is away")

    automatic: Any = SimpleNamespace(create_topics=create_topics)
    topic: Any = SimpleNamespace(name="__consumer_offsets", creation=CreatableTopic)
    api = FindCoordinator(MetadataImage, automatic, {0: topic}, BrokerEndpoints(1, MetadataImage))
    request = FindCoordinatorRequest(coordinator_keys=["other", "own"])
    creating = gone_through(api(context(6, Own()), request))
    found = gone_through(await creating.work).coordinators
    assert [(one.error_code, one.error_message) for one in found] == [
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, ""),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, "the controller is away"),
    ]


async def test_requests_before_the_offsets_topic_exists_are_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("t", 1),), **CONFIGS) as local_broker:
        client = await local_broker.connect()
        code = ErrorCode.NOT_COORDINATOR
        assert (await join(client)).error_code == code
        assert (await client.call(HeartbeatRequest("g"), 4)).error_code == code
        assert await commit(client, 1) == code
        assert (await client.call(OffsetFetchRequest("g", None), 7)).error_code == code
        assert await fetch(client, 1, topics={"t": [0]}) == {("t", 0): (-1, "", code)}
        assert (await client.call(DescribeGroupsRequest(["g"]), 5)).groups[0].error_code == code
        assert (await client.call(DeleteGroupsRequest(["g"]), 2)).results[0].error_code == code
        assert (await client.call(ListGroupsRequest(), 5)).groups == []


@pytest.mark.parametrize("version", range(10))
async def test_a_member_joins_syncs_heartbeats_and_leaves_in_every_version(tmp_path: Path, version: int) -> None:
    async with serving(tmp_path, **CONFIGS) as local_broker:
        client = await local_broker.connect()
        await find(client)
        member = await joined(client, version)
        beating = HeartbeatRequest("g", 1, member.member_id)
        assert (await client.call(beating, min(version, 4))).error_code == 0
        described = (await client.call(DescribeGroupsRequest(["g"]), min(version, 6))).groups[0]
        (one,) = described.members
        assert (described.group_state, one.client_id, one.client_host) == ("Stable", "test", "/127.0.0.1")
        leaving = LeaveGroupRequest("g", member.member_id)
        assert (await client.call(leaving, min(version, 2))).error_code == 0
        (listed,) = (await client.call(ListGroupsRequest(["empty"], ["Classic"]), 5)).groups
        assert (listed.group_id, listed.group_state, listed.group_type) == ("g", "Empty", "classic")
        assert (await client.call(ListGroupsRequest(["stable"]), 4)).groups == []


async def test_waiting_members_receive_their_join_group_responses_together(tmp_path: Path) -> None:
    async with serving(tmp_path, **CONFIGS) as local_broker:
        first, second = await local_broker.connect(), await local_broker.connect()
        await find(first)
        leader = await joined(first)
        member_id = (await join(second)).member_id
        await second.send(
            JoinGroupRequest(
                "g", 10_000, 10_000, member_id, None, "consumer", [JoinGroupRequestProtocol("range", b"")]
            ),
            9,
        )
        with trio.fail_after(30):
            while (await first.call(HeartbeatRequest("g", 1, leader.member_id), 4)).error_code == 0:
                await trio.lowlevel.checkpoint()
        leader = await join(first, leader.member_id)
        member = await second.receive()
        assert leader.generation_id == member.generation_id == 2
        assert (len(leader.members), len(member.members)) == (2, 0)
        await second.send(SyncGroupRequest("g", 2, member_id), 3)
        given = [SyncGroupRequestAssignment(member_id, b"half")]
        assert (await first.call(SyncGroupRequest("g", 2, leader.member_id, assignments=given), 3)).assignment == b""
        assert (await second.receive()).assignment == b"half"


async def test_offsets_survive_a_restart_in_every_version(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("t", 2),), **CONFIGS) as local_broker:
        client = await local_broker.connect()
        await find(client)
        for version in range(2, 10):
            assert await commit(client, version, version) == 0
            assert await fetch(client, version) == {("t", 0): (version, "why", 0)}
        told_id = (await client.call(MetadataRequest(topics=None), 12)).topics
        topic_id = next(one.topic_id for one in told_id if one.name == "t")
        assert await commit(client, 10, 10, topic="", topic_id=topic_id) == 0
        assert await commit(client, 10, 10, topic="", topic_id=b"x" * 16) == ErrorCode.UNKNOWN_TOPIC_ID
        member = await joined(client)
    async with serving(tmp_path, **CONFIGS) as local_broker:
        client = await local_broker.connect()
        assert await fetch(client, 1, topics={"t": [0, 1]}) == {("t", 0): (10, "why", 0), ("t", 1): (-1, "", 0)}
        assert await fetch(client, 10) == {(topic_id, 0): (10, "why", 0)}
        assert await fetch(client, 9, "nobody") == {}
        assert (await client.call(HeartbeatRequest("g", 1, member.member_id), 4)).error_code == 0


async def test_a_partition_that_cannot_be_committed_does_not_affect_the_others(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("t", 1),), **CONFIGS) as local_broker:
        client = await local_broker.connect()
        await find(client)
        response = await client.call(
            OffsetCommitRequest(
                "g",
                topics=[
                    OffsetCommitRequestTopic(
                        "t",
                        partitions=[
                            OffsetCommitRequestPartition(0, 1),
                            OffsetCommitRequestPartition(1, 1),
                            OffsetCommitRequestPartition(-1, 1),
                        ],
                    ),
                    OffsetCommitRequestTopic("none", partitions=[OffsetCommitRequestPartition(0, 1)]),
                ],
            ),
            9,
        )
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert {
            (topic.name, one.partition_index): one.error_code for topic in response.topics for one in topic.partitions
        } == {("t", 0): 0, ("t", 1): unknown, ("t", -1): unknown, ("none", 0): unknown}
        assert await fetch(client) == {("t", 0): (1, "", 0)}
        large = OffsetCommitRequest(
            "g",
            topics=[
                OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 2, -1, "x" * 4096)] * 300)
            ],
        )
        response = await client.call(large, 9)
        assert {one.error_code for one in response.topics[0].partitions} == {ErrorCode.UNKNOWN_SERVER_ERROR}
        assert await fetch(client) == {("t", 0): (1, "", 0)}
        topics = [OffsetCommitRequestTopic(name, partitions=[OffsetCommitRequestPartition(0, 1)]) for name in "tu"]
        response = await client.call(OffsetCommitRequest("g", 5, "stranger", topics=topics), 9)
        codes = {topic.name: topic.partitions[0].error_code for topic in response.topics}
        assert codes == {"t": ErrorCode.UNKNOWN_MEMBER_ID, "u": unknown}


async def test_the_errors_of_the_largest_offset_commit_are_merged_by_topic(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("t", 1),), **CONFIGS) as local_broker:
        client = await local_broker.connect()
        await find(client)
        one = [OffsetCommitRequestPartition(0, 1)]
        response = await client.call(
            OffsetCommitRequest(
                "g",
                topics=[
                    OffsetCommitRequestTopic("t", partitions=one),
                    *(OffsetCommitRequestTopic(f"none-{number % 50_000}", partitions=one) for number in range(50_001)),
                ],
            ),
            9,
        )
        assert [len(topic.partitions) for topic in response.topics] == [1, 2, *[1] * 49_999]


async def test_offsets_and_groups_are_deleted(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("t", 1), ("u", 1)), **CONFIGS) as local_broker:
        client = await local_broker.connect()
        await find(client)
        for topic in ("t", "u"):
            assert await commit(client, 1, topic=topic) == await commit(client, 1, topic=topic, group="h") == 0
        response = await client.call(
            OffsetDeleteRequest(
                "g", [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(0), OffsetDeleteRequestPartition(5)])]
            ),
            0,
        )
        assert [(one.partition_index, one.error_code) for one in response.topics[0].partitions] == [
            (0, 0),
            (5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert set(await fetch(client)) == {("u", 0)}
        missing = await client.call(OffsetDeleteRequest("none"), 0)
        assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        await client.call(DeleteTopicsRequest(topic_names=["u"], timeout_ms=10_000), 5)
        with trio.fail_after(30):
            while await fetch(client) or len(await fetch(client, group="h")) > 1:  # each partition is told by itself
                await trio.lowlevel.checkpoint()
        assert set(await fetch(client, group="h")) == {("t", 0)}
        deleted = await client.call(DeleteGroupsRequest(["h", "none", "h"]), 2)
        assert {(one.group_id, one.error_code) for one in deleted.results} == {
            ("h", 0),
            ("none", ErrorCode.GROUP_ID_NOT_FOUND),
        }
        assert [one.group_id for one in (await client.call(ListGroupsRequest(), 0)).groups] == ["g"]


class Unreached:
    """A double of the group coordinator that fails on any call."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


class Describing:
    """A double of the group coordinator: each group has a member that subscribes to topic t."""

    def ask(self, group_id: str, asked: object) -> Call:
        call, member = Call(), consumer_group_describe.Member(subscribed_topic_names=["t"])
        call.settle(
            consumer_group_describe.ConsumerGroupDescribeResponse(
                groups=[consumer_group_describe.DescribedGroup(group_id=group_id, members=[member])]
            )
        )
        return call


class DeniesTopics(Denies):
    """An authorizer that denies every operation on topics."""

    def allows(self, session: Session, operation: Operation, resource: ResourceType, *_: Any) -> bool:
        return resource is not ResourceType.TOPIC


def test_a_group_with_an_unauthorized_topic_is_not_described() -> None:
    groups: Any = Describing()
    api = ConsumerGroupDescribe(groups, lambda: True)
    (described,) = gone_through(api(context(1, DeniesTopics()), ConsumerGroupDescribeRequest(["g"]))).groups
    assert (described.error_code, described.error_message, described.members) == (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "The group has described topic(s) that the client is not authorized to describe.",
        [],
    )


def test_a_process_that_was_stopped_returns_no_offsets_since_another_broker_may_have_newer_ones() -> None:
    nobody: Any = Unreached()
    stopped = OffsetFetch(nobody, lambda: MetadataImage(), lambda: True)
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)])
    answer: Any = gone_through(stopped(context(8), request))
    assert [group.error_code for group in answer.groups] == [ErrorCode.NOT_COORDINATOR]


async def beat(client: Client, epoch: int, version: int = 1, **fields: Any) -> Any:
    return await client.call(ConsumerGroupHeartbeatRequest("g", "me", epoch, **fields), version)


@pytest.mark.parametrize("version", [0, 1])
async def test_a_consumer_group_member_joins_heartbeats_and_leaves(tmp_path: Path, version: int) -> None:
    async with serving(tmp_path, topics=(("t", 2),), **CONFIGS) as local_broker:
        client = await local_broker.connect()
        await find(client)
        joined = await beat(
            client, 0, version, rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[]
        )
        assert (joined.error_code, joined.member_epoch) == (0, 2)
        (given,) = joined.assignment.topic_partitions
        assert given.partitions == [0, 1]
        described = (await client.call(ConsumerGroupDescribeRequest(["g", "", "g"], True), version)).groups
        assert described[2] == described[0], "a group that is named twice is described twice"
        assert (described[0].group_state, described[0].members[0].client_host, described[1].error_code) == (
            "Stable",
            "/127.0.0.1",
            ErrorCode.INVALID_GROUP_ID,
        )
        assert described[0].members[0].assignment.topic_partitions[0].topic_name == "t"
        assert (await client.call(committing(7, member_id="me", generation_id_or_member_epoch=2), 9)).topics[
            0
        ].partitions[0].error_code == 0
    async with serving(tmp_path, **CONFIGS) as local_broker:
        client = await local_broker.connect()
        assert (await beat(client, 2, version)).error_code == 0
        fenced = await beat(client, 5, version)
        assert (fenced.error_code, "greater member epoch" in fenced.error_message) == (
            ErrorCode.FENCED_MEMBER_EPOCH,
            True,
        )
        assert await fetch(client) == {("t", 0): (7, "why", 0)}
        assert (await beat(client, -1, version)).member_epoch == -1
        assert (await client.call(DeleteGroupsRequest(["g"]), 2)).results[0].error_code == 0


async def test_a_new_topic_that_matches_a_regex_is_assigned_at_the_next_heartbeat(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("t1", 1),), **CONFIGS) as local_broker:
        client = await local_broker.connect()
        await find(client)
        joined = await beat(client, 0, rebalance_timeout_ms=1000, subscribed_topic_regex="t.*", topic_partitions=[])
        assert len(joined.assignment.topic_partitions) == 1
        await client.create("t2", 3)
        grown = await beat(client, joined.member_epoch)
        assert sorted(len(one.partitions) for one in grown.assignment.topic_partitions) == [1, 3]
        owned = [TopicPartitions(one.topic_id, one.partitions) for one in grown.assignment.topic_partitions]
        assert (await beat(client, grown.member_epoch, topic_partitions=owned)).assignment is None


async def test_a_changed_group_config_applies_from_the_next_heartbeat_on(tmp_path: Path) -> None:
    async def alter(client: Client, value: str | None) -> None:
        change = AlterableConfig("consumer.heartbeat.interval.ms", 0 if value else 1, value)
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(ConfigResource.GROUP, "g", [change])])
        assert (await client.call(request, 1)).responses[0].error_code == 0

    async with serving(tmp_path, topics=(("t", 1),), **CONFIGS) as local_broker:
        client = await local_broker.connect()
        await find(client)
        joined = await beat(client, 0, rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[])
        assert joined.heartbeat_interval_ms == 5000
        await alter(client, "6000")
        assert (await beat(client, joined.member_epoch)).heartbeat_interval_ms == 6000
    async with serving(tmp_path, **CONFIGS) as local_broker:
        client = await local_broker.connect()
        assert (await beat(client, joined.member_epoch)).heartbeat_interval_ms == 6000
        await alter(client, None)
        assert (await beat(client, joined.member_epoch)).heartbeat_interval_ms == 5000


async def test_the_consumer_protocol_can_be_disabled(tmp_path: Path) -> None:
    configs = {**CONFIGS, "group_coordinator_rebalance_protocols": "classic"}
    async with serving(tmp_path, **configs) as local_broker:
        client = await local_broker.connect()
        await find(client)
        assert (await beat(client, 0)).error_code == ErrorCode.UNSUPPORTED_VERSION
        described = (await client.call(ConsumerGroupDescribeRequest(["g"]), 1)).groups
        assert (described[0].error_code, described[0].error_message) == (ErrorCode.UNSUPPORTED_VERSION, None)


async def test_groups_begin_anew_after_their_topic_was_deleted(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("t", 1),), **CONFIGS) as house:
        client = await house.connect()
        for _ in range(3):
            await find(client)
            assert (await fetched(client)) == -1
            assert await commit(client, 7) == 0
            assert (await fetched(client)) == 7
            deleted = await client.call(DeleteTopicsRequest(topic_names=["__consumer_offsets"], timeout_ms=5000), 5)
            assert deleted.responses[0].error_code == 0
            assert await commit(client, 8) == ErrorCode.NOT_COORDINATOR


async def fetched(client: Client) -> int:
    """Return the committed offset of partition 0."""
    asked = OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", partition_indexes=[0])])
    (group,) = (await client.call(OffsetFetchRequest(groups=[asked]), 9)).groups
    return int(group.topics[0].partitions[0].committed_offset)
