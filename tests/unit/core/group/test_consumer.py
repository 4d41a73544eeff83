"""Tests of consumer groups (KIP-848): member epochs, reconciliation and removed members."""

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
from tests.unit.core.group.harness import REBALANCE_MS, GroupHarness
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


class ConsumerGroupHarness(GroupHarness):
    """A consumer group: its state machine, its topics, and the epoch and partitions of each member by name."""

    def __init__(self, seen: TopicsImage | None = None, **fields: Any) -> None:
        self.seen = topics(t=4, u=2) if seen is None else seen
        self.epochs: dict[str, int] = {}
        self.has: dict[str, dict[str, list[int]]] = {}
        super().__init__(**fields)

    def new_machine(self) -> Any:
        machine = super().new_machine()
        machine._shard.topics = lambda: self.seen
        return machine

    def restarted(self) -> ConsumerGroupHarness:
        other = ConsumerGroupHarness(self.seen, settings=self.settings, log=self.log, now_ms=self.now_ms)
        other.epochs, other.has = dict(self.epochs), dict(self.has)
        return other

    def say(self, name: str, *, version: int = 1, **fields: Any) -> Any:
        """Send a heartbeat; return the response or the error code."""
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
        """Send the first heartbeat of a member."""
        fields = {"rebalance_timeout_ms": REBALANCE_MS, "subscribed_topic_names": list(names or ("t",)), **fields}
        return self.say(name, member_epoch=0, topic_partitions=[], **fields)

    def settle(self, *names: str) -> None:
        """Send heartbeats of all members until the group is stable."""
        for _ in range(6):
            for name in names:
                assert not isinstance(self.say(name), ErrorCode)
        assert self.described().group_state == "Stable"

    def described(self) -> Any:
        return self.ask(ConsumerGroupDescribeRequest(["g"]), 1).groups[0]

    def parts(self, *names: str, topic: str = "t") -> list[list[int]]:
        return [self.has[name].get(topic, []) for name in names]


def test_a_single_member_is_assigned_all_partitions_at_once() -> None:
    harness = ConsumerGroupHarness()
    answer = harness.enter("a", "t", "u")
    assert (answer.error_code, answer.member_epoch, answer.heartbeat_interval_ms) == (0, 2, 5000)
    assert harness.has["a"] == {"t": [0, 1, 2, 3], "u": [0, 1]}
    assert harness.say("a").assignment is None
    kinds = [record.key.record_type for record in harness.log if isinstance(record, CoordinatorRecord)]
    assert kinds == [5, 3, 7, 6, 8], "the records are in Kafka's order"
    assert harness.described().group_state == "Stable"
    (listed,) = harness.ask(ListGroupsRequest(types_filter=["Consumer"]), 5).groups
    assert (listed.group_id, listed.group_type, listed.group_state) == ("g", "consumer", "Stable")
    assert harness.restarted().say("a").member_epoch == 2


def test_partitions_are_revoked_before_another_member_is_assigned_them() -> None:
    harness = ConsumerGroupHarness()
    harness.enter("a")
    assert harness.enter("b").assignment.topic_partitions == []
    assert harness.described().group_state == "Reconciling"
    harness.say("a", owned={"t": [0, 1, 2, 3]})
    assert harness.parts("a", "b") == [[0, 1], []]
    assert harness.epochs == {"a": 2, "b": 3}, "a member keeps its epoch until it has revoked its partitions"
    described = {one.member_id: one.assignment.topic_partitions for one in harness.described().members}
    assert ([one.partitions for one in described["a"]], described["b"]) == ([[0, 1, 2, 3]], []), (
        "partitions are still described as the old owner's"
    )
    harness.say("a", owned={"t": [0, 1, 2, 3]})
    assert harness.say("b").assignment is None
    harness.say("a", owned={"t": [0, 1]})
    assert harness.epochs["a"] == 3
    harness.say("b")
    assert harness.parts("a", "b") == [[0, 1], [2, 3]]
    harness.settle("a", "b")


