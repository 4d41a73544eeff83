"""Groups that change their protocol while they have members. The expected values are those of Apache Kafka 4.3.1."""

from __future__ import annotations

from typing import Any

import pytest

from pykbroker.core.coordinator.record import CoordinatorRecord
from pykbroker.core.group.consumer.check import LEAVING, LEAVING_FOR_NOW
from pykbroker.core.group.requests import FetchOffsets
from pykbroker.core.group.settings import GroupSettings
from tests.unit.core.group.talk import REBALANCE_MS, SESSION_MS, subscription
from tests.unit.core.group.test_consumer import CONSUMER_SESSION_MS, Room, topics
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
    """Return the protocols of a classic consumer that joins and owns these partitions of `t`."""
    owned = [ConsumerProtocolSubscriptionTopicPartition("t", list(partitions))] if partitions else []
    return {"range": encode_versioned(ConsumerProtocolSubscription(list(names), None, owned), version)}


def had(data: bytes) -> list[int]:
    message = decode_versioned(ConsumerProtocolAssignment, data)
    return [index for one in message.assigned_partitions for index in one.partitions]


class Mixed(Room):
    """Two classic members that own partitions 0, 1 and 2, 3 of `t`."""

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
        """Return the records since the last call: type, and whether it is a tombstone."""
        found = [
            (one.key.record_type, one.value is None)
            for one in self.log[self.at :]
            if isinstance(one, CoordinatorRecord)
        ]
        self.at = len(self.log)
        return found

    def hold(self, member_id: str) -> list[int]:
        """Return the partitions that the group description assigns to the member."""
        member = next(one for one in self.told().members if one.member_id == member_id)
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


def test_a_rolling_upgrade_and_a_rolling_downgrade() -> None:
    room = Mixed()
    assert room.enter("c").member_epoch == room.generation + 1
    assert room.kinds() == [*UPGRADE, (5, PUT), (3, PUT), (7, PUT), (7, PUT), (6, PUT), (8, PUT)]
    told = room.told()
    assert [(one.member_epoch, one.member_type) for one in told.members] == [(1, 0), (1, 0), (2, 1)]
    assert (told.group_state, told.group_epoch, told.assignment_epoch) == ("Reconciling", 2, 2)
    old_b = room.members[1]
    assert room.beat(old_b) == ErrorCode.REBALANCE_IN_PROGRESS
    assert room.sync(old_b) == ErrorCode.REBALANCE_IN_PROGRESS, "it must join first"

    answer = room.rejoin(room.b, 2, 3)
    assert (answer.generation_id, answer.leader, answer.members, answer.protocol_name) == (1, "", [], "range")
    assert had(room.sync(answer).assignment) == [2], "it has to give back 3"
    assert room.beat(answer) == ErrorCode.REBALANCE_IN_PROGRESS, "until it joins without that"
    answer = room.rejoin(room.b, 2)
    assert (answer.generation_id, room.beat(answer)) == (2, 0)
    assert had(room.sync(answer).assignment) == [2]
    room.say("c")
    assert room.parts("c") == [[3]]
    answer = room.rejoin(room.a, 0, 1)
    assert had(room.sync(answer).assignment) == [0, 1]
    assert room.told().group_state == "Stable"
    assert room.restarted().told() == room.told()

    room.at = len(room.log)
    assert room.say("c", member_epoch=LEAVING).error_code == 0
    assert room.kinds() == DOWNGRADE_OF_3
    stored = room.log[-1].value
    assert (stored.generation, stored.protocol, stored.leader) == (2, "range", room.a)
    assert [had(member.assignment) for member in stored.members] == [[0, 1], [2]]
    assert [member.session_timeout for member in stored.members] == [SESSION_MS, SESSION_MS]
    room.wait(0)
    assert room.state() == "PreparingRebalance"
    assert room.beat(answer) == ErrorCode.REBALANCE_IN_PROGRESS
    for member_id in (room.a, room.b):
        room.join(member_id, member_id)
    assert room.replies[room.a].generation_id == 3
    assert len(room.replies[room.a].members) == 2


