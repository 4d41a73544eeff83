"""Consumer groups (KIP-848): epochs, steps towards a target, and the removal of members."""

from __future__ import annotations

from typing import Any

import pytest

from pykbroker.core.coordinator.record import CoordinatorRecord
from pykbroker.core.errors import ApiError
from pykbroker.core.group.consumer.check import LEAVING, LEAVING_FOR_NOW
from pykbroker.core.group.consumer.departure import RETRY_MS
from pykbroker.core.group.requests import ClientRequest, FetchOffsets
from pykbroker.core.group.settings import GroupSettings
from pykbroker.core.metadata.image import PartitionImage, TopicImage, TopicsImage
from pykbroker.core.now import Now
from tests.unit.core.group.talk import REBALANCE_MS, Talk
from wire.error_codes import ErrorCode
from wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from wire.messages.delete_groups import DeleteGroupsRequest
from wire.messages.join_group import JoinGroupResponse
from wire.messages.list_groups import ListGroupsRequest
from wire.messages.offset_fetch import OffsetFetchRequestGroup
from wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

CONSUMER_SESSION_MS = 45_000


def topics(**partitions: int) -> TopicsImage:
    known = [
        TopicImage(name, name.encode() * 16, {n: PartitionImage((), (), 1, 0, 0, ()) for n in range(count)})
        for name, count in partitions.items()
    ]
    return TopicsImage({one.name: one for one in known}, {one.id: one for one in known})


class Room(Talk):
    """A group machine with topics, and with members by name."""

    def __init__(self, seen: TopicsImage | None = None, **fields: Any) -> None:
        self.seen = topics(t=4, u=2) if seen is None else seen
        self.epochs: dict[str, int] = {}
        self.has: dict[str, dict[str, list[int]]] = {}
        super().__init__(**fields)

    def new_machine(self) -> Any:
        machine = super().new_machine()
        machine._shard.topics = lambda: self.seen
        return machine

    def restarted(self) -> Room:
        other = Room(self.seen, settings=self.settings, log=self.log, now_ms=self.now_ms)
        other.epochs, other.has = dict(self.epochs), dict(self.has)
        return other

    def say(self, name: str, *, version: int = 1, **fields: Any) -> Any:
        """Send a heartbeat. Return the response, or the error's code."""
        owned = fields.pop("owned", self.has.get(name))
        fields.setdefault("member_epoch", self.epochs.get(name, 0))
        held = (
            None
            if owned is None
            else [TopicPartitions(topic.encode() * 16, partitions) for topic, partitions in owned.items()]
        )
        fields.setdefault("topic_partitions", held)
        response = self.ask(ConsumerGroupHeartbeatRequest("g", name, **fields), version)
        if isinstance(response, ErrorCode):
            return response
        self.epochs[name] = response.member_epoch
        if response.assignment is not None:
            self.has[name] = {one.topic_id[:1].decode(): one.partitions for one in response.assignment.topic_partitions}
        return response

    def enter(self, name: str, *names: str, **fields: Any) -> Any:
        """Send a first heartbeat."""
        fields = {"rebalance_timeout_ms": REBALANCE_MS, "subscribed_topic_names": list(names or ("t",)), **fields}
        return self.say(name, member_epoch=0, topic_partitions=[], **fields)

    def settle(self, *names: str) -> None:
        """Send heartbeats of all members until nothing changes."""
        for _ in range(6):
            for name in names:
                assert not isinstance(self.say(name), ErrorCode)
        assert self.told().group_state == "Stable"

    def told(self) -> Any:
        return self.ask(ConsumerGroupDescribeRequest(["g"]), 1).groups[0]

    def parts(self, *names: str, topic: str = "t") -> list[list[int]]:
        return [self.has[name].get(topic, []) for name in names]


