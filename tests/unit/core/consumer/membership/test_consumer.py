"""Members of groups of the consumer protocol (KIP-848): heartbeats, reconciliation, fencing and leaving."""

from __future__ import annotations

from typing import Any

import pytest

from pykbroker.core.consumer.membership.consumer import MembershipState
from pykbroker.core.consumer.membership.steps import LeaveMode
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from tests.unit.core.consumer.membership.transcript import ConsumerTranscript
from wire.error_codes import ErrorCode
from wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def stable(**settings: Any) -> ConsumerTranscript:
    """Return a member that owns a-0 and a-1."""
    member = ConsumerTranscript("a", "b", **settings)
    member.poll()
    member.heartbeat(1, {"a": {0, 1}})
    assert member.poll() == ["commit", "assigned a-0 a-1"]
    member.heartbeat(1)
    assert member.member.state is MembershipState.STABLE
    return member


def test_a_member_joins_takes_its_assignment_and_acknowledges_it() -> None:
    member = ConsumerTranscript("a", "b", server_assignor="range")
    assert member.heartbeat() == "nothing"
    assert member.poll() == []
    assert member.heartbeat(1, {"a": {0}}) == "heartbeat@0 topics=a,b assignor=range timeout=300000 owned="
    assert not member.subscription.is_fetchable(A0)
    assert member.poll() == ["commit", "assigned a-0"]
    assert member.heartbeat(1) == "heartbeat@1 owned=a[0]"
    assert member.heartbeat() == "nothing"
    assert member.heartbeat(1, after_ms=5000.0) == "heartbeat@1"
    assert member.member.state is MembershipState.STABLE


def test_an_empty_assignment_is_reconciled_too() -> None:
    member = ConsumerTranscript("a")
    member.poll()
    member.heartbeat(1, {})
    assert member.poll() == ["commit", "assigned"]
    member.heartbeat(1)
    assert member.member.state is MembershipState.STABLE


def test_a_new_assignment_revokes_before_it_assigns() -> None:
    member = stable()
    member.heartbeat(2, {"a": {1}, "b": {0}}, after_ms=5000.0)
    assert member.poll() == ["commit", "revoked a-0", "assigned b-0"]
    assert member.subscription.partitions == [A1, B0]
    assert member.heartbeat(2) == "heartbeat@2 owned=a[1]b[0]"


def test_without_auto_commit_nothing_is_committed_before_partitions_are_revoked() -> None:
    member = ConsumerTranscript("a", commits=False)
    member.poll()
    member.heartbeat(1, {"a": {0}})
    assert member.poll() == ["assigned a-0"]


def test_new_partitions_are_fetched_only_after_the_listener_returned() -> None:
    member = ConsumerTranscript("a", commits=False)
    member.poll()
    member.heartbeat(1, {"a": {0}})
    assert member.member.step(member.now) is not None
    assert member.subscription[A0].awaits_listener
    member.member.answer(True, member.now)
    assert not member.subscription[A0].awaits_listener


def test_a_step_whose_listener_failed_is_tried_again() -> None:
    member = stable()
    member.heartbeat(2, {"a": {1}}, after_ms=5000.0)
    member.listener_fails = True
    assert member.poll() == ["commit", "revoked a-0"]
    assert member.member.state is MembershipState.RECONCILING
    assert member.subscription.partitions == [A0, A1]
    member.listener_fails = False
    assert member.poll() == ["commit", "revoked a-0", "assigned"]


def test_a_revocation_that_the_coordinator_withdraws_is_forgotten() -> None:
    member = stable()
    member.heartbeat(2, {"a": {1}}, after_ms=5000.0)
    member.listener_fails = True
    assert member.poll() == ["commit", "revoked a-0"]
    assert member.subscription[A0].is_revoking
    member.listener_fails = False
    member.heartbeat(3, {"a": {0, 1}}, after_ms=5000.0)
    assert member.poll() == []
    assert not member.subscription[A0].is_revoking
    assert member.heartbeat(3) == "heartbeat@3 owned=a[0, 1]"


def test_partitions_that_were_given_away_are_taken_again_after_a_listener_failed() -> None:
    member = stable()
    member.heartbeat(2, {"a": {1}}, after_ms=5000.0)
    member.member.poll(member.now)
    for is_done in (None, True, False):
        assert member.member.step(member.now) is not None
        member.member.answer(is_done, member.now)
    assert member.subscription.partitions == [A1]
    member.heartbeat(3, {"a": {0, 1}}, after_ms=5000.0)
    member.listener_fails = True
    assert member.poll() == ["commit", "assigned a-0"]
    assert member.subscription[A0].awaits_listener
    member.listener_fails = False
    assert member.poll() == ["commit", "assigned"]
    assert member.subscription.partitions == [A0, A1]
    assert not member.subscription[A0].awaits_listener


def test_an_unknown_topic_id_waits_for_metadata_and_the_rest_is_assigned() -> None:
    member = ConsumerTranscript("a", "b", known=("a",))
    member.poll()
    member.heartbeat(1, {"a": {0}, "b": {0}})
    assert member.poll() == ["commit", "assigned a-0"]
    assert member.member.needs_metadata
    assert member.heartbeat(1) == "heartbeat@1 owned=a[0]"
    assert member.poll() == []
    assert member.heartbeat() == "nothing"
    member.known.add("b")
    assert member.poll() == ["commit", "assigned b-0"]
    assert member.heartbeat(1) == "heartbeat@1 owned=a[0]b[0]"


def test_a_changed_subscription_is_sent_with_the_next_heartbeat() -> None:
    member = stable()
    member.subscription.subscribe(["b"])
    assert member.heartbeat(2, after_ms=5000.0) == "heartbeat@1 topics=b"


