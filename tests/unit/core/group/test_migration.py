"""Tests of groups that migrate between the classic and the consumer protocol, with the results of
Apache Kafka 4.3.1.
"""

from __future__ import annotations

from typing import Any

import pytest

from pykbroker.core.coordinator.record import CoordinatorRecord
from pykbroker.core.group.consumer.check import LEAVING, LEAVING_FOR_NOW
from pykbroker.core.group.requests import FetchOffsets
from pykbroker.core.group.settings import GroupSettings
from tests.unit.core.group.harness import REBALANCE_MS, SESSION_MS, subscription
from tests.unit.core.group.test_consumer import CONSUMER_SESSION_MS, ConsumerGroupHarness, topics
from wire.error_codes import ErrorCode
from wire.messages.join_group import JoinGroupResponse
from wire.messages.offset_fetch import OffsetFetchRequestGroup
from wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from wire.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from wire.stored.framing import decode_versioned, encode_versioned


def assigned(*partitions: int, topic: str = "t", user_data: bytes | None = None) -> bytes:
    return encode_versioned(
        ConsumerProtocolAssignment([ConsumerProtocolAssignmentTopicPartition(topic, list(partitions))], user_data), 1
    )


def owning(*partitions: int, names: tuple[str, ...] = ("t",), version: int = 1) -> dict[str, bytes]:
    """Return the protocols with which a classic consumer joins that owns the given partitions of `t`."""
    owned = [ConsumerProtocolSubscriptionTopicPartition("t", list(partitions))] if partitions else []
    return {"range": encode_versioned(ConsumerProtocolSubscription(list(names), None, owned), version)}


def had(data: bytes) -> list[int]:
    message = decode_versioned(ConsumerProtocolAssignment, data)
    return [index for one in message.assigned_partitions for index in one.partitions]