def test_a_single_member_is_assigned_all_partitions_at_once() -> None:
    room = Room()
    answer = room.enter("a", "t", "u")
    assert (answer.error_code, answer.member_epoch, answer.heartbeat_interval_ms) == (0, 2, 5000)
    assert room.has["a"] == {"t": [0, 1, 2, 3], "u": [0, 1]}
    assert room.say("a").assignment is None
    kinds = [record.key.record_type for record in room.log if isinstance(record, CoordinatorRecord)]
    assert kinds == [5, 3, 7, 6, 8], "in the order of Kafka's records"
    assert room.told().group_state == "Stable"
    (listed,) = room.ask(ListGroupsRequest(types_filter=["Consumer"]), 5).groups
    assert (listed.group_id, listed.group_type, listed.group_state) == ("g", "consumer", "Stable")
    assert room.restarted().say("a").member_epoch == 2


def test_partitions_are_revoked_before_another_member_gets_them() -> None:
    room = Room()
    room.enter("a")
    assert room.enter("b").assignment.topic_partitions == []
    assert room.told().group_state == "Reconciling"
    room.say("a", owned={"t": [0, 1, 2, 3]})
    assert room.parts("a", "b") == [[0, 1], []]
    assert room.epochs == {"a": 2, "b": 3}, "it stays in its epoch until it has given back"
    told = {one.member_id: one.assignment.topic_partitions for one in room.told().members}
    assert ([one.partitions for one in told["a"]], told["b"]) == ([[0, 1, 2, 3]], []), "nobody else has them yet"
    room.say("a", owned={"t": [0, 1, 2, 3]})
    assert room.say("b").assignment is None
    room.say("a", owned={"t": [0, 1]})
    assert room.epochs["a"] == 3
    room.say("b")
    assert room.parts("a", "b") == [[0, 1], [2, 3]]
    room.settle("a", "b")


def test_partitions_of_a_member_that_leaves_or_times_out_are_reassigned() -> None:
    room = Room()
    for name in ("a", "b", "c"):
        room.enter(name)
    room.settle("a", "b", "c")
    assert sorted(map(len, room.parts("a", "b", "c"))) == [1, 1, 2]
    left = room.say("c", member_epoch=LEAVING)
    assert left.member_epoch == LEAVING
    for _ in range(3):
        room.say("a")
        room.wait(CONSUMER_SESSION_MS / 2)
    assert room.say("b") == ErrorCode.UNKNOWN_MEMBER_ID
    room.settle("a")
    assert room.parts("a") == [[0, 1, 2, 3]]
    room.wait(CONSUMER_SESSION_MS)
    assert room.told().group_state == "Empty"
    assert room.restarted().told().group_state == "Empty"


@pytest.mark.parametrize(("silent", "due_ms"), [(True, CONSUMER_SESSION_MS), (False, REBALANCE_MS)])
def test_the_removal_of_a_member_is_retried_until_the_log_accepts_it(silent: bool, due_ms: int) -> None:
    room = Room()
    room.enter("a")
    room.enter("b")
    room.say("a")
    for _ in range(3):
        room.wait(due_ms / 4)
        for name in "b" if silent else "ab":
            room.say(name, owned={"t": [0, 1, 2, 3]} if name == "a" else None)
    room.wait(due_ms / 4 - 1)
    room.now_ms += 1
    assert room.machine.tick(Now(room.now_ms, room.wall_ms)).records, "which do not come into the log"
    assert len(room.told().members) == 2
    room.wait(RETRY_MS - 1)
    assert len(room.told().members) == 2
    room.wait(1)
    assert [one.member_id for one in room.told().members] == ["b"]


def test_a_change_of_topics_that_the_log_refused_is_planned_again() -> None:
    room = Room()
    room.enter("a")
    room.seen = topics(t=6)
    request = ConsumerGroupHeartbeatRequest("g", "a", room.epochs["a"])
    assert room.machine.handle(
        ClientRequest(request, 1, "c", "/127.0.0.1"), None, Now(room.now_ms, room.wall_ms)
    ).records
    room.settle("a")
    assert room.parts("a") == [[0, 1, 2, 3, 4, 5]]


def test_a_member_that_does_not_revoke_in_time_is_removed() -> None:
    room = Room()
    room.enter("a")
    room.enter("b")
    for _ in range(4):
        room.say("a", owned={"t": [0, 1, 2, 3]})
        room.say("b")
        room.wait(REBALANCE_MS / 3)
    assert room.say("a") == ErrorCode.UNKNOWN_MEMBER_ID
    room.settle("b")
    assert room.parts("b") == [[0, 1, 2, 3]]