def test_a_cooperative_member_rejoins_when_others_have_released_its_partitions() -> None:
    room = Mixed()
    room.enter("c")
    (token, member_id) = object(), room.new_id()
    answer = room.join(member_id, token, protocols=owning())
    assert had(room.sync(answer).assignment) == []
    assert room.beat(answer) == 0, "nothing is free yet"
    for name, kept in ((room.a, (0,)), (room.b, (2,))):
        for owned in ((0, 1) if name == room.a else (2, 3), kept):
            room.rejoin(name, *owned)
    assert room.beat(answer) == ErrorCode.REBALANCE_IN_PROGRESS
    answer = room.rejoin(member_id)
    assert len(had(room.sync(answer).assignment)) == 1
    room.say("c")
    assert sorted([*room.has["c"]["t"], *had(room.sync(answer).assignment)]) == [1, 3]


def test_an_eager_member_revokes_all_partitions_at_once() -> None:
    room = Mixed()
    room.enter("c")
    answer = room.rejoin(room.b)
    assert (answer.generation_id, had(room.sync(answer).assignment)) == (2, [2])
    room.say("c")
    assert room.parts("c") == [[3]]


def lives_on(room: Mixed, member: JoinGroupResponse) -> JoinGroupResponse:
    """Run one cycle of a classic client, which owns nothing when it joins."""
    if room.beat(member) == ErrorCode.REBALANCE_IN_PROGRESS:
        member = room.rejoin(member.member_id)
        room.sync(member)
    return member


@pytest.mark.parametrize("way", ["leave", "leave group", "session", "revocation"])
def test_a_group_is_downgraded_however_its_last_consumer_protocol_member_goes(way: str) -> None:
    room = Mixed()
    room.enter("c")
    members = [lives_on(room, member) for member in room.members]
    room.say("c")
    if way == "leave":
        room.say("c", member_epoch=LEAVING)
    elif way == "leave group":
        assert room.leave(("c", None), (room.a, None), ("x", None)) == [0, 0, ErrorCode.UNKNOWN_MEMBER_ID]
    elif way == "revocation":
        room.say("c", subscribed_topic_names=["u"])
    while room.told().error_code == 0:
        room.wait(SESSION_MS / 2)
        if room.told().error_code == 0:
            members = [lives_on(room, member) for member in members]
            if way == "revocation":
                room.say("c", owned={"t": [3]})
    room.wait(0)
    assert room.now_ms == {"session": CONSUMER_SESSION_MS, "revocation": REBALANCE_MS}.get(way, 0)
    assert room.state() == "PreparingRebalance"
    left = {room.b} if way == "leave group" else {room.a, room.b}
    assert {member.member_id for member in room.describe().members} == left
    again = room.restarted()
    assert (again.state(), {member.member_id for member in again.describe().members}) == ("PreparingRebalance", left)
    for member_id in left:
        again.join(member_id, member_id)
    assert again.state() == "CompletingRebalance", "a crash before the rebalance does not spare them it"
    room.wait(REBALANCE_MS + SESSION_MS)
    assert room.state() == "Empty"


def test_an_upgrade_answers_parked_callers_with_rebalance_in_progress() -> None:
    room = Mixed()
    third, syncing = room.new_id(), object()
    room.join(third, "joining")
    room.enter("c")
    told = room.replies["joining"]
    assert (told.error_code, told.member_id) == (ErrorCode.REBALANCE_IN_PROGRESS, third)
    assert room.rejoin(third).generation_id == 2

    room = Mixed()
    for number, member_id in enumerate((room.a, room.b)):
        room.join(member_id, number, protocols=owning(number))
    follower = next(one for one in map(room.replies.get, (0, 1)) if one and one.leader != one.member_id)
    assert room.sync(follower, syncing) is None
    room.enter("c")
    assert room.replies[syncing].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert [room.hold(name) for name in (room.a, room.b, "c")] == [[0, 1], [2, 3], []], "as was assigned last"


def test_a_group_without_assignments_is_upgraded() -> None:
    room = Room(settings=GroupSettings(group_initial_rebalance_delay_ms=100))
    member_id = room.new_id()
    room.join(member_id, "joining")
    room.enter("c")
    assert room.replies["joining"].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    answer = room.join(member_id)
    room.say("c", owned={"t": [0, 1, 2, 3]})
    room.say("c", owned={"t": room.has["c"]["t"]})
    assert len(had(room.sync(room.join(member_id)).assignment)) == 2
    assert answer.generation_id >= 1
    room.wait(1000)
    assert room.told().group_state == "Stable"


