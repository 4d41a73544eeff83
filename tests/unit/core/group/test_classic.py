"""Classic groups: joining, waiting for rebalances, leaving, and state after a crash."""

from __future__ import annotations

from typing import Any

import pytest

from pykbroker.core.group.settings import GroupSettings
from tests.unit.core.group.talk import REBALANCE_MS, SESSION_MS, WALL_MS, Talk, subscription
from wire.error_codes import ErrorCode
from wire.messages.heartbeat import HeartbeatRequest
from wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from wire.messages.leave_group import LeaveGroupRequest
from wire.messages.sync_group import SyncGroupRequest


def test_the_first_member_gets_an_id_and_creates_the_group() -> None:
    talk = Talk()
    member_id = talk.new_id(client="me")
    assert member_id.startswith("me-")
    assert len(member_id) == len("me-") + 36
    (founded,) = talk.stored()
    assert (founded.protocol_type, founded.generation, founded.protocol, founded.leader) == ("", 0, None, None)
    assert (founded.members, founded.current_state_timestamp) == ([], WALL_MS)
    assert talk.join(member_id, "a") is None
    assert talk.state() == "PreparingRebalance"
    talk.wait(0)
    joined = talk.replies["a"]
    assert (joined.generation_id, joined.leader, joined.protocol_name, joined.protocol_type) == (
        1,
        member_id,
        "range",
        "consumer",
    )
    assert [member.member_id for member in joined.members] == [member_id]
    assert talk.state() == "CompletingRebalance"
    assert talk.sync(joined, given={member_id: b"all"}).assignment == b"all"
    assert talk.state() == "Stable"
    value = talk.stored()[-1]
    assert (value.generation, value.leader, value.members[0].assignment) == (1, member_id, b"all")
    assert (value.members[0].session_timeout, value.members[0].rebalance_timeout) == (SESSION_MS, REBALANCE_MS)
    assert (value.members[0].client_id, value.members[0].client_host) == ("c", "/127.0.0.1")


@pytest.mark.parametrize("version", [0, 3])
def test_old_clients_join_at_once(version: int) -> None:
    talk = Talk()
    assert talk.join(token="a", version=version) is None
    talk.wait(0)
    assert talk.replies["a"].generation_id == 1


@pytest.mark.parametrize(
    ("session_ms", "code"),
    [
        (5999, ErrorCode.INVALID_SESSION_TIMEOUT),
        (6000, None),
        (1_800_000, None),
        (1_800_001, ErrorCode.INVALID_SESSION_TIMEOUT),
    ],
)
def test_the_session_timeout_is_bounded(session_ms: int, code: ErrorCode | None) -> None:
    answer = Talk().join(session_ms=session_ms, version=3)
    assert answer == code


def test_a_join_group_with_an_unknown_member_or_protocol_is_refused() -> None:
    talk = Talk()
    assert talk.join(group="") == ErrorCode.INVALID_GROUP_ID
    assert talk.join("stranger") == ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.join(protocols={}) == talk.join(kind="") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert talk.log == []
    talk.stable(1)
    assert talk.join("stranger") == ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.join(kind="connect") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert talk.join(protocols={"roundrobin": b""}) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_protocol_with_most_votes_that_all_members_support_is_selected() -> None:
    talk = Talk(GroupSettings(group_initial_rebalance_delay_ms=100))
    likes = (("a", "b", "c"), ("c", "b"), ("c", "b", "a"), ("c", "x", "b"))
    for number, names in enumerate(likes):
        assert talk.join(token=number, version=3, protocols=dict.fromkeys(names, b"")) is None
    talk.wait(1000)
    assert {talk.replies[number].protocol_name for number in range(4)} == {"c"}
    assert [len(talk.replies[number].members) for number in range(4)] == [4, 0, 0, 0]


def test_a_first_rebalance_is_delayed_while_members_join_up_to_the_rebalance_timeout() -> None:
    talk = Talk(GroupSettings(group_initial_rebalance_delay_ms=20_000))
    for number in range(4):
        assert talk.replies == {}
        talk.join(token=number, version=3)
        talk.wait(15_000)
    assert talk.now_ms == REBALANCE_MS
    assert len(talk.replies[0].members) == len(talk.replies) == 4


