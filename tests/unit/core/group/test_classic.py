"""Tests of classic groups: joining, rebalances, leaving, timeouts, and the state after a restart."""

from __future__ import annotations

from typing import Any

import pytest

from pykbroker.core.group.settings import GroupSettings
from tests.unit.core.group.harness import REBALANCE_MS, SESSION_MS, WALL_MS, GroupHarness, subscription
from wire.error_codes import ErrorCode
from wire.messages.heartbeat import HeartbeatRequest
from wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from wire.messages.leave_group import LeaveGroupRequest
from wire.messages.sync_group import SyncGroupRequest


def test_the_first_member_gets_a_member_id_and_creates_the_group() -> None:
    harness = GroupHarness()
    member_id = harness.new_id(client="me")
    assert member_id.startswith("me-")
    assert len(member_id) == len("me-") + 36
    (founded,) = harness.stored()
    assert (founded.protocol_type, founded.generation, founded.protocol, founded.leader) == ("", 0, None, None)
    assert (founded.members, founded.current_state_timestamp) == ([], WALL_MS)
    assert harness.join(member_id, "a") is None
    assert harness.state() == "PreparingRebalance"
    harness.wait(0)
    joined = harness.replies["a"]
    assert (joined.generation_id, joined.leader, joined.protocol_name, joined.protocol_type) == (
        1,
        member_id,
        "range",
        "consumer",
    )
    assert [member.member_id for member in joined.members] == [member_id]
    assert harness.state() == "CompletingRebalance"
    assert harness.sync(joined, given={member_id: b"all"}).assignment == b"all"
    assert harness.state() == "Stable"
    value = harness.stored()[-1]
    assert (value.generation, value.leader, value.members[0].assignment) == (1, member_id, b"all")
    assert (value.members[0].session_timeout, value.members[0].rebalance_timeout) == (SESSION_MS, REBALANCE_MS)
    assert (value.members[0].client_id, value.members[0].client_host) == ("c", "/127.0.0.1")


@pytest.mark.parametrize("version", [0, 3])
def test_a_client_before_version_4_joins_without_a_member_id(version: int) -> None:
    harness = GroupHarness()
    assert harness.join(token="a", version=version) is None
    harness.wait(0)
    assert harness.replies["a"].generation_id == 1


@pytest.mark.parametrize(
    ("session_ms", "code"),
    [
        (5999, ErrorCode.INVALID_SESSION_TIMEOUT),
        (6000, None),
        (1_800_000, None),
        (1_800_001, ErrorCode.INVALID_SESSION_TIMEOUT),
    ],
)
def test_a_session_timeout_outside_of_its_limits_is_refused(session_ms: int, code: ErrorCode | None) -> None:
    answer = GroupHarness().join(session_ms=session_ms, version=3)
    assert answer == code


def test_a_join_group_with_an_unknown_member_or_protocol_is_refused() -> None:
    harness = GroupHarness()
    assert harness.join(group="") == ErrorCode.INVALID_GROUP_ID
    assert harness.join("stranger") == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.join(protocols={}) == harness.join(kind="") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.log == []
    harness.stable(1)
    assert harness.join("stranger") == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.join(kind="connect") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.join(protocols={"roundrobin": b""}) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_most_voted_protocol_that_all_members_support_is_selected() -> None:
    harness = GroupHarness(GroupSettings(group_initial_rebalance_delay_ms=100))
    likes = (("a", "b", "c"), ("c", "b"), ("c", "b", "a"), ("c", "x", "b"))
    for number, names in enumerate(likes):
        assert harness.join(token=number, version=3, protocols=dict.fromkeys(names, b"")) is None
    harness.wait(1000)
    assert {harness.replies[number].protocol_name for number in range(4)} == {"c"}
    assert [len(harness.replies[number].members) for number in range(4)] == [4, 0, 0, 0]


def test_the_initial_rebalance_delay_is_extended_by_new_members_up_to_the_rebalance_timeout() -> None:
    harness = GroupHarness(GroupSettings(group_initial_rebalance_delay_ms=20_000))
    for number in range(4):
        assert harness.replies == {}
        harness.join(token=number, version=3)
        harness.wait(15_000)
    assert harness.now_ms == REBALANCE_MS
    assert len(harness.replies[0].members) == len(harness.replies) == 4