def test_a_member_that_switches_its_protocol_keeps_its_id_and_partitions() -> None:
    room = Mixed()
    assert room.enter(room.a).member_epoch == room.generation
    assert room.parts(room.a) == [[0, 1]]
    old = room.members[0]
    assert room.beat(old) == room.sync(old) == ErrorCode.UNKNOWN_MEMBER_ID, "it uses the other protocol now"
    assert room.rejoin(room.a, 0, 1).generation_id == room.generation
    assert room.told().members[0].member_type == 0
    assert room.leave((room.b, None)) == [0]
    room.wait(0)
    assert room.state() == "PreparingRebalance", "all that are left are classic members"


def test_a_static_member_that_upgrades_a_group_without_assignments_gets_one() -> None:
    room = Room()
    room.join(instance="i", token="i")
    assert room.enter("c", instance_id="i").member_epoch == 1
    assert room.parts("c") == [[0, 1, 2, 3]]
    assert room.replies["i"].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    room.settle("c")


def test_unowned_partitions_are_assigned_after_an_upgrade_and_immediate_downgrade() -> None:
    room = Room()
    members = Mixed.two(room, ("i", "j"))  # type: ignore[arg-type]
    room.enter("c")
    for member, instance in zip(members, "ij", strict=True):
        room.sync(room.join(member.member_id, instance=instance, protocols=owning()), group_instance_id=instance)
    room.settle("c")
    room.say("c", member_epoch=LEAVING)
    room.enter("d", instance_id="i")
    answer = room.join(members[1].member_id, instance="j", protocols=owning())
    room.settle("d")
    found = [*room.has["d"]["t"], *had(room.sync(answer, group_instance_id="j").assignment)]
    assert sorted(found) == [0, 1, 2, 3]


def test_a_member_that_switches_its_protocol_has_no_classic_deadlines() -> None:
    room = Mixed()
    room.enter("c")
    assert room.beat(room.members[0]) == ErrorCode.REBALANCE_IN_PROGRESS
    room.enter(room.a)
    for _ in range(5):
        room.wait(REBALANCE_MS / 4)
        room.say(room.a)
        room.say("c")
    assert {one.member_id for one in room.told().members} == {room.a, "c"}


def test_static_members_of_either_protocol_replace_each_other() -> None:
    room = Room()
    mixed = Mixed.two(room, ("i", "j"))  # type: ignore[arg-type]
    a, b = (member.member_id for member in mixed)
    assert room.enter("c", instance_id="i").member_epoch == 1
    assert room.parts("c") == [[0, 1]]
    assert room.beat(mixed[0], "i") == ErrorCode.FENCED_INSTANCE_ID
    assert room.beat(mixed[1], "j") == 0
    answer = room.join("", instance="i", protocols=owning())
    assert (answer.error_code, answer.generation_id) == (0, 1)
    assert room.state() == "Stable", "nobody has to join again"
    assert had(room.sync(answer, group_instance_id="i").assignment) == [0, 1]
    assert room.beat(mixed[1], "j") == 0
    assert {member.member_id for member in room.restarted().describe().members} == {answer.member_id, b}
    assert a != answer.member_id