def test_partitions_of_a_member_that_leaves_or_times_out_are_reassigned() -> None:
    harness = ConsumerGroupHarness()
    for name in ("a", "b", "c"):
        harness.enter(name)
    harness.settle("a", "b", "c")
    assert sorted(map(len, harness.parts("a", "b", "c"))) == [1, 1, 2]
    left = harness.say("c", member_epoch=LEAVING)
    assert left.member_epoch == LEAVING
    for _ in range(3):
        harness.say("a")
        harness.wait(CONSUMER_SESSION_MS / 2)
    assert harness.say("b") == ErrorCode.UNKNOWN_MEMBER_ID
    harness.settle("a")
    assert harness.parts("a") == [[0, 1, 2, 3]]
    harness.wait(CONSUMER_SESSION_MS)
    assert harness.described().group_state == "Empty"
    assert harness.restarted().described().group_state == "Empty"


@pytest.mark.parametrize(("silent", "due_ms"), [(True, CONSUMER_SESSION_MS), (False, REBALANCE_MS)])
def test_a_member_is_removed_by_a_retry_if_the_log_refused_its_removal(silent: bool, due_ms: int) -> None:
    harness = ConsumerGroupHarness()
    harness.enter("a")
    harness.enter("b")
    harness.say("a")
    for _ in range(3):
        harness.wait(due_ms / 4)
        for name in "b" if silent else "ab":
            harness.say(name, owned={"t": [0, 1, 2, 3]} if name == "a" else None)
    harness.wait(due_ms / 4 - 1)
    harness.now_ms += 1
    assert harness.machine.tick(Now(harness.now_ms, harness.wall_ms)).records, (
        "the removal is decided, but the log refuses its records"
    )
    assert len(harness.described().members) == 2
    harness.wait(RETRY_MS - 1)
    assert len(harness.described().members) == 2
    harness.wait(1)
    assert [one.member_id for one in harness.described().members] == ["b"]


def test_an_assignment_to_new_partitions_is_computed_again_if_the_log_refused_it() -> None:
    harness = ConsumerGroupHarness()
    harness.enter("a")
    harness.seen = topics(t=6)
    request = ConsumerGroupHeartbeatRequest("g", "a", harness.epochs["a"])
    assert harness.machine.handle(
        ClientRequest(request, 1, "c", "/127.0.0.1"), None, Now(harness.now_ms, harness.wall_ms)
    ).records
    harness.settle("a")
    assert harness.parts("a") == [[0, 1, 2, 3, 4, 5]]


def test_a_member_that_does_not_revoke_in_time_is_removed() -> None:
    harness = ConsumerGroupHarness()
    harness.enter("a")
    harness.enter("b")
    for _ in range(4):
        harness.say("a", owned={"t": [0, 1, 2, 3]})
        harness.say("b")
        harness.wait(REBALANCE_MS / 3)
    assert harness.say("a") == ErrorCode.UNKNOWN_MEMBER_ID
    harness.settle("b")
    assert harness.parts("b") == [[0, 1, 2, 3]]


def test_a_wrong_member_epoch_is_fenced() -> None:
    harness = ConsumerGroupHarness()
    harness.enter("a")
    assert harness.say("a", member_epoch=3) == harness.say("a", member_epoch=1) == ErrorCode.FENCED_MEMBER_EPOCH
    assert harness.say("nobody", member_epoch=1) == ErrorCode.UNKNOWN_MEMBER_ID
    harness.enter("b")
    harness.say("a", owned={"t": [0, 1, 2, 3]})
    harness.say("a", owned={"t": [0, 1]})
    assert harness.say("a", member_epoch=2, owned={"t": [0, 1]}).member_epoch == 3, (
        "the previous epoch is accepted, since the response may have been lost"
    )
    assert harness.say("a", member_epoch=2, owned={"t": [0, 3]}) == ErrorCode.FENCED_MEMBER_EPOCH
    assert harness.enter("a").member_epoch == 3
    assert harness.parts("a") == [[0, 1]]