def test_a_server_side_pattern_is_sent_as_a_regular_expression() -> None:
    member = ConsumerTranscript()
    member.subscription.subscribe_server_pattern("a.*")
    member.poll()
    assert member.heartbeat(1, {"a": {0}}) == "heartbeat@0 topics= regex=a.* timeout=300000 owned="
    assert member.poll() == ["commit", "assigned a-0"]
    assert member.heartbeat(1) == "heartbeat@1 owned=a[0]"


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_loses_its_partitions_and_joins_again(code: ErrorCode) -> None:
    member = stable()
    member.heartbeat(1, code=code, after_ms=5000.0)
    assert member.heartbeat() == "nothing"
    assert member.poll() == ["lost a-0 a-1"]
    assert member.heartbeat(3, {"a": {0}}) == "heartbeat@0 topics=a,b timeout=300000 owned="
    assert member.poll() == ["commit", "assigned a-0"]


def test_a_reconciliation_is_abandoned_if_the_member_is_fenced_meanwhile() -> None:
    member = stable()
    member.heartbeat(2, {"a": {1}, "b": {0}}, after_ms=5000.0)
    assert member.member.step(member.now) is not None
    member.heartbeat(2, code=ErrorCode.FENCED_MEMBER_EPOCH, after_ms=5000.0)
    member.member.answer(None, member.now)
    assert member.poll() == ["lost a-0 a-1"]
    assert member.member.state is MembershipState.JOINING


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        ErrorCode.UNSUPPORTED_VERSION,
    ],
)
def test_other_errors_end_the_membership_and_are_raised(code: ErrorCode) -> None:
    member = stable()
    member.heartbeat(1, code=code, after_ms=5000.0)
    with pytest.raises(ApiError) as caught:
        member.poll()
    assert caught.value.code is code
    assert member.poll() == ["lost a-0 a-1"]
    assert member.poll() == []
    assert member.heartbeat(after_ms=60_000.0) == "nothing"


def test_a_topic_that_may_not_be_described_is_an_error_but_not_the_end() -> None:
    member = stable()
    member.heartbeat(1, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, after_ms=5000.0)
    with pytest.raises(ApiError):
        member.poll()
    assert member.member.state is MembershipState.STABLE


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_heartbeat_is_repeated_at_once_with_a_new_coordinator(code: ErrorCode) -> None:
    member = stable()
    member.heartbeat(1, code=code, after_ms=5000.0)
    assert member.member.needs_coordinator
    assert member.heartbeat(1) == "heartbeat@1 topics=a,b timeout=300000 owned=a[0, 1]"


def test_a_heartbeat_without_response_is_repeated_after_a_backoff_with_all_fields() -> None:
    member = stable()
    member.heartbeat(None, after_ms=5000.0)
    assert member.heartbeat(1, after_ms=99.0) == "nothing"
    assert member.heartbeat(1, after_ms=1.0) == "heartbeat@1 topics=a,b timeout=300000 owned=a[0, 1]"


def test_a_member_that_does_not_poll_in_time_leaves_and_rejoins_with_its_next_poll() -> None:
    member = stable()
    for _ in range(59):
        member.heartbeat(1, after_ms=5000.0)
    assert member.heartbeat(after_ms=5000.0).startswith("heartbeat@-1")
    assert member.member.state is MembershipState.STALE
    assert member.heartbeat(after_ms=5000.0) == "nothing"
    assert member.poll() == ["lost a-0 a-1"]
    assert member.poll() == []
    assert member.heartbeat(5).startswith("heartbeat@0")


@pytest.mark.parametrize(
    ("instance_id", "mode", "epoch"),
    [
        (None, LeaveMode.DEFAULT, -1),
        (None, LeaveMode.REMAIN, None),
        ("s", LeaveMode.DEFAULT, -2),
        ("s", LeaveMode.REMAIN, -2),
        ("s", LeaveMode.LEAVE, -1),
    ],
)
def test_a_member_leaves_with_the_epoch_of_its_kind(
    instance_id: str | None, mode: LeaveMode, epoch: int | None
) -> None:
    member = stable(instance_id=instance_id)
    assert member.leave(mode) == ["revoked a-0 a-1"]
    sent = member.heartbeat(-1)
    assert sent == "nothing" if epoch is None else sent.startswith(f"heartbeat@{epoch}")
    assert member.member.state is MembershipState.UNSUBSCRIBED
    assert member.subscription.partitions == []


def test_a_member_whose_coordinator_is_unknown_leaves_without_a_request() -> None:
    member = stable()
    member.leave()
    member.member.leave_skipped()
    assert member.member.state is MembershipState.UNSUBSCRIBED


def test_a_member_that_is_fenced_while_it_leaves_has_left() -> None:
    member = stable()
    member.now += 5000.0
    request = member.member.heartbeat(member.now)
    assert request is not None
    member.member.leave(LeaveMode.DEFAULT, "test", member.now)
    fenced = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH)
    member.member.heartbeat_answered(request, fenced, member.now)
    assert member.member.state is MembershipState.UNSUBSCRIBED
    assert member.run() == ["revoked a-0 a-1"]
    assert member.subscription.partitions == []
    assert member.heartbeat(after_ms=60_000.0) == "nothing"


def test_a_member_that_left_joins_again_with_a_new_subscription() -> None:
    member = stable()
    member.leave()
    member.heartbeat(-1)
    member.subscription.unsubscribe()
    assert member.poll() == []
    assert member.heartbeat() == "nothing"
    member.subscription.subscribe(["b"])
    member.poll()
    assert member.heartbeat(7).startswith("heartbeat@0 topics=b")