def test_members_join_and_leave() -> None:
    talk = Talk()
    leader, follower = talk.stable(2)
    newcomer = talk.new_id()
    assert talk.state() == "Stable"
    assert talk.join(newcomer, "new") is None
    assert talk.beat(leader) == talk.beat(follower) == ErrorCode.REBALANCE_IN_PROGRESS
    assert talk.sync(follower) == ErrorCode.REBALANCE_IN_PROGRESS
    talk.join(leader.member_id, "leader")
    talk.join(follower.member_id, "follower")
    new, leader, follower = (talk.replies[token] for token in ("new", "leader", "follower"))
    assert {member.generation_id for member in (new, leader, follower)} == {2}
    assert talk.beat(leader) == ErrorCode.NONE
    assert talk.beat(leader, generation=1) == ErrorCode.ILLEGAL_GENERATION
    assert talk.sync(new, "sync new") is None
    assert talk.sync(leader, "sync leader", {newcomer: b"n"}).assignment == b""
    assert talk.replies["sync new"].assignment == b"n"
    assert talk.leave((follower.member_id, None), ("nobody", None)) == [0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert talk.beat(follower) == ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.beat(new) == ErrorCode.REBALANCE_IN_PROGRESS
    assert talk.leave((leader.member_id, None), (newcomer, None)) == [0, 0]
    assert talk.state() == "Empty"
    gone = talk.stored()[-1]
    assert (gone.generation, gone.protocol_type, gone.protocol, gone.leader, gone.members) == (
        3,
        "consumer",
        None,
        None,
        [],
    )


def test_a_session_times_out_without_heartbeats_but_not_while_the_caller_is_parked() -> None:
    talk = Talk()
    leader, silent = talk.stable(2)
    for _ in range(3):
        talk.wait(SESSION_MS / 2)
        talk.beat(leader)
    assert talk.beat(silent) == ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.state() == "PreparingRebalance"
    assert talk.join(leader.member_id, "again").generation_id == 2
    late = talk.new_id(session_ms=REBALANCE_MS)
    assert talk.join(late, "late") is None
    talk.wait(SESSION_MS)
    assert talk.replies["late"].generation_id == 3, "the leader was silent"
    assert talk.replies["late"].leader == late


def test_a_rebalance_waits_for_the_rebalance_timeout_at_most() -> None:
    talk = Talk()
    leader, slow = talk.stable(2)
    assert talk.join(leader.member_id, "leader") is None
    for _ in range(7):
        talk.wait(SESSION_MS - 1)
        talk.beat(slow)
    assert talk.replies["leader"].generation_id == 2
    assert talk.beat(slow) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_without_a_sync_group_in_time_is_removed() -> None:
    talk = Talk()
    leader, other = talk.stable(2)
    talk.join(other.member_id, "other")
    assert talk.replies.get("other") is not None, "nothing new of a follower: the same generation again"
    talk.join(leader.member_id, "leader")
    talk.join(other.member_id, "other again")
    leader, other = talk.replies["leader"], talk.replies["other again"]
    assert talk.sync(other, "sync") is None
    for _ in range(7):
        talk.wait(SESSION_MS - 1)
        talk.beat(leader)
    assert talk.replies["sync"].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert talk.beat(leader) == ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.state() == "PreparingRebalance"


def test_a_rebalance_waits_for_a_pending_member_until_its_session_times_out() -> None:
    talk = Talk()
    (leader,) = talk.stable(1)
    talk.new_id()
    assert talk.join(leader.member_id, "leader") is None
    talk.wait(SESSION_MS)
    assert talk.replies["leader"].generation_id == 2


def test_a_classic_group_has_a_maximum_size() -> None:
    talk = Talk(GroupSettings(group_initial_rebalance_delay_ms=0, group_max_size=2))
    leader, _ = talk.stable(2)
    refused = talk.join()
    assert (refused.error_code, refused.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    talk.leave((leader.member_id, None))
    assert talk.new_id()


def test_a_repeated_request_gets_the_same_response() -> None:
    talk = Talk()
    leader, follower = talk.stable(2)
    talk.join(leader.member_id, "leader")
    talk.join(follower.member_id, "follower")
    again = talk.join(leader.member_id)
    assert again == talk.replies["leader"]
    assert len(again.members) == 2
    assert talk.join(follower.member_id).members == []
    assert talk.join(follower.member_id, protocols={"range": subscription("t", "u")}) is None
    assert talk.state() == "PreparingRebalance"


def test_a_second_parked_call_of_a_member_refuses_the_first() -> None:
    talk = Talk()
    leader, follower = talk.stable(2)
    talk.join(leader.member_id, "first")
    talk.join(leader.member_id, "second")
    assert talk.replies["first"].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    talk.join(follower.member_id, "follower")
    follower = talk.replies["follower"]
    talk.sync(follower, "sync first")
    talk.sync(follower, "sync second")
    assert talk.replies["sync first"].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    talk.sync(talk.replies["second"], given={follower.member_id: b"f"})
    assert talk.replies["sync second"].assignment == b"f"


def static(talk: Talk) -> Any:
    """Return a stable group of one static member."""
    talk.join(token="static", instance="i")
    talk.wait(0)
    member = talk.replies.pop("static")
    assert talk.sync(member, group_instance_id="i", given={member.member_id: b"mine"}).assignment == b"mine"
    return member


@pytest.mark.parametrize("version", [8, 9])
def test_a_restarted_static_member_resumes_without_a_rebalance(version: int) -> None:
    talk = Talk()
    first = static(talk)
    assert first.member_id.startswith("i-")
    second = talk.join(instance="i", version=version)
    assert (second.error_code, second.generation_id) == (0, 1)
    assert second.member_id != first.member_id
    assert second.skip_assignment == (version == 9)
    assert second.leader == (second.member_id if version == 9 else first.member_id)
    assert [one.member_id for one in second.members] == ([second.member_id] if version == 9 else [])
    assert talk.state() == "Stable"
    assert talk.stored()[-1].leader == second.member_id
    assert talk.sync(second, group_instance_id="i").assignment == b"mine"
    assert talk.beat(first, "i") == ErrorCode.FENCED_INSTANCE_ID
    assert talk.beat(first) == ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.beat(second, "i") == ErrorCode.NONE
    assert talk.beat(second, "j") == ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.restarted().beat(second, "i") == ErrorCode.NONE


def test_a_restarted_static_member_with_other_protocols_starts_a_rebalance() -> None:
    talk = Talk()
    first = static(talk)
    assert talk.join(token="new", instance="i", protocols={"range": subscription("t"), "other": b""}).generation_id == 1
    assert talk.join(token="b", version=3, protocols={"other": b"", "range": b""}) is None
    assert talk.beat(first, "i") == ErrorCode.FENCED_INSTANCE_ID


def test_an_absent_static_member_stays_until_it_is_removed_by_its_instance_id() -> None:
    talk = Talk()
    static(talk)
    talk.join(token="other", version=3)
    assert talk.leave(("", "nobody"), ("", None), ("", "i")) == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        0,
    ]
    assert talk.replies["other"].generation_id == 2
    assert len(talk.replies["other"].members) == 1


def test_leave_group_answers_for_each_member() -> None:
    talk = Talk()
    (member,) = talk.stable(1)
    pending = talk.new_id()
    assert talk.leave((pending, None)) == [0]
    old = talk.ask(LeaveGroupRequest("g", member_id="nobody"), 2)
    assert (old.error_code, old.members) == (ErrorCode.UNKNOWN_MEMBER_ID, [])
    assert talk.ask(LeaveGroupRequest("g", member_id=member.member_id), 1).error_code == 0
    assert talk.ask(LeaveGroupRequest("none", member_id="x"), 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.ask(LeaveGroupRequest("", member_id="x"), 1) == ErrorCode.INVALID_GROUP_ID


def test_sync_group_is_refused_outside_of_the_generation() -> None:
    talk = Talk()
    (member,) = talk.stable(1)
    assert talk.sync(member, protocol_type="connect") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert talk.sync(member, protocol_name="other") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert talk.sync(member, protocol_name="range", protocol_type="consumer").assignment == b"mine"
    assert talk.ask(SyncGroupRequest("g", 2, member.member_id), 5) == ErrorCode.ILLEGAL_GENERATION
    assert talk.ask(SyncGroupRequest("g", 1, "x"), 5) == ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.ask(SyncGroupRequest("none", 1, "x"), 5) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_restart_returns_to_the_last_assigned_generation() -> None:
    talk = Talk()
    leader, follower = talk.stable(2)
    talk.join(leader.member_id, "leader")
    talk.join(follower.member_id, "follower")
    assert talk.replies["leader"].generation_id == 2
    again = talk.restarted()
    assert again.state() == "Stable"
    assert again.beat(follower) == ErrorCode.NONE
    assert again.beat(talk.replies["follower"]) == ErrorCode.ILLEGAL_GENERATION
    assert again.sync(follower).assignment == b"mine"
    assert again.join(follower.member_id).generation_id == 1
    again.wait(SESSION_MS)
    assert again.state() == "Empty"
    assert again.stored()[-1].generation == 2


def test_a_description_has_protocols_only_while_the_group_is_stable() -> None:
    talk = Talk()
    leader, follower = talk.stable(2)
    told = talk.describe()
    assert (told.group_state, told.protocol_type, told.protocol_data) == ("Stable", "consumer", "range")
    assert [(one.member_id, one.member_metadata, one.member_assignment) for one in told.members] == [
        (member.member_id, subscription("t"), b"mine") for member in (leader, follower)
    ]
    talk.join(leader.member_id, "leader")
    told = talk.describe()
    assert (told.group_state, told.protocol_data, told.members[0].member_metadata) == ("PreparingRebalance", "", b"")
    assert (talk.describe("none").group_state, talk.describe("none").error_code) == (
        "Dead",
        ErrorCode.GROUP_ID_NOT_FOUND,
    )
    assert (talk.describe("none", 5).group_state, talk.describe("none", 5).error_code) == ("Dead", 0)


def test_a_protocol_that_a_member_lists_twice_counts_once() -> None:
    talk = Talk()
    twice = [JoinGroupRequestProtocol(name, b"") for name in ("own", "own", "range")]
    request = JoinGroupRequest("g", SESSION_MS, REBALANCE_MS, "", None, "consumer", twice)
    assert talk.ask(request, 3, "a") is None
    talk.join(token="b", version=3)
    talk.wait(0)
    talk.wait(REBALANCE_MS)
    assert {reply.protocol_name for reply in talk.replies.values() if not reply.error_code} == {"range"}


def waiting(talk: Talk, member: Any, ms: int) -> None:
    """Let time pass in which a static member sends heartbeats and does not join."""
    for _ in range(ms // (SESSION_MS - 1) + 1):
        talk.wait(SESSION_MS - 1)
        talk.beat(member, "i")


def test_a_joined_member_becomes_leader_if_the_static_leader_has_not_joined() -> None:
    talk = Talk()
    away = static(talk)
    assert talk.join(token="b", version=3) is None
    waiting(talk, away, REBALANCE_MS)
    joined = talk.replies["b"]
    assert (joined.generation_id, joined.leader) == (2, joined.member_id)
    assert {one.group_instance_id for one in joined.members} == {"i", None}


def test_a_generation_needs_a_member_that_has_joined() -> None:
    talk = Talk()
    away = static(talk)
    pending = talk.new_id()
    assert talk.join(pending, "b") is None
    assert talk.leave((pending, None)) == [0]
    waiting(talk, away, 2 * REBALANCE_MS)
    assert talk.state() == "PreparingRebalance"
    assert talk.join(away.member_id, "back", instance="i").generation_id == 2


def test_a_static_member_cannot_use_a_pending_member_id() -> None:
    talk = Talk()
    member_id = talk.new_id()
    assert talk.join(member_id, instance="i") == ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.join("other") == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_number_of_pending_member_ids_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykbroker.core.group.classic.join.PENDING_MEMBERS_MAX", 2)
    talk = Talk()
    talk.new_id()
    talk.new_id()
    assert talk.join() == ErrorCode.GROUP_MAX_SIZE_REACHED
    talk.wait(SESSION_MS)
    assert talk.new_id()


def test_an_empty_group_id_is_refused() -> None:
    talk = Talk()
    for request in (HeartbeatRequest(""), SyncGroupRequest("")):
        assert talk.ask(request, 3) == ErrorCode.INVALID_GROUP_ID


def test_a_member_that_leaves_has_its_parked_sync_group_answered() -> None:
    talk = Talk()
    leader, other = talk.stable(2)
    talk.join(leader.member_id, "leader")
    talk.join(other.member_id, "other")
    assert talk.sync(talk.replies["other"], "sync") is None
    assert talk.leave((other.member_id, None)) == [0]
    assert talk.replies["sync"].error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("protocols", "code"),
    [
        ({"range": bytes((4 << 20) - 5)}, 0),
        ({"range": bytes((4 << 20) - 4)}, ErrorCode.UNKNOWN_SERVER_ERROR),
        ({str(number): b"" for number in range(1000)}, 0),
        ({str(number): b"" for number in range(1001)}, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_members_protocols_are_bounded(protocols: dict[str, bytes], code: ErrorCode) -> None:
    talk = Talk()
    answer = talk.join(version=3, token="joining", protocols=protocols)
    talk.wait(0)
    assert (talk.replies["joining"].error_code if answer is None else answer) == code
    assert len(talk.log) == (not code)


def test_a_description_has_the_old_assignments_until_there_are_new_ones() -> None:
    talk = Talk()
    leader, follower = talk.stable(2, given=b"old")
    talk.join(leader.member_id, "leader")
    told = talk.describe()
    assert (told.group_state, told.protocol_data) == ("PreparingRebalance", "")
    assert [(one.member_metadata, one.member_assignment) for one in told.members] == [(b"", b"old")] * 2
    talk.join(follower.member_id)
    told = talk.describe()
    assert (told.group_state, [one.member_assignment for one in told.members]) == ("CompletingRebalance", [b"old"] * 2)
    talk.sync(talk.replies["leader"], given={leader.member_id: b"new"})
    assert sorted(one.member_assignment for one in talk.describe().members) == [b"", b"new"]