def test_a_rebalance_follows_each_member_that_joins_or_leaves() -> None:
    harness = GroupHarness()
    leader, follower = harness.stable(2)
    newcomer = harness.new_id()
    assert harness.state() == "Stable"
    assert harness.join(newcomer, "new") is None
    assert harness.beat(leader) == harness.beat(follower) == ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.sync(follower) == ErrorCode.REBALANCE_IN_PROGRESS
    harness.join(leader.member_id, "leader")
    harness.join(follower.member_id, "follower")
    new, leader, follower = (harness.replies[token] for token in ("new", "leader", "follower"))
    assert {member.generation_id for member in (new, leader, follower)} == {2}
    assert harness.beat(leader) == ErrorCode.NONE
    assert harness.beat(leader, generation=1) == ErrorCode.ILLEGAL_GENERATION
    assert harness.sync(new, "sync new") is None
    assert harness.sync(leader, "sync leader", {newcomer: b"n"}).assignment == b""
    assert harness.replies["sync new"].assignment == b"n"
    assert harness.leave((follower.member_id, None), ("nobody", None)) == [0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert harness.beat(follower) == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.beat(new) == ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.leave((leader.member_id, None), (newcomer, None)) == [0, 0]
    assert harness.state() == "Empty"
    gone = harness.stored()[-1]
    assert (gone.generation, gone.protocol_type, gone.protocol, gone.leader, gone.members) == (
        3,
        "consumer",
        None,
        None,
        [],
    )


def test_a_member_without_heartbeats_times_out_except_while_its_request_waits() -> None:
    harness = GroupHarness()
    leader, silent = harness.stable(2)
    for _ in range(3):
        harness.wait(SESSION_MS / 2)
        harness.beat(leader)
    assert harness.beat(silent) == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.state() == "PreparingRebalance"
    assert harness.join(leader.member_id, "again").generation_id == 2
    late = harness.new_id(session_ms=REBALANCE_MS)
    assert harness.join(late, "late") is None
    harness.wait(SESSION_MS)
    assert harness.replies["late"].generation_id == 3, "the leader sent no heartbeat and was removed"
    assert harness.replies["late"].leader == late


def test_a_rebalance_waits_for_the_rebalance_timeout_at_most() -> None:
    harness = GroupHarness()
    leader, slow = harness.stable(2)
    assert harness.join(leader.member_id, "leader") is None
    for _ in range(7):
        harness.wait(SESSION_MS - 1)
        harness.beat(slow)
    assert harness.replies["leader"].generation_id == 2
    assert harness.beat(slow) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_sends_no_sync_group_in_time_is_removed() -> None:
    harness = GroupHarness()
    leader, other = harness.stable(2)
    harness.join(other.member_id, "other")
    assert harness.replies.get("other") is not None, "a follower that rejoins gets the same generation"
    harness.join(leader.member_id, "leader")
    harness.join(other.member_id, "other again")
    leader, other = harness.replies["leader"], harness.replies["other again"]
    assert harness.sync(other, "sync") is None
    for _ in range(7):
        harness.wait(SESSION_MS - 1)
        harness.beat(leader)
    assert harness.replies["sync"].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.beat(leader) == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.state() == "PreparingRebalance"


def test_a_rebalance_waits_for_a_pending_member_until_its_session_timeout() -> None:
    harness = GroupHarness()
    (leader,) = harness.stable(1)
    harness.new_id()
    assert harness.join(leader.member_id, "leader") is None
    harness.wait(SESSION_MS)
    assert harness.replies["leader"].generation_id == 2


def test_the_size_of_a_classic_group_is_limited() -> None:
    harness = GroupHarness(GroupSettings(group_initial_rebalance_delay_ms=0, group_max_size=2))
    leader, _ = harness.stable(2)
    refused = harness.join()
    assert (refused.error_code, refused.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    harness.leave((leader.member_id, None))
    assert harness.new_id()


def test_a_repeated_request_gets_the_same_response() -> None:
    harness = GroupHarness()
    leader, follower = harness.stable(2)
    harness.join(leader.member_id, "leader")
    harness.join(follower.member_id, "follower")
    again = harness.join(leader.member_id)
    assert again == harness.replies["leader"]
    assert len(again.members) == 2
    assert harness.join(follower.member_id).members == []
    assert harness.join(follower.member_id, protocols={"range": subscription("t", "u")}) is None
    assert harness.state() == "PreparingRebalance"


def test_a_second_waiting_request_of_a_member_refuses_the_first() -> None:
    harness = GroupHarness()
    leader, follower = harness.stable(2)
    harness.join(leader.member_id, "first")
    harness.join(leader.member_id, "second")
    assert harness.replies["first"].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    harness.join(follower.member_id, "follower")
    follower = harness.replies["follower"]
    harness.sync(follower, "sync first")
    harness.sync(follower, "sync second")
    assert harness.replies["sync first"].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    harness.sync(harness.replies["second"], given={follower.member_id: b"f"})
    assert harness.replies["sync second"].assignment == b"f"


def static(harness: GroupHarness) -> Any:
    """Return a stable group whose only member is static."""
    harness.join(token="static", instance="i")
    harness.wait(0)
    member = harness.replies.pop("static")
    assert harness.sync(member, group_instance_id="i", given={member.member_id: b"mine"}).assignment == b"mine"
    return member


@pytest.mark.parametrize("version", [8, 9])
def test_a_restarted_static_member_continues_without_a_rebalance(version: int) -> None:
    harness = GroupHarness()
    first = static(harness)
    assert first.member_id.startswith("i-")
    second = harness.join(instance="i", version=version)
    assert (second.error_code, second.generation_id) == (0, 1)
    assert second.member_id != first.member_id
    assert second.skip_assignment == (version == 9)
    assert second.leader == (second.member_id if version == 9 else first.member_id)
    assert [one.member_id for one in second.members] == ([second.member_id] if version == 9 else [])
    assert harness.state() == "Stable"
    assert harness.stored()[-1].leader == second.member_id
    assert harness.sync(second, group_instance_id="i").assignment == b"mine"
    assert harness.beat(first, "i") == ErrorCode.FENCED_INSTANCE_ID
    assert harness.beat(first) == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.beat(second, "i") == ErrorCode.NONE
    assert harness.beat(second, "j") == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.restarted().beat(second, "i") == ErrorCode.NONE


def test_a_restarted_static_member_with_other_protocols_starts_a_rebalance() -> None:
    harness = GroupHarness()
    first = static(harness)
    assert (
        harness.join(token="new", instance="i", protocols={"range": subscription("t"), "other": b""}).generation_id == 1
    )
    assert harness.join(token="b", version=3, protocols={"other": b"", "range": b""}) is None
    assert harness.beat(first, "i") == ErrorCode.FENCED_INSTANCE_ID


def test_an_absent_static_member_stays_until_its_group_instance_id_is_removed() -> None:
    harness = GroupHarness()
    static(harness)
    harness.join(token="other", version=3)
    assert harness.leave(("", "nobody"), ("", None), ("", "i")) == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        0,
    ]
    assert harness.replies["other"].generation_id == 2
    assert len(harness.replies["other"].members) == 1


def test_a_leave_group_response_has_a_result_for_each_member() -> None:
    harness = GroupHarness()
    (member,) = harness.stable(1)
    pending = harness.new_id()
    assert harness.leave((pending, None)) == [0]
    old = harness.ask(LeaveGroupRequest("g", member_id="nobody"), 2)
    assert (old.error_code, old.members) == (ErrorCode.UNKNOWN_MEMBER_ID, [])
    assert harness.ask(LeaveGroupRequest("g", member_id=member.member_id), 1).error_code == 0
    assert harness.ask(LeaveGroupRequest("none", member_id="x"), 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.ask(LeaveGroupRequest("", member_id="x"), 1) == ErrorCode.INVALID_GROUP_ID


def test_sync_group_with_a_wrong_generation_is_refused() -> None:
    harness = GroupHarness()
    (member,) = harness.stable(1)
    assert harness.sync(member, protocol_type="connect") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.sync(member, protocol_name="other") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.sync(member, protocol_name="range", protocol_type="consumer").assignment == b"mine"
    assert harness.ask(SyncGroupRequest("g", 2, member.member_id), 5) == ErrorCode.ILLEGAL_GENERATION
    assert harness.ask(SyncGroupRequest("g", 1, "x"), 5) == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.ask(SyncGroupRequest("none", 1, "x"), 5) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_restarted_group_has_the_last_generation_with_assignments() -> None:
    harness = GroupHarness()
    leader, follower = harness.stable(2)
    harness.join(leader.member_id, "leader")
    harness.join(follower.member_id, "follower")
    assert harness.replies["leader"].generation_id == 2
    again = harness.restarted()
    assert again.state() == "Stable"
    assert again.beat(follower) == ErrorCode.NONE
    assert again.beat(harness.replies["follower"]) == ErrorCode.ILLEGAL_GENERATION
    assert again.sync(follower).assignment == b"mine"
    assert again.join(follower.member_id).generation_id == 1
    again.wait(SESSION_MS)
    assert again.state() == "Empty"
    assert again.stored()[-1].generation == 2


def test_described_members_have_protocols_only_while_the_group_is_stable() -> None:
    harness = GroupHarness()
    leader, follower = harness.stable(2)
    described = harness.describe()
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    assert [(one.member_id, one.member_metadata, one.member_assignment) for one in described.members] == [
        (member.member_id, subscription("t"), b"mine") for member in (leader, follower)
    ]
    harness.join(leader.member_id, "leader")
    described = harness.describe()
    assert (described.group_state, described.protocol_data, described.members[0].member_metadata) == (
        "PreparingRebalance",
        "",
        b"",
    )
    assert (harness.describe("none").group_state, harness.describe("none").error_code) == (
        "Dead",
        ErrorCode.GROUP_ID_NOT_FOUND,
    )
    assert (harness.describe("none", 5).group_state, harness.describe("none", 5).error_code) == ("Dead", 0)


def test_a_protocol_that_a_member_lists_twice_has_one_vote() -> None:
    harness = GroupHarness()
    twice = [JoinGroupRequestProtocol(name, b"") for name in ("own", "own", "range")]
    request = JoinGroupRequest("g", SESSION_MS, REBALANCE_MS, "", None, "consumer", twice)
    assert harness.ask(request, 3, "a") is None
    harness.join(token="b", version=3)
    harness.wait(0)
    harness.wait(REBALANCE_MS)
    assert {reply.protocol_name for reply in harness.replies.values() if not reply.error_code} == {"range"}


def waiting(harness: GroupHarness, member: Any, ms: int) -> None:
    """Let time pass while a static member sends heartbeats but does not rejoin."""
    for _ in range(ms // (SESSION_MS - 1) + 1):
        harness.wait(SESSION_MS - 1)
        harness.beat(member, "i")


def test_a_joined_member_becomes_leader_if_the_static_leader_does_not_rejoin() -> None:
    harness = GroupHarness()
    away = static(harness)
    assert harness.join(token="b", version=3) is None
    waiting(harness, away, REBALANCE_MS)
    joined = harness.replies["b"]
    assert (joined.generation_id, joined.leader) == (2, joined.member_id)
    assert {one.group_instance_id for one in joined.members} == {"i", None}


def test_no_generation_starts_until_a_member_has_joined() -> None:
    harness = GroupHarness()
    away = static(harness)
    pending = harness.new_id()
    assert harness.join(pending, "b") is None
    assert harness.leave((pending, None)) == [0]
    waiting(harness, away, 2 * REBALANCE_MS)
    assert harness.state() == "PreparingRebalance"
    assert harness.join(away.member_id, "back", instance="i").generation_id == 2


def test_a_static_member_cannot_use_a_pending_member_id() -> None:
    harness = GroupHarness()
    member_id = harness.new_id()
    assert harness.join(member_id, instance="i") == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.join("other") == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_number_of_pending_member_ids_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykbroker.core.group.classic.join.PENDING_MEMBERS_MAX", 2)
    harness = GroupHarness()
    harness.new_id()
    harness.new_id()
    assert harness.join() == ErrorCode.GROUP_MAX_SIZE_REACHED
    harness.wait(SESSION_MS)
    assert harness.new_id()


def test_an_empty_group_id_is_refused() -> None:
    harness = GroupHarness()
    for request in (HeartbeatRequest(""), SyncGroupRequest("")):
        assert harness.ask(request, 3) == ErrorCode.INVALID_GROUP_ID


def test_the_sync_group_of_a_member_that_leaves_is_answered() -> None:
    harness = GroupHarness()
    leader, other = harness.stable(2)
    harness.join(leader.member_id, "leader")
    harness.join(other.member_id, "other")
    assert harness.sync(harness.replies["other"], "sync") is None
    assert harness.leave((other.member_id, None)) == [0]
    assert harness.replies["sync"].error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("protocols", "code"),
    [
        ({"range": bytes((4 << 20) - 5)}, 0),
        ({"range": bytes((4 << 20) - 4)}, ErrorCode.UNKNOWN_SERVER_ERROR),
        ({str(number): b"" for number in range(1000)}, 0),
        ({str(number): b"" for number in range(1001)}, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_the_total_size_of_a_members_protocols_is_limited(protocols: dict[str, bytes], code: ErrorCode) -> None:
    harness = GroupHarness()
    answer = harness.join(version=3, token="joining", protocols=protocols)
    harness.wait(0)
    assert (harness.replies["joining"].error_code if answer is None else answer) == code
    assert len(harness.log) == (not code)


def test_described_members_keep_their_old_assignments_until_the_next_sync_group() -> None:
    harness = GroupHarness()
    leader, follower = harness.stable(2, given=b"old")
    harness.join(leader.member_id, "leader")
    described = harness.describe()
    assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
    assert [(one.member_metadata, one.member_assignment) for one in described.members] == [(b"", b"old")] * 2
    harness.join(follower.member_id)
    described = harness.describe()
    assert (described.group_state, [one.member_assignment for one in described.members]) == (
        "CompletingRebalance",
        [b"old"] * 2,
    )
    harness.sync(harness.replies["leader"], given={leader.member_id: b"new"})
    assert sorted(one.member_assignment for one in harness.describe().members) == [b"", b"new"]