def test_a_wrong_member_epoch_is_fenced() -> None:
    room = Room()
    room.enter("a")
    assert room.say("a", member_epoch=3) == room.say("a", member_epoch=1) == ErrorCode.FENCED_MEMBER_EPOCH
    assert room.say("nobody", member_epoch=1) == ErrorCode.UNKNOWN_MEMBER_ID
    room.enter("b")
    room.say("a", owned={"t": [0, 1, 2, 3]})
    room.say("a", owned={"t": [0, 1]})
    assert room.say("a", member_epoch=2, owned={"t": [0, 1]}).member_epoch == 3, "its answer may have been lost"
    assert room.say("a", member_epoch=2, owned={"t": [0, 3]}) == ErrorCode.FENCED_MEMBER_EPOCH
    assert room.enter("a").member_epoch == 3
    assert room.parts("a") == [[0, 1]]


def test_a_member_that_revokes_in_two_steps_stays_in_its_epoch() -> None:
    room = Room()
    room.enter("a")
    room.enter("b")
    room.say("a", owned={"t": [0, 1, 2, 3]})
    room.enter("c")
    room.enter("d")
    assert room.say("a", owned={"t": [0, 1]}).member_epoch == 2, "there is more to give back by now"
    assert room.parts("a") == [[0]]
    (given, *_) = [record.value for record in room.log if record.key.record_type == 8][::-1]
    assert (given.member_epoch, given.previous_member_epoch, given.state) == (2, 2, 1)
    assert room.say("a", owned={"t": [0]}).member_epoch == 5


def test_a_member_leaves_its_first_epoch_with_its_next_heartbeat() -> None:
    room = Room()
    room.enter("a")
    room.enter("b")
    assert room.say("b").assignment is None
    assert room.log[-1].value.previous_member_epoch == 3
    before = len(room.log)
    room.say("b")
    assert len(room.log) == before


def test_an_older_epoch_may_commit_partitions_assigned_before_it() -> None:
    room = Room()
    room.enter("a")
    room.enter("b")
    room.say("a", owned={"t": [0, 1, 2, 3]})
    for which in (room, room.restarted()):
        old = JoinGroupResponse(generation_id=2, member_id="a")
        assert [which.commit(1, old, partition=one) for one in range(4)] == [0, 0, 0, 0], "it has not given back yet"
    room.say("a", owned={"t": [0, 1]})
    room.settle("a", "b")
    for which in (room, room.restarted()):
        assert which.epochs["a"] == 3
        assert [which.commit(1, old, partition=one) for one in (0, 1, 2, 9)] == [
            0,
            0,
            ErrorCode.STALE_MEMBER_EPOCH,
            ErrorCode.STALE_MEMBER_EPOCH,
        ]
        for epoch in (-2, -1, 0, 1, 4, 2**31 - 1):
            member = JoinGroupResponse(generation_id=epoch, member_id="a")
            assert which.commit(1, member) == ErrorCode.STALE_MEMBER_EPOCH
        new = JoinGroupResponse(generation_id=2, member_id="b")
        assert which.commit(1, new, partition=2) == ErrorCode.STALE_MEMBER_EPOCH, "given in epoch 3"


def test_a_partition_that_is_assigned_again_counts_from_that_epoch() -> None:
    room = Room()
    room.enter("a")
    room.enter("b")
    room.say("a")
    room.say("b", member_epoch=LEAVING)
    assert room.say("a", owned={"t": [0, 1]}).member_epoch == 4
    assert room.has["a"] == {"t": [0, 1, 2, 3]}
    group = room.machine._shard.find_consumer("g")
    assert group is not None
    since = {place[1]: epoch for place, epoch in group.current["a"].since.items()}
    assert since == {0: 2, 1: 2, 2: 4, 3: 4}
    before = JoinGroupResponse(generation_id=2, member_id="a")
    assert room.commit(1, before, partition=0) == 0
    assert room.commit(1, before, partition=2) == ErrorCode.STALE_MEMBER_EPOCH