def test_a_member_that_revokes_in_two_steps_stays_in_its_epoch() -> None:
    harness = ConsumerGroupHarness()
    harness.enter("a")
    harness.enter("b")
    harness.say("a", owned={"t": [0, 1, 2, 3]})
    harness.enter("c")
    harness.enter("d")
    assert harness.say("a", owned={"t": [0, 1]}).member_epoch == 2, (
        "the target assignment changed, so another partition must be revoked"
    )
    assert harness.parts("a") == [[0]]
    (given, *_) = [record.value for record in harness.log if record.key.record_type == 8][::-1]
    assert (given.member_epoch, given.previous_member_epoch, given.state) == (2, 2, 1)
    assert harness.say("a", owned={"t": [0]}).member_epoch == 5


def test_a_new_members_previous_epoch_is_updated_by_its_second_heartbeat_only() -> None:
    harness = ConsumerGroupHarness()
    harness.enter("a")
    harness.enter("b")
    assert harness.say("b").assignment is None
    assert harness.log[-1].value.previous_member_epoch == 3
    before = len(harness.log)
    harness.say("b")
    assert len(harness.log) == before


def test_a_commit_with_an_older_epoch_is_accepted_for_partitions_assigned_since() -> None:
    harness = ConsumerGroupHarness()
    harness.enter("a")
    harness.enter("b")
    harness.say("a", owned={"t": [0, 1, 2, 3]})
    for which in (harness, harness.restarted()):
        old = JoinGroupResponse(generation_id=2, member_id="a")
        assert [which.commit(1, old, partition=one) for one in range(4)] == [0, 0, 0, 0], (
            "the member has not revoked any partition yet"
        )
    harness.say("a", owned={"t": [0, 1]})
    harness.settle("a", "b")
    for which in (harness, harness.restarted()):
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
        assert which.commit(1, new, partition=2) == ErrorCode.STALE_MEMBER_EPOCH, (
            "the partition was assigned in epoch 3"
        )


def test_a_partition_assigned_again_accepts_commits_from_its_new_epoch_on() -> None:
    harness = ConsumerGroupHarness()
    harness.enter("a")
    harness.enter("b")
    harness.say("a")
    harness.say("b", member_epoch=LEAVING)
    assert harness.say("a", owned={"t": [0, 1]}).member_epoch == 4
    assert harness.has["a"] == {"t": [0, 1, 2, 3]}
    group = harness.machine._shard.find_consumer("g")
    assert group is not None
    since = {place[1]: epoch for place, epoch in group.current["a"].since.items()}
    assert since == {0: 2, 1: 2, 2: 4, 3: 4}
    before = JoinGroupResponse(generation_id=2, member_id="a")
    assert harness.commit(1, before, partition=0) == 0
    assert harness.commit(1, before, partition=2) == ErrorCode.STALE_MEMBER_EPOCH


def test_the_group_epoch_rises_once_when_a_topic_loses_its_last_subscriber() -> None:
    harness = ConsumerGroupHarness()
    harness.enter("a", "t")
    harness.enter("b", "u")
    harness.say("b", member_epoch=LEAVING)
    left = harness.described().group_epoch
    harness.settle("a")
    assert harness.described().group_epoch == harness.epochs["a"] == left


def test_a_static_member_that_leaves_temporarily_revokes_at_once() -> None:
    harness = ConsumerGroupHarness()
    harness.enter("a", instance_id="i")
    harness.enter("b")
    harness.say("a", owned={"t": [0, 1, 2, 3]})
    harness.say("a", member_epoch=LEAVING_FOR_NOW, instance_id="i")
    away = harness.log[-1].value
    assert (away.member_epoch, away.previous_member_epoch, away.partitions_pending_revocation) == (-2, 2, [])
    harness.say("b")
    assert harness.parts("b") == [[2, 3]]
    assert harness.enter("a2", instance_id="i").member_epoch == 3
    harness.settle("a2", "b")