class Mixed(ConsumerGroupHarness):
    """A group of two classic members; the first owns partitions 0 and 1 of `t`, the second 2 and 3."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        if not self.log:
            self.members = self.two()
            self.a, self.b = (member.member_id for member in self.members)
            self.generation = self.members[0].generation_id
            self.at = len(self.log)

    def two(
        self,
        instances: tuple[str | None, str | None] = (None, None),
        given: tuple[bytes, bytes] = (assigned(0, 1), assigned(2, 3)),
        protocols: dict[str, bytes] | None = None,
    ) -> list[Any]:
        tokens = [object(), object()]
        for token, instance in zip(tokens, instances, strict=True):
            member_id = "" if instance else self.new_id(protocols=protocols)
            self.join(member_id, token, instance=instance, protocols=protocols)
        self.wait(0)
        members = [self.replies[token] for token in tokens]
        ids = [member.member_id for member in members]
        leader = next(member for member in members if member.leader == member.member_id)
        for member in (leader, *members):
            place = ids.index(member.member_id)
            self.sync(member, given=dict(zip(ids, given, strict=True)), group_instance_id=instances[place])
        return members

    def kinds(self) -> list[tuple[int, bool]]:
        """Return (record type, whether it is a tombstone) of the records since the previous call."""
        found = [
            (one.key.record_type, one.value is None)
            for one in self.log[self.at :]
            if isinstance(one, CoordinatorRecord)
        ]
        self.at = len(self.log)
        return found

    def hold(self, member_id: str) -> list[int]:
        """Return the partitions that the described group assigns to the member."""
        member = next(one for one in self.described().members if one.member_id == member_id)
        return [index for one in member.assignment.topic_partitions for index in one.partitions]

    def rejoin(self, member_id: str, *partitions: int, **fields: Any) -> JoinGroupResponse:
        answer = self.join(member_id, protocols=owning(*partitions), **fields)
        assert isinstance(answer, JoinGroupResponse)
        assert answer.error_code == 0
        return answer


PUT, TOMBSTONE = False, True
UPGRADE = [(2, TOMBSTONE), (5, PUT), (5, PUT), (3, PUT), (7, PUT), (7, PUT), (6, PUT), (8, PUT), (8, PUT)]
DOWNGRADE_OF_3 = [
    *[(8, TOMBSTONE)] * 3,
    *[(7, TOMBSTONE)] * 3,
    (6, TOMBSTONE),
    *[(5, TOMBSTONE)] * 3,
    (4, TOMBSTONE),
    (3, TOMBSTONE),
    (2, PUT),
]


def test_a_group_survives_a_rolling_upgrade_and_a_rolling_downgrade() -> None:
    harness = Mixed()
    assert harness.enter("c").member_epoch == harness.generation + 1
    assert harness.kinds() == [*UPGRADE, (5, PUT), (3, PUT), (7, PUT), (7, PUT), (6, PUT), (8, PUT)]
    described = harness.described()
    assert [(one.member_epoch, one.member_type) for one in described.members] == [(1, 0), (1, 0), (2, 1)]
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Reconciling", 2, 2)
    old_b = harness.members[1]
    assert harness.beat(old_b) == ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.sync(old_b) == ErrorCode.REBALANCE_IN_PROGRESS, "the member must rejoin before SyncGroup"

    answer = harness.rejoin(harness.b, 2, 3)
    assert (answer.generation_id, answer.leader, answer.members, answer.protocol_name) == (1, "", [], "range")
    assert had(harness.sync(answer).assignment) == [2], "the member must revoke partition 3"
    assert harness.beat(answer) == ErrorCode.REBALANCE_IN_PROGRESS, (
        "the member must rejoin without the revoked partition"
    )
    answer = harness.rejoin(harness.b, 2)
    assert (answer.generation_id, harness.beat(answer)) == (2, 0)
    assert had(harness.sync(answer).assignment) == [2]
    harness.say("c")
    assert harness.parts("c") == [[3]]
    answer = harness.rejoin(harness.a, 0, 1)
    assert had(harness.sync(answer).assignment) == [0, 1]
    assert harness.described().group_state == "Stable"
    assert harness.restarted().described() == harness.described()

    harness.at = len(harness.log)
    assert harness.say("c", member_epoch=LEAVING).error_code == 0
    assert harness.kinds() == DOWNGRADE_OF_3
    stored = harness.log[-1].value
    assert (stored.generation, stored.protocol, stored.leader) == (2, "range", harness.a)
    assert [had(member.assignment) for member in stored.members] == [[0, 1], [2]]
    assert [member.session_timeout for member in stored.members] == [SESSION_MS, SESSION_MS]
    harness.wait(0)
    assert harness.state() == "PreparingRebalance"
    assert harness.beat(answer) == ErrorCode.REBALANCE_IN_PROGRESS
    for member_id in (harness.a, harness.b):
        harness.join(member_id, member_id)
    assert harness.replies[harness.a].generation_id == 3
    assert len(harness.replies[harness.a].members) == 2


def test_a_cooperative_member_rejoins_once_others_have_revoked_its_partitions() -> None:
    harness = Mixed()
    harness.enter("c")
    (token, member_id) = object(), harness.new_id()
    answer = harness.join(member_id, token, protocols=owning())
    assert had(harness.sync(answer).assignment) == []
    assert harness.beat(answer) == 0, "no partition is free yet"
    for name, kept in ((harness.a, (0,)), (harness.b, (2,))):
        for owned in ((0, 1) if name == harness.a else (2, 3), kept):
            harness.rejoin(name, *owned)
    assert harness.beat(answer) == ErrorCode.REBALANCE_IN_PROGRESS
    answer = harness.rejoin(member_id)
    assert len(had(harness.sync(answer).assignment)) == 1
    harness.say("c")
    assert sorted([*harness.has["c"]["t"], *had(harness.sync(answer).assignment)]) == [1, 3]


def test_an_eager_member_revokes_all_partitions_at_once() -> None:
    harness = Mixed()
    harness.enter("c")
    answer = harness.rejoin(harness.b)
    assert (answer.generation_id, had(harness.sync(answer).assignment)) == (2, [2])
    harness.say("c")
    assert harness.parts("c") == [[3]]


def continues(harness: Mixed, member: JoinGroupResponse) -> JoinGroupResponse:
    """Run one heartbeat of a classic client, and rejoin without partitions if a rebalance is in progress."""
    if harness.beat(member) == ErrorCode.REBALANCE_IN_PROGRESS:
        member = harness.rejoin(member.member_id)
        harness.sync(member)
    return member


@pytest.mark.parametrize("way", ["leave", "leave group", "session", "revocation"])
def test_a_group_is_downgraded_when_its_last_consumer_protocol_member_is_removed(way: str) -> None:
    harness = Mixed()
    harness.enter("c")
    members = [continues(harness, member) for member in harness.members]
    harness.say("c")
    if way == "leave":
        harness.say("c", member_epoch=LEAVING)
    elif way == "leave group":
        assert harness.leave(("c", None), (harness.a, None), ("x", None)) == [0, 0, ErrorCode.UNKNOWN_MEMBER_ID]
    elif way == "revocation":
        harness.say("c", subscribed_topic_names=["u"])
    while harness.described().error_code == 0:
        harness.wait(SESSION_MS / 2)
        if harness.described().error_code == 0:
            members = [continues(harness, member) for member in members]
            if way == "revocation":
                harness.say("c", owned={"t": [3]})
    harness.wait(0)
    assert harness.now_ms == {"session": CONSUMER_SESSION_MS, "revocation": REBALANCE_MS}.get(way, 0)
    assert harness.state() == "PreparingRebalance"
    left = {harness.b} if way == "leave group" else {harness.a, harness.b}
    assert {member.member_id for member in harness.describe().members} == left
    again = harness.restarted()
    assert (again.state(), {member.member_id for member in again.describe().members}) == ("PreparingRebalance", left)
    for member_id in left:
        again.join(member_id, member_id)
    assert again.state() == "CompletingRebalance", "after a restart the members must still rebalance"
    harness.wait(REBALANCE_MS + SESSION_MS)
    assert harness.state() == "Empty"


def test_an_upgrade_answers_waiting_requests_with_rebalance_in_progress() -> None:
    harness = Mixed()
    third, syncing = harness.new_id(), object()
    harness.join(third, "joining")
    harness.enter("c")
    described = harness.replies["joining"]
    assert (described.error_code, described.member_id) == (ErrorCode.REBALANCE_IN_PROGRESS, third)
    assert harness.rejoin(third).generation_id == 2

    harness = Mixed()
    for number, member_id in enumerate((harness.a, harness.b)):
        harness.join(member_id, number, protocols=owning(number))
    follower = next(one for one in map(harness.replies.get, (0, 1)) if one and one.leader != one.member_id)
    assert harness.sync(follower, syncing) is None
    harness.enter("c")
    assert harness.replies[syncing].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert [harness.hold(name) for name in (harness.a, harness.b, "c")] == [[0, 1], [2, 3], []], (
        "the last complete assignment is kept"
    )


def test_a_group_without_assignments_is_upgraded() -> None:
    harness = ConsumerGroupHarness(settings=GroupSettings(group_initial_rebalance_delay_ms=100))
    member_id = harness.new_id()
    harness.join(member_id, "joining")
    harness.enter("c")
    assert harness.replies["joining"].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    answer = harness.join(member_id)
    harness.say("c", owned={"t": [0, 1, 2, 3]})
    harness.say("c", owned={"t": harness.has["c"]["t"]})
    assert len(had(harness.sync(harness.join(member_id)).assignment)) == 2
    assert answer.generation_id >= 1
    harness.wait(1000)
    assert harness.described().group_state == "Stable"


def test_a_member_that_switches_its_protocol_keeps_its_id_and_partitions() -> None:
    harness = Mixed()
    assert harness.enter(harness.a).member_epoch == harness.generation
    assert harness.parts(harness.a) == [[0, 1]]
    old = harness.members[0]
    assert harness.beat(old) == harness.sync(old) == ErrorCode.UNKNOWN_MEMBER_ID, (
        "the member now uses the consumer protocol"
    )
    assert harness.rejoin(harness.a, 0, 1).generation_id == harness.generation
    assert harness.described().members[0].member_type == 0
    assert harness.leave((harness.b, None)) == [0]
    harness.wait(0)
    assert harness.state() == "PreparingRebalance", "only classic members are left"


def test_a_static_member_that_upgrades_a_group_without_assignments_is_assigned_partitions() -> None:
    harness = ConsumerGroupHarness()
    harness.join(instance="i", token="i")
    assert harness.enter("c", instance_id="i").member_epoch == 1
    assert harness.parts("c") == [[0, 1, 2, 3]]
    assert harness.replies["i"].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    harness.settle("c")


def test_unowned_partitions_are_assigned_after_an_upgrade_and_a_downgrade_at_once() -> None:
    harness = ConsumerGroupHarness()
    members = Mixed.two(harness, ("i", "j"))  # type: ignore[arg-type]
    harness.enter("c")
    for member, instance in zip(members, "ij", strict=True):
        harness.sync(harness.join(member.member_id, instance=instance, protocols=owning()), group_instance_id=instance)
    harness.settle("c")
    harness.say("c", member_epoch=LEAVING)
    harness.enter("d", instance_id="i")
    answer = harness.join(members[1].member_id, instance="j", protocols=owning())
    harness.settle("d")
    found = [*harness.has["d"]["t"], *had(harness.sync(answer, group_instance_id="j").assignment)]
    assert sorted(found) == [0, 1, 2, 3]


def test_a_member_that_switches_to_the_consumer_protocol_loses_its_classic_timers() -> None:
    harness = Mixed()
    harness.enter("c")
    assert harness.beat(harness.members[0]) == ErrorCode.REBALANCE_IN_PROGRESS
    harness.enter(harness.a)
    for _ in range(5):
        harness.wait(REBALANCE_MS / 4)
        harness.say(harness.a)
        harness.say("c")
    assert {one.member_id for one in harness.described().members} == {harness.a, "c"}


def test_static_members_of_both_protocols_replace_each_other() -> None:
    harness = ConsumerGroupHarness()
    mixed = Mixed.two(harness, ("i", "j"))  # type: ignore[arg-type]
    a, b = (member.member_id for member in mixed)
    assert harness.enter("c", instance_id="i").member_epoch == 1
    assert harness.parts("c") == [[0, 1]]
    assert harness.beat(mixed[0], "i") == ErrorCode.FENCED_INSTANCE_ID
    assert harness.beat(mixed[1], "j") == 0
    answer = harness.join("", instance="i", protocols=owning())
    assert (answer.error_code, answer.generation_id) == (0, 1)
    assert harness.state() == "Stable", "no member has to rejoin"
    assert had(harness.sync(answer, group_instance_id="i").assignment) == [0, 1]
    assert harness.beat(mixed[1], "j") == 0
    assert {member.member_id for member in harness.restarted().describe().members} == {answer.member_id, b}
    assert a != answer.member_id


def test_a_static_replacement_with_another_subscription_starts_a_rebalance() -> None:
    harness = ConsumerGroupHarness()
    mixed = Mixed.two(harness, ("i", "j"))  # type: ignore[arg-type]
    harness.enter("c", instance_id="i")
    answer = harness.join("", instance="i", protocols=owning(names=("t", "u")))
    assert (answer.error_code, answer.generation_id) == (0, 0)
    harness.wait(0)
    assert harness.state() == "PreparingRebalance"
    assert harness.beat(answer, "i") == ErrorCode.ILLEGAL_GENERATION
    assert harness.beat(mixed[1], "j") == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_consumer_group_serves_static_classic_members() -> None:
    harness = ConsumerGroupHarness()
    mixed = Mixed.two(harness, ("i", "j"))  # type: ignore[arg-type]
    harness.enter("c")
    answer = harness.join("", instance="i")
    assert harness.beat(mixed[0], "i") == ErrorCode.FENCED_INSTANCE_ID
    assert harness.beat(answer, "i") == 0
    assert harness.join(answer.member_id, instance="j") == ErrorCode.FENCED_INSTANCE_ID
    assert harness.join(answer.member_id, instance="x") == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.leave(("", "j"), ("", "j"), (mixed[0].member_id, "i"), ("", "x"), ("", None)) == [
        0,
        0,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert harness.enter("d", instance_id="i").member_epoch == harness.described().group_epoch
    assert harness.say("d", member_epoch=LEAVING_FOR_NOW, instance_id="i").member_epoch == LEAVING_FOR_NOW
    assert harness.described().error_code == 0, (
        "the static member left temporarily, so the group stays a consumer group"
    )


def test_classic_members_of_a_consumer_group_must_rejoin_and_sync_in_time() -> None:
    harness = Mixed()
    harness.enter("c")
    alive = harness.members[0]
    for _ in range(int(REBALANCE_MS / SESSION_MS * 2)):
        assert {one.member_id for one in harness.described().members} == {harness.a, harness.b, "c"}
        harness.beat(alive)
        harness.beat(harness.members[1])
        harness.say("c", owned={})
        harness.wait(SESSION_MS / 2)
    assert [one.member_id for one in harness.described().members] == ["c"], (
        "the classic members did not rejoin within the rebalance timeout"
    )

    harness = Mixed()
    harness.enter("c")
    answer = harness.rejoin(harness.a, 0, 1)
    for _ in range(int(REBALANCE_MS / SESSION_MS * 2) + 1):
        harness.wait(SESSION_MS / 2)
        harness.say("c", owned={})
        harness.beat(answer)
    assert harness.beat(answer) == ErrorCode.UNKNOWN_MEMBER_ID, "the member did not send SyncGroup in time"


@pytest.mark.parametrize(
    ("policy", "up", "down"),
    [("disabled", False, False), ("upgrade", True, False), ("downgrade", False, True), ("bidirectional", True, True)],
)
def test_the_migration_policy_config_enables_upgrades_and_downgrades(policy: str, up: bool, down: bool) -> None:
    harness = Mixed(settings=GroupSettings(group_initial_rebalance_delay_ms=0, group_consumer_migration_policy=policy))
    if up:
        assert harness.enter("c").error_code == 0
    else:
        assert harness.enter("c") == ErrorCode.GROUP_ID_NOT_FOUND
        assert harness.state() == "Stable"
        harness.leave((harness.a, None), (harness.b, None))
        harness.wait(0)
        harness.enter("c")
        harness.rejoin(harness.new_id())
    harness.say("c", member_epoch=LEAVING)
    harness.wait(0)
    assert (harness.state() == "PreparingRebalance") is down
    assert (harness.described().error_code == 0) is not down


def test_the_maximum_group_sizes_limit_upgrades_and_downgrades() -> None:
    harness = Mixed(settings=GroupSettings(group_initial_rebalance_delay_ms=0, group_consumer_max_size=2))
    assert harness.enter("c") == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert harness.enter(harness.a).error_code == 0
    assert harness.join() == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert harness.rejoin(harness.b, 2, 3).error_code == 0

    harness = Mixed(settings=GroupSettings(group_initial_rebalance_delay_ms=0, group_consumer_max_size=1))
    assert harness.enter(harness.a) == ErrorCode.GROUP_ID_NOT_FOUND

    harness = Mixed(settings=GroupSettings(group_initial_rebalance_delay_ms=0, group_max_size=2))
    harness.enter("c")
    harness.rejoin(harness.new_id())
    harness.say("c", member_epoch=LEAVING)
    assert harness.described().group_state == "Assigning", "three members exceed the maximum size of a classic group"
    harness.leave((harness.a, None))
    harness.wait(0)
    assert harness.state() == "PreparingRebalance"


@pytest.mark.parametrize(
    ("given", "protocols", "why"),
    [
        ((b"junk", b""), None, "the embedded consumer protocol is malformed"),
        ((assigned(0, user_data=b"x"), b""), None, "an unsupported custom assignor is in use"),
        ((assigned(0, 1), assigned(1)), None, "some of its members share partitions"),
        ((b"", b""), {"range": b"zz"}, "the embedded consumer protocol is malformed"),
        ((b"", b""), {"range": b"\xff\xff"}, "the embedded consumer protocol is malformed"),
        ((b"", b""), {"range": b""}, "the embedded consumer protocol is malformed"),
    ],
)
def test_a_classic_group_that_cannot_be_converted_stays_classic(
    given: tuple[bytes, bytes], protocols: dict[str, bytes] | None, why: str
) -> None:
    harness = ConsumerGroupHarness()
    Mixed.two(harness, given=given, protocols=protocols)  # type: ignore[arg-type]
    before = len(harness.log)
    assert harness.enter("c") == ErrorCode.GROUP_ID_NOT_FOUND
    assert (harness.state(), len(harness.log)) == ("Stable", before), why


def test_an_upgrade_drops_assigned_partitions_that_do_not_exist() -> None:
    harness = ConsumerGroupHarness()
    a, b = (one.member_id for one in Mixed.two(harness, given=(b"", assigned(1, 9, 2**31 - 1, -1))))  # type: ignore[arg-type]
    harness.enter("c")
    described = {one.member_id: one for one in harness.described().members}
    assert [described[name].assignment.topic_partitions for name in (a,)] == [[]]
    assert [one.partitions for one in described[b].assignment.topic_partitions] == [[1]]


def test_a_group_of_another_protocol_type_is_not_upgraded() -> None:
    harness = ConsumerGroupHarness()
    harness.join("", version=3, kind="connect")
    assert harness.enter("c") == ErrorCode.GROUP_ID_NOT_FOUND
    assert harness.say("c", member_epoch=1) == harness.say("c", member_epoch=LEAVING) == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_classic_member_joins_a_consumer_group() -> None:
    harness = ConsumerGroupHarness()
    harness.enter("c")
    odd: list[dict[str, Any]] = [{"kind": "connect"}, {"protocols": {}}]
    for fields in odd:
        assert harness.join(**fields) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.join(session_ms=1) == ErrorCode.INVALID_SESSION_TIMEOUT
    assert harness.join("zz", protocols={"range": b"zz"}) == ErrorCode.UNKNOWN_SERVER_ERROR
    answer = harness.join("", version=3, protocols={"range": subscription("t"), "sticky": b"zz"})
    assert (answer.generation_id, answer.protocol_name) == (3, "range")
    assert harness.join("zz", protocols={"other": subscription("t")}) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.join("zz", protocols={"sticky": subscription("t")}).error_code == 0, (
        "both classic members support the protocol sticky"
    )
    member = JoinGroupResponse(generation_id=answer.generation_id, member_id=answer.member_id)
    assert harness.sync(member, protocol_type="x") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.sync(member, protocol_name="sticky") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.beat(member, generation=2) == harness.beat(member, generation=-1) == ErrorCode.ILLEGAL_GENERATION
    assert harness.beat(JoinGroupResponse(generation_id=2, member_id="c")) == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.beat(JoinGroupResponse(generation_id=2, member_id="?")) == ErrorCode.UNKNOWN_MEMBER_ID
    harness.say("c", member_epoch=LEAVING)
    harness.wait(0)
    assert harness.state() == "PreparingRebalance", (
        "unreadable metadata of another protocol does not prevent the downgrade"
    )


def test_a_member_that_switches_to_the_classic_protocol_removes_its_regex() -> None:
    harness = ConsumerGroupHarness()
    harness.enter("c", instance_id="i", subscribed_topic_names=None, subscribed_topic_regex="t.*")
    harness.enter("d")
    assert harness.join("", instance="i", protocols=owning()).error_code == 0
    assert (16, True) in [(one.key.record_type, one.value is None) for one in harness.log]
    assert harness.restarted().described().members[-1].subscribed_topic_regex == ""


def test_members_of_a_migrated_group_commit_and_fetch_in_their_generation() -> None:
    harness = Mixed()
    harness.enter("c")
    a = harness.members[0]
    later = JoinGroupResponse(generation_id=9, member_id=harness.a)
    assert [harness.commit(1, a, version=version) for version in (2, 8, 9)] == [0, 0, 0]
    assert harness.commit(1, later) == ErrorCode.ILLEGAL_GENERATION
    assert (
        harness.commit(1, JoinGroupResponse(generation_id=2, member_id="c"), version=8) == ErrorCode.UNSUPPORTED_VERSION
    )
    asked = OffsetFetchRequestGroup("g", harness.a, harness.generation, None)
    assert harness.ask(FetchOffsets(asked, require_stable=False), 0).error_code == 0
    asked.member_epoch = 9
    assert harness.ask(FetchOffsets(asked, require_stable=False), 0) == ErrorCode.ILLEGAL_GENERATION
    for who, code in (
        (("", -1), 0),
        ((harness.a, harness.generation), 0),
        ((harness.a, 9), ErrorCode.ILLEGAL_GENERATION),
        (("c", 9), ErrorCode.ILLEGAL_GENERATION),
        (("?", 1), ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        topic = TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, 9)])
        answer = harness.ask(TxnOffsetCommitRequest("tx", "g", 5, 0, who[1], who[0], topics=[topic]), 3)
        assert (answer if isinstance(answer, ErrorCode) else answer.topics[0].partitions[0].error_code) == code
    harness.rejoin(harness.b, 2, 3)
    harness.rejoin(harness.b, 2)
    old = JoinGroupResponse(generation_id=1, member_id=harness.b)
    assert [harness.commit(1, old, partition=one) for one in (2, 3)] == [0, ErrorCode.ILLEGAL_GENERATION]


@pytest.mark.parametrize("version", range(4))
def test_an_assignment_has_the_version_of_the_members_subscription(version: int) -> None:
    harness = ConsumerGroupHarness(topics(t=1))
    harness.enter("c")
    harness.say("c", member_epoch=0, topic_partitions=[], rebalance_timeout_ms=1000, subscribed_topic_names=[])
    harness.say("c", owned={})
    answer = harness.join("zz", protocols=owning(version=version))
    given = harness.sync(answer).assignment
    assert (given[:2], had(given)) == (version.to_bytes(2, "big"), [0])