def test_the_epoch_rises_once_when_a_topic_has_no_subscriber_left() -> None:
    room = Room()
    room.enter("a", "t")
    room.enter("b", "u")
    room.say("b", member_epoch=LEAVING)
    left = room.told().group_epoch
    room.settle("a")
    assert room.told().group_epoch == room.epochs["a"] == left


def test_a_static_member_that_leaves_for_now_ends_its_revocation() -> None:
    room = Room()
    room.enter("a", instance_id="i")
    room.enter("b")
    room.say("a", owned={"t": [0, 1, 2, 3]})
    room.say("a", member_epoch=LEAVING_FOR_NOW, instance_id="i")
    away = room.log[-1].value
    assert (away.member_epoch, away.previous_member_epoch, away.partitions_pending_revocation) == (-2, 2, [])
    room.say("b")
    assert room.parts("b") == [[2, 3]]
    assert room.enter("a2", instance_id="i").member_epoch == 3
    room.settle("a2", "b")


def test_a_deleted_group_leaves_a_tombstone_for_each_of_its_keys() -> None:
    room = Room()
    room.enter("a", subscribed_topic_names=None, subscribed_topic_regex="t.*")
    room.say("a", member_epoch=LEAVING)
    before = len(room.log)
    assert room.ask(DeleteGroupsRequest(["g"]), 2).results[0].error_code == 0
    assert [(record.key.record_type, record.value) for record in room.log[before:]] == [(6, None), (4, None), (3, None)]
    assert room.restarted().told().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_changed_subscriptions_and_topics_raise_the_epoch() -> None:
    room = Room()
    room.enter("a")
    room.settle("a")
    assert room.say("a", subscribed_topic_names=["u"]).member_epoch == 2
    assert room.has["a"] == {}
    assert room.say("a", owned={}).member_epoch == 3
    assert room.has["a"] == {"u": [0, 1]}
    room.seen = topics(t=4, u=3)
    assert room.say("a").member_epoch == 4
    assert room.has["a"] == {"u": [0, 1, 2]}
    room.seen = topics(t=4)
    room.say("a")
    assert room.say("a", owned={}).member_epoch == 5
    assert room.has["a"] == {}
    room.settle("a")


def test_regular_expressions_follow_the_topics() -> None:
    room = Room(topics(t=1, u=1, v=1))
    room.enter("a", subscribed_topic_names=None, subscribed_topic_regex="[tu]")
    assert set(room.has["a"]) == {"t", "u"}
    room.seen = topics(t=1, v=1)
    room.say("a")
    room.settle("a")
    assert set(room.has["a"]) == {"t"}
    refused = room.enter("b", subscribed_topic_names=None, subscribed_topic_regex="(")
    assert refused == ErrorCode.INVALID_REGULAR_EXPRESSION
    room.say("a", member_epoch=LEAVING)
    assert room.log[-2].value is None
    assert room.log[-2].key.record_type == 16


def test_a_static_member_returns_under_another_member_id() -> None:
    room = Room()
    room.enter("a", instance_id="i")
    room.enter("b")
    room.say("a", owned={"t": [0, 1, 2, 3]})
    room.settle("a", "b")
    assert room.enter("a2", instance_id="i") == ErrorCode.UNRELEASED_INSTANCE_ID
    assert room.say("a2", member_epoch=LEAVING_FOR_NOW, instance_id="i") == ErrorCode.FENCED_INSTANCE_ID
    assert room.say("a", member_epoch=LEAVING_FOR_NOW, instance_id="x") == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.say("a", member_epoch=LEAVING_FOR_NOW, instance_id="i").member_epoch == LEAVING_FOR_NOW
    room = room.restarted()
    mine = room.parts("a")
    assert room.enter("a2", instance_id="i").member_epoch == room.epochs["b"]
    assert room.parts("a2") == mine
    assert room.say("a", member_epoch=3, instance_id="i") == ErrorCode.FENCED_INSTANCE_ID
    room.settle("a2", "b")