def test_a_deleted_group_leaves_a_tombstone_for_each_of_its_keys() -> None:
    harness = ConsumerGroupHarness()
    harness.enter("a", subscribed_topic_names=None, subscribed_topic_regex="t.*")
    harness.say("a", member_epoch=LEAVING)
    before = len(harness.log)
    assert harness.ask(DeleteGroupsRequest(["g"]), 2).results[0].error_code == 0
    assert [(record.key.record_type, record.value) for record in harness.log[before:]] == [
        (6, None),
        (4, None),
        (3, None),
    ]
    assert harness.restarted().described().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_changed_subscriptions_and_topics_raise_the_group_epoch() -> None:
    harness = ConsumerGroupHarness()
    harness.enter("a")
    harness.settle("a")
    assert harness.say("a", subscribed_topic_names=["u"]).member_epoch == 2
    assert harness.has["a"] == {}
    assert harness.say("a", owned={}).member_epoch == 3
    assert harness.has["a"] == {"u": [0, 1]}
    harness.seen = topics(t=4, u=3)
    assert harness.say("a").member_epoch == 4
    assert harness.has["a"] == {"u": [0, 1, 2]}
    harness.seen = topics(t=4)
    harness.say("a")
    assert harness.say("a", owned={}).member_epoch == 5
    assert harness.has["a"] == {}
    harness.settle("a")


def test_regex_subscriptions_follow_the_topics() -> None:
    harness = ConsumerGroupHarness(topics(t=1, u=1, v=1))
    harness.enter("a", subscribed_topic_names=None, subscribed_topic_regex="[tu]")
    assert set(harness.has["a"]) == {"t", "u"}
    harness.seen = topics(t=1, v=1)
    harness.say("a")
    harness.settle("a")
    assert set(harness.has["a"]) == {"t"}
    refused = harness.enter("b", subscribed_topic_names=None, subscribed_topic_regex="(")
    assert refused == ErrorCode.INVALID_REGULAR_EXPRESSION
    harness.say("a", member_epoch=LEAVING)
    assert harness.log[-2].value is None
    assert harness.log[-2].key.record_type == 16


def test_a_static_member_returns_with_another_member_id() -> None:
    harness = ConsumerGroupHarness()
    harness.enter("a", instance_id="i")
    harness.enter("b")
    harness.say("a", owned={"t": [0, 1, 2, 3]})
    harness.settle("a", "b")
    assert harness.enter("a2", instance_id="i") == ErrorCode.UNRELEASED_INSTANCE_ID
    assert harness.say("a2", member_epoch=LEAVING_FOR_NOW, instance_id="i") == ErrorCode.FENCED_INSTANCE_ID
    assert harness.say("a", member_epoch=LEAVING_FOR_NOW, instance_id="x") == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.say("a", member_epoch=LEAVING_FOR_NOW, instance_id="i").member_epoch == LEAVING_FOR_NOW
    harness = harness.restarted()
    mine = harness.parts("a")
    assert harness.enter("a2", instance_id="i").member_epoch == harness.epochs["b"]
    assert harness.parts("a2") == mine
    assert harness.say("a", member_epoch=3, instance_id="i") == ErrorCode.FENCED_INSTANCE_ID
    harness.settle("a2", "b")


def test_an_empty_group_may_change_its_type() -> None:
    harness = ConsumerGroupHarness()
    harness.commit(7)
    assert harness.enter("a").member_epoch == 2
    assert harness.commit(8) == ErrorCode.UNKNOWN_MEMBER_ID
    harness.say("a", member_epoch=LEAVING)
    assert harness.new_id()
    assert harness.describe().group_state == "Empty"
    assert harness.enter("a").member_epoch == 2, "a pending member does not prevent the change of the group type"
    assert harness.restarted().described().group_state == "Stable"


