"""Tests of a JoinGroup for the next generation that arrives before a SyncGroup of the current generation."""

from __future__ import annotations

import pytest

from pykbroker.core.group.classic.rebalance import SYNC_PATIENCE_MS
from tests.unit.core.group.harness import GroupHarness, subscription
from wire.error_codes import ErrorCode
from wire.messages.join_group import JoinGroupResponse

NEWS = {"range": subscription("t", "u")}


def assigned(count: int = 3) -> tuple[GroupHarness, list[JoinGroupResponse]]:
    """Return the members of one generation. Only the leader, which is first, has sent SyncGroup."""
    harness = GroupHarness()
    members = harness.stable(count)
    for number, member in enumerate(members):
        harness.join(member.member_id, f"again-{number}", protocols=NEWS)
    members = [harness.replies[f"again-{number}"] for number in range(count)]
    given = {member.member_id: b"%d" % number for number, member in enumerate(members)}
    assert harness.sync(members[0], given=given).assignment == b"0"
    return harness, members


def test_a_member_gets_its_assignment_even_if_the_leader_rejoins_first() -> None:
    harness, (leader, one, other) = assigned()
    assert harness.join(leader.member_id, "rejoin", protocols=NEWS) is None
    assert harness.beat(one) == ErrorCode.NONE
    assert harness.sync(one).assignment == b"1"
    assert harness.state() == "Stable"
    assert harness.sync(other).assignment == b"2"
    assert harness.state() == "PreparingRebalance"
    assert harness.beat(one) == harness.beat(other) == ErrorCode.REBALANCE_IN_PROGRESS
    for number, member in enumerate((one, other)):
        harness.join(member.member_id, number, protocols=NEWS)
    assert harness.replies["rejoin"].generation_id == leader.generation_id + 1
    assert {member.member_id for member in harness.replies["rejoin"].members} == {
        member.member_id for member in (leader, one, other)
    }


@pytest.mark.parametrize(
    ("after_ms", "code"),
    [
        (SYNC_PATIENCE_MS - 1, None),
        (SYNC_PATIENCE_MS, ErrorCode.REBALANCE_IN_PROGRESS),
        (SYNC_PATIENCE_MS + 1, ErrorCode.REBALANCE_IN_PROGRESS),
    ],
)
def test_a_rebalance_waits_for_pending_sync_groups_for_a_limited_time(after_ms: int, code: ErrorCode | None) -> None:
    harness, (leader, one, _) = assigned()
    harness.join(leader.member_id, "rejoin", protocols=NEWS)
    harness.wait(after_ms)
    answer = harness.sync(one)
    assert (answer if code else answer.assignment) == (code or b"1")
    assert harness.state() == ("PreparingRebalance" if code else "Stable")


@pytest.mark.parametrize(
    ("after_ms", "state"),
    [
        (SYNC_PATIENCE_MS - 1, "Stable"),
        (SYNC_PATIENCE_MS, "PreparingRebalance"),
        (SYNC_PATIENCE_MS + 1, "PreparingRebalance"),
    ],
)
def test_a_join_group_after_the_wait_does_not_wait_for_sync_groups(after_ms: int, state: str) -> None:
    harness, (leader, _, _) = assigned()
    harness.wait(after_ms)
    harness.join(leader.member_id, "rejoin", protocols=NEWS)
    assert harness.state() == state


def test_no_second_rebalance_starts_when_the_time_to_wait_has_passed() -> None:
    """Complete the current and the next generation before SYNC_PATIENCE_MS have passed."""
    harness, (leader, one, other) = assigned()
    harness.join(leader.member_id, "leader", protocols=NEWS)
    for member in (one, other):
        harness.sync(member)
    for number, member in enumerate((one, other)):
        harness.join(member.member_id, number, protocols=NEWS)
    members = [harness.replies[token] for token in ("leader", 0, 1)]
    for member in members:
        harness.sync(member, given={one.member_id: b"x" for one in members})
    assert harness.state() == "Stable"
    harness.wait(2 * SYNC_PATIENCE_MS)
    assert harness.state() == "Stable"


def test_a_member_that_joins_twice_during_the_wait_has_one_waiting_request() -> None:
    harness, (leader, one, other) = assigned()
    assert harness.sync(one).assignment == b"1"
    news = {"range": subscription("t")}
    assert harness.join(one.member_id, "first", protocols=news) is None
    assert harness.join(one.member_id, "second", protocols=news) is None
    assert harness.replies["first"].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.sync(other).assignment == b"2"
    for number, member in enumerate((leader, other)):
        harness.join(member.member_id, number, protocols=news)
    assert harness.replies["second"].generation_id == leader.generation_id + 1


def test_the_wait_ends_if_the_member_without_sync_group_leaves() -> None:
    harness, (leader, one, other) = assigned()
    harness.join(leader.member_id, "rejoin", protocols=NEWS)
    assert harness.leave((other.member_id, None)) == [ErrorCode.NONE]
    assert harness.state() == "PreparingRebalance"
    assert harness.sync(one) == ErrorCode.REBALANCE_IN_PROGRESS
    harness.join(one.member_id, "one", protocols=NEWS)
    assert harness.replies["rejoin"].generation_id == leader.generation_id + 1
