"""A member's JoinGroup for the next rebalance that arrives before another member's SyncGroup of the last generation."""

from __future__ import annotations

import pytest

from pykbroker.core.group.classic.rebalance import SYNC_PATIENCE_MS
from tests.unit.core.group.talk import Talk, subscription
from wire.error_codes import ErrorCode
from wire.messages.join_group import JoinGroupResponse

NEWS = {"range": subscription("t", "u")}


def assigned(count: int = 3) -> tuple[Talk, list[JoinGroupResponse]]:
    """Return members of one generation. Only the leader, the first one, has sent SyncGroup."""
    talk = Talk()
    members = talk.stable(count)
    for number, member in enumerate(members):
        talk.join(member.member_id, f"again-{number}", protocols=NEWS)
    members = [talk.replies[f"again-{number}"] for number in range(count)]
    given = {member.member_id: b"%d" % number for number, member in enumerate(members)}
    assert talk.sync(members[0], given=given).assignment == b"0"
    return talk, members


def test_a_member_gets_its_assignment_though_the_leader_rejoins_before_its_sync_group() -> None:
    talk, (leader, one, other) = assigned()
    assert talk.join(leader.member_id, "rejoin", protocols=NEWS) is None
    assert talk.beat(one) == ErrorCode.NONE
    assert talk.sync(one).assignment == b"1"
    assert talk.state() == "Stable"
    assert talk.sync(other).assignment == b"2"
    assert talk.state() == "PreparingRebalance"
    assert talk.beat(one) == talk.beat(other) == ErrorCode.REBALANCE_IN_PROGRESS
    for number, member in enumerate((one, other)):
        talk.join(member.member_id, number, protocols=NEWS)
    assert talk.replies["rejoin"].generation_id == leader.generation_id + 1
    assert {member.member_id for member in talk.replies["rejoin"].members} == {
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
def test_a_rebalance_waits_for_sync_groups_for_a_bounded_time(after_ms: int, code: ErrorCode | None) -> None:
    talk, (leader, one, _) = assigned()
    talk.join(leader.member_id, "rejoin", protocols=NEWS)
    talk.wait(after_ms)
    answer = talk.sync(one)
    assert (answer if code else answer.assignment) == (code or b"1")
    assert talk.state() == ("PreparingRebalance" if code else "Stable")


@pytest.mark.parametrize(
    ("after_ms", "state"),
    [
        (SYNC_PATIENCE_MS - 1, "Stable"),
        (SYNC_PATIENCE_MS, "PreparingRebalance"),
        (SYNC_PATIENCE_MS + 1, "PreparingRebalance"),
    ],
)
def test_a_later_join_group_does_not_wait_for_sync_groups(after_ms: int, state: str) -> None:
    talk, (leader, _, _) = assigned()
    talk.wait(after_ms)
    talk.join(leader.member_id, "rejoin", protocols=NEWS)
    assert talk.state() == state


def test_the_end_of_the_wait_starts_no_second_rebalance() -> None:
    """Let all members sync in time and the next generation become stable before SYNC_PATIENCE_MS have passed."""
    talk, (leader, one, other) = assigned()
    talk.join(leader.member_id, "leader", protocols=NEWS)
    for member in (one, other):
        talk.sync(member)
    for number, member in enumerate((one, other)):
        talk.join(member.member_id, number, protocols=NEWS)
    members = [talk.replies[token] for token in ("leader", 0, 1)]
    for member in members:
        talk.sync(member, given={one.member_id: b"x" for one in members})
    assert talk.state() == "Stable"
    talk.wait(2 * SYNC_PATIENCE_MS)
    assert talk.state() == "Stable"


def test_a_member_that_joins_twice_during_the_wait_has_one_parked_caller() -> None:
    talk, (leader, one, other) = assigned()
    assert talk.sync(one).assignment == b"1"
    news = {"range": subscription("t")}
    assert talk.join(one.member_id, "first", protocols=news) is None
    assert talk.join(one.member_id, "second", protocols=news) is None
    assert talk.replies["first"].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert talk.sync(other).assignment == b"2"
    for number, member in enumerate((leader, other)):
        talk.join(member.member_id, number, protocols=news)
    assert talk.replies["second"].generation_id == leader.generation_id + 1


def test_a_member_that_leaves_ends_the_wait() -> None:
    talk, (leader, one, other) = assigned()
    talk.join(leader.member_id, "rejoin", protocols=NEWS)
    assert talk.leave((other.member_id, None)) == [ErrorCode.NONE]
    assert talk.state() == "PreparingRebalance"
    assert talk.sync(one) == ErrorCode.REBALANCE_IN_PROGRESS
    talk.join(one.member_id, "one", protocols=NEWS)
    assert talk.replies["rejoin"].generation_id == leader.generation_id + 1