def test_a_static_replacement_with_other_topics_starts_a_rebalance() -> None:
    room = Room()
    mixed = Mixed.two(room, ("i", "j"))  # type: ignore[arg-type]
    room.enter("c", instance_id="i")
    answer = room.join("", instance="i", protocols=owning(names=("t", "u")))
    assert (answer.error_code, answer.generation_id) == (0, 0)
    room.wait(0)
    assert room.state() == "PreparingRebalance"
    assert room.beat(answer, "i") == ErrorCode.ILLEGAL_GENERATION
    assert room.beat(mixed[1], "j") == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_consumer_group_serves_static_classic_members() -> None:
    room = Room()
    mixed = Mixed.two(room, ("i", "j"))  # type: ignore[arg-type]
    room.enter("c")
    answer = room.join("", instance="i")
    assert room.beat(mixed[0], "i") == ErrorCode.FENCED_INSTANCE_ID
    assert room.beat(answer, "i") == 0
    assert room.join(answer.member_id, instance="j") == ErrorCode.FENCED_INSTANCE_ID
    assert room.join(answer.member_id, instance="x") == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.leave(("", "j"), ("", "j"), (mixed[0].member_id, "i"), ("", "x"), ("", None)) == [
        0,
        0,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert room.enter("d", instance_id="i").member_epoch == room.told().group_epoch
    assert room.say("d", member_epoch=LEAVING_FOR_NOW, instance_id="i").member_epoch == LEAVING_FOR_NOW
    assert room.told().error_code == 0, "it comes back"


def test_classic_members_of_a_consumer_group_have_deadlines() -> None:
    room = Mixed()
    room.enter("c")
    alive = room.members[0]
    for _ in range(int(REBALANCE_MS / SESSION_MS * 2)):
        assert {one.member_id for one in room.told().members} == {room.a, room.b, "c"}
        room.beat(alive)
        room.beat(room.members[1])
        room.say("c", owned={})
        room.wait(SESSION_MS / 2)
    assert [one.member_id for one in room.told().members] == ["c"], "the others have not joined in time"

    room = Mixed()
    room.enter("c")
    answer = room.rejoin(room.a, 0, 1)
    for _ in range(int(REBALANCE_MS / SESSION_MS * 2) + 1):
        room.wait(SESSION_MS / 2)
        room.say("c", owned={})
        room.beat(answer)
    assert room.beat(answer) == ErrorCode.UNKNOWN_MEMBER_ID, "it has not fetched its assignment"


@pytest.mark.parametrize(
    ("policy", "up", "down"),
    [("disabled", False, False), ("upgrade", True, False), ("downgrade", False, True), ("bidirectional", True, True)],
)
def test_the_migration_policy_allows_upgrades_and_downgrades(policy: str, up: bool, down: bool) -> None:
    room = Mixed(settings=GroupSettings(group_initial_rebalance_delay_ms=0, group_consumer_migration_policy=policy))
    if up:
        assert room.enter("c").error_code == 0
    else:
        assert room.enter("c") == ErrorCode.GROUP_ID_NOT_FOUND
        assert room.state() == "Stable"
        room.leave((room.a, None), (room.b, None))
        room.wait(0)
        room.enter("c")
        room.rejoin(room.new_id())
    room.say("c", member_epoch=LEAVING)
    room.wait(0)
    assert (room.state() == "PreparingRebalance") is down
    assert (room.told().error_code == 0) is not down


def test_the_maximum_size_bounds_upgrades_and_downgrades() -> None:
    room = Mixed(settings=GroupSettings(group_initial_rebalance_delay_ms=0, group_consumer_max_size=2))
    assert room.enter("c") == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert room.enter(room.a).error_code == 0
    assert room.join() == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert room.rejoin(room.b, 2, 3).error_code == 0

    room = Mixed(settings=GroupSettings(group_initial_rebalance_delay_ms=0, group_consumer_max_size=1))
    assert room.enter(room.a) == ErrorCode.GROUP_ID_NOT_FOUND

    room = Mixed(settings=GroupSettings(group_initial_rebalance_delay_ms=0, group_max_size=2))
    room.enter("c")
    room.rejoin(room.new_id())
    room.say("c", member_epoch=LEAVING)
    assert room.told().group_state == "Assigning", "three are too many for a classic group"
    room.leave((room.a, None))
    room.wait(0)
    assert room.state() == "PreparingRebalance"


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
def test_a_classic_group_that_cannot_be_converted_stays(
    given: tuple[bytes, bytes], protocols: dict[str, bytes] | None, why: str
) -> None:
    room = Room()
    Mixed.two(room, given=given, protocols=protocols)  # type: ignore[arg-type]
    before = len(room.log)
    assert room.enter("c") == ErrorCode.GROUP_ID_NOT_FOUND
    assert (room.state(), len(room.log)) == ("Stable", before), why


def test_an_upgrade_drops_assigned_partitions_that_do_not_exist() -> None:
    room = Room()
    a, b = (one.member_id for one in Mixed.two(room, given=(b"", assigned(1, 9, 2**31 - 1, -1))))  # type: ignore[arg-type]
    room.enter("c")
    told = {one.member_id: one for one in room.told().members}
    assert [told[name].assignment.topic_partitions for name in (a,)] == [[]]
    assert [one.partitions for one in told[b].assignment.topic_partitions] == [[1]]


def test_a_group_of_another_protocol_type_is_not_upgraded() -> None:
    room = Room()
    room.join("", version=3, kind="connect")
    assert room.enter("c") == ErrorCode.GROUP_ID_NOT_FOUND
    assert room.say("c", member_epoch=1) == room.say("c", member_epoch=LEAVING) == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_classic_member_joins_a_consumer_group() -> None:
    room = Room()
    room.enter("c")
    odd: list[dict[str, Any]] = [{"kind": "connect"}, {"protocols": {}}]
    for fields in odd:
        assert room.join(**fields) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert room.join(session_ms=1) == ErrorCode.INVALID_SESSION_TIMEOUT
    assert room.join("zz", protocols={"range": b"zz"}) == ErrorCode.UNKNOWN_SERVER_ERROR
    answer = room.join("", version=3, protocols={"range": subscription("t"), "sticky": b"zz"})
    assert (answer.generation_id, answer.protocol_name) == (3, "range")
    assert room.join("zz", protocols={"other": subscription("t")}) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert room.join("zz", protocols={"sticky": subscription("t")}).error_code == 0, "both know it"
    member = JoinGroupResponse(generation_id=answer.generation_id, member_id=answer.member_id)
    assert room.sync(member, protocol_type="x") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert room.sync(member, protocol_name="sticky") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert room.beat(member, generation=2) == room.beat(member, generation=-1) == ErrorCode.ILLEGAL_GENERATION
    assert room.beat(JoinGroupResponse(generation_id=2, member_id="c")) == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.beat(JoinGroupResponse(generation_id=2, member_id="?")) == ErrorCode.UNKNOWN_MEMBER_ID
    room.say("c", member_epoch=LEAVING)
    room.wait(0)
    assert room.state() == "PreparingRebalance", "the protocol that nobody can read is no obstacle"


def test_a_member_that_switches_its_protocol_leaves_no_pattern_behind() -> None:
    room = Room()
    room.enter("c", instance_id="i", subscribed_topic_names=None, subscribed_topic_regex="t.*")
    room.enter("d")
    assert room.join("", instance="i", protocols=owning()).error_code == 0
    assert (16, True) in [(one.key.record_type, one.value is None) for one in room.log]
    assert room.restarted().told().members[-1].subscribed_topic_regex == ""


def test_members_commit_and_fetch_in_their_generation() -> None:
    room = Mixed()
    room.enter("c")
    a = room.members[0]
    later = JoinGroupResponse(generation_id=9, member_id=room.a)
    assert [room.commit(1, a, version=version) for version in (2, 8, 9)] == [0, 0, 0]
    assert room.commit(1, later) == ErrorCode.ILLEGAL_GENERATION
    assert room.commit(1, JoinGroupResponse(generation_id=2, member_id="c"), version=8) == ErrorCode.UNSUPPORTED_VERSION
    asked = OffsetFetchRequestGroup("g", room.a, room.generation, None)
    assert room.ask(FetchOffsets(asked, require_stable=False), 0).error_code == 0
    asked.member_epoch = 9
    assert room.ask(FetchOffsets(asked, require_stable=False), 0) == ErrorCode.ILLEGAL_GENERATION
    for who, code in (
        (("", -1), 0),
        ((room.a, room.generation), 0),
        ((room.a, 9), ErrorCode.ILLEGAL_GENERATION),
        (("c", 9), ErrorCode.ILLEGAL_GENERATION),
        (("?", 1), ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        topic = TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, 9)])
        answer = room.ask(TxnOffsetCommitRequest("tx", "g", 5, 0, who[1], who[0], topics=[topic]), 3)
        assert (answer if isinstance(answer, ErrorCode) else answer.topics[0].partitions[0].error_code) == code
    room.rejoin(room.b, 2, 3)
    room.rejoin(room.b, 2)
    old = JoinGroupResponse(generation_id=1, member_id=room.b)
    assert [room.commit(1, old, partition=one) for one in (2, 3)] == [0, ErrorCode.ILLEGAL_GENERATION]


@pytest.mark.parametrize("version", range(4))
def test_an_assignment_has_the_version_of_the_subscription(version: int) -> None:
    room = Room(topics(t=1))
    room.enter("c")
    room.say("c", member_epoch=0, topic_partitions=[], rebalance_timeout_ms=1000, subscribed_topic_names=[])
    room.say("c", owned={})
    answer = room.join("zz", protocols=owning(version=version))
    given = room.sync(answer).assignment
    assert (given[:2], had(given)) == (version.to_bytes(2, "big"), [0])