def test_an_empty_group_changes_its_type() -> None:
    room = Room()
    room.commit(7)
    assert room.enter("a").member_epoch == 2
    assert room.commit(8) == ErrorCode.UNKNOWN_MEMBER_ID
    room.say("a", member_epoch=LEAVING)
    assert room.new_id()
    assert room.describe().group_state == "Empty"
    assert room.enter("a").member_epoch == 2, "that somebody is about to join is no obstacle"
    assert room.restarted().told().group_state == "Stable"


def test_a_consumer_group_has_a_maximum_size() -> None:
    room = Room(settings=GroupSettings(group_consumer_max_size=1))
    room.enter("a")
    assert room.enter("b") == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert room.enter("a").member_epoch == 2


def test_the_assignor_that_most_members_request_is_used() -> None:
    room = Room()
    for name, assignor in (("a", "range"), ("b", "range"), ("c", "uniform"), ("d", None)):
        room.enter(name, server_assignor=assignor)
    assert room.told().assignor_name == "range"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"member_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": "\t"}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -(2**31)}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": ""}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": [TopicPartitions(b"t" * 16, [0])]}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "best"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"member_epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_an_incomplete_or_invalid_heartbeat_is_refused(fields: dict[str, Any], code: ErrorCode) -> None:
    told = {
        "group_id": "g",
        "member_id": "a",
        "member_epoch": 0,
        "rebalance_timeout_ms": 1000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
        **fields,
    }
    room = Room()
    assert room.ask(ConsumerGroupHeartbeatRequest(**told), 1) == code
    assert room.log == []


def test_a_member_of_version_0_gets_a_member_id() -> None:
    room = Room()
    assert room.enter("", version=0).member_id
    with pytest.raises(ApiError):
        room.machine.handle(ClientRequest(ConsumerGroupHeartbeatRequest("g", ""), 1), object(), Now(0, 0))


def fetched(room: Room, member_id: str | None, epoch: int) -> Any:
    answer = room.ask(FetchOffsets(OffsetFetchRequestGroup("g", member_id, epoch, None), require_stable=False), 0)
    return answer if isinstance(answer, ErrorCode) else answer.topics[0].partitions[0].committed_offset


def test_members_commit_and_fetch_in_their_epoch() -> None:
    room = Room()
    room.enter("a")
    member = JoinGroupResponse(generation_id=2, member_id="a")
    assert room.commit(5, member) == 0
    assert [fetched(room, name, epoch) for name, epoch in ((None, -1), ("a", 2))] == [5, 5]
    assert fetched(room, "a", 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert fetched(room, "b", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    member.generation_id = 1
    assert room.commit(6, member) == ErrorCode.STALE_MEMBER_EPOCH
    assert room.commit(6, member, version=8) == ErrorCode.UNSUPPORTED_VERSION
    topic = TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, 9)])
    asked = TxnOffsetCommitRequest("tx", "g", 5, 0, 1, "a", topics=[topic])
    assert room.ask(asked, 3) == ErrorCode.ILLEGAL_GENERATION
    room.say("a", member_epoch=LEAVING)
    assert room.commit(7) == 0
    assert fetched(room, None, -1) == 7


def test_a_group_that_cannot_be_described_says_why() -> None:
    """Assert Kafka 4.3's messages. Before version 6 DescribeGroups has no field for them."""
    room = Room()
    room.enter("a")
    absent, other = (ErrorCode.GROUP_ID_NOT_FOUND, "Group nobody not found."), ErrorCode.GROUP_ID_NOT_FOUND
    described = room.describe("nobody")
    assert (described.error_code, described.error_message, described.group_state) == (*absent, "Dead")
    described = room.describe("g")
    assert (described.error_code, described.error_message) == (other, "Group g is not a classic group.")
    described = room.describe("nobody", version=5)
    assert (described.error_code, described.error_message, described.group_state) == (0, None, "Dead")
    room.join(group="classic", version=3)
    told = room.ask(ConsumerGroupDescribeRequest(["nobody", "classic", "g"]), 1).groups
    assert [(one.error_code, one.error_message) for one in told] == [
        absent,
        (other, "Group classic is not a consumer group."),
        (0, None),
    ]