def test_the_size_of_a_consumer_group_is_limited() -> None:
    harness = ConsumerGroupHarness(settings=GroupSettings(group_consumer_max_size=1))
    harness.enter("a")
    assert harness.enter("b") == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert harness.enter("a").member_epoch == 2


def test_the_assignor_that_most_members_request_is_used() -> None:
    harness = ConsumerGroupHarness()
    for name, assignor in (("a", "range"), ("b", "range"), ("c", "uniform"), ("d", None)):
        harness.enter(name, server_assignor=assignor)
    assert harness.described().assignor_name == "range"


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
    described = {
        "group_id": "g",
        "member_id": "a",
        "member_epoch": 0,
        "rebalance_timeout_ms": 1000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
        **fields,
    }
    harness = ConsumerGroupHarness()
    assert harness.ask(ConsumerGroupHeartbeatRequest(**described), 1) == code
    assert harness.log == []


def test_a_member_that_uses_version_0_gets_a_member_id_from_the_broker() -> None:
    harness = ConsumerGroupHarness()
    assert harness.enter("", version=0).member_id
    with pytest.raises(ApiError):
        harness.machine.handle(ClientRequest(ConsumerGroupHeartbeatRequest("g", ""), 1), object(), Now(0, 0))


def fetched(harness: ConsumerGroupHarness, member_id: str | None, epoch: int) -> Any:
    answer = harness.ask(FetchOffsets(OffsetFetchRequestGroup("g", member_id, epoch, None), require_stable=False), 0)
    return answer if isinstance(answer, ErrorCode) else answer.topics[0].partitions[0].committed_offset


def test_members_commit_and_fetch_offsets_in_their_epoch() -> None:
    harness = ConsumerGroupHarness()
    harness.enter("a")
    member = JoinGroupResponse(generation_id=2, member_id="a")
    assert harness.commit(5, member) == 0
    assert [fetched(harness, name, epoch) for name, epoch in ((None, -1), ("a", 2))] == [5, 5]
    assert fetched(harness, "a", 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert fetched(harness, "b", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    member.generation_id = 1
    assert harness.commit(6, member) == ErrorCode.STALE_MEMBER_EPOCH
    assert harness.commit(6, member, version=8) == ErrorCode.UNSUPPORTED_VERSION
    topic = TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, 9)])
    asked = TxnOffsetCommitRequest("tx", "g", 5, 0, 1, "a", topics=[topic])
    assert harness.ask(asked, 3) == ErrorCode.ILLEGAL_GENERATION
    harness.say("a", member_epoch=LEAVING)
    assert harness.commit(7) == 0
    assert fetched(harness, None, -1) == 7


def test_the_error_of_describe_groups_has_kafkas_message() -> None:
    """Compare the messages with Kafka 4.3's. The response has an error message since version 6."""
    harness = ConsumerGroupHarness()
    harness.enter("a")
    absent, other = (ErrorCode.GROUP_ID_NOT_FOUND, "Group nobody not found."), ErrorCode.GROUP_ID_NOT_FOUND
    described = harness.describe("nobody")
    assert (described.error_code, described.error_message, described.group_state) == (*absent, "Dead")
    described = harness.describe("g")
    assert (described.error_code, described.error_message) == (other, "Group g is not a classic group.")
    described = harness.describe("nobody", version=5)
    assert (described.error_code, described.error_message, described.group_state) == (0, None, "Dead")
    harness.join(group="classic", version=3)
    described = harness.ask(ConsumerGroupDescribeRequest(["nobody", "classic", "g"]), 1).groups
    assert [(one.error_code, one.error_message) for one in described] == [
        absent,
        (other, "Group classic is not a consumer group."),
        (0, None),
    ]
