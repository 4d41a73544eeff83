"""Members of classic groups: what they send, and what their rebalance listener gets to know."""

from __future__ import annotations

import pytest

from pykbroker.core.consumer.assignors.member import MemberSubscription
from pykbroker.core.consumer.assignors.protocol import decode_subscription, encode_subscription
from pykbroker.core.consumer.commits import CommitResult
from pykbroker.core.consumer.membership.classic import ClassicMembership, JoinState
from pykbroker.core.consumer.membership.steps import (
    CallListener,
    LeaveMode,
    MemberSettings,
    RebalanceEvent,
    SendToCoordinator,
)
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from tests.unit.core.consumer.membership.transcript import ClassicTranscript, ScriptedAssignor
from wire.error_codes import ErrorCode
from wire.messages.join_group import JoinGroupRequest
from wire.messages.sync_group import SyncGroupResponse


class OnlyCooperative(ScriptedAssignor):
    name = "only-cooperative"


def subscription(*topics: str) -> bytes:
    return encode_subscription(MemberSubscription(frozenset(topics)))


def test_a_new_member_joins_with_the_required_member_id_and_gets_its_assignment() -> None:
    member = ClassicTranscript("a")
    member.join_error(ErrorCode.MEMBER_ID_REQUIRED, "m1")
    assert member.settle(1, "a-1", "a-0") == [
        "commit",
        "join - because -",
        "join m1 because need to re-join with the given member-id: m1",
        "sync m1@1 for 0",
        "assigned a-0 a-1",
    ]
    assert member.subscription.partitions == [TopicPartition("a", 0), TopicPartition("a", 1)]
    assert member.poll() == []


def test_the_leader_assigns_the_partitions_of_all_members() -> None:
    member = ClassicTranscript("a")
    member.joined(1, "m1", "m1", ("m1", subscription("a")), ("m2", subscription("b")))
    member.synced("a-0")
    assert member.poll() == ["commit", "join - because -", "assign a b to m1 m2", "sync m1@1 for 2", "assigned a-0"]
    assert member.subscription.group_topics == {"a", "b"}


def test_the_leader_joins_again_when_the_partitions_of_the_group_change() -> None:
    member = ClassicTranscript("a")
    member.joined(1, "m1", "m1", ("m1", subscription("a")))
    member.synced("a-0")
    member.poll()
    member.member.note_metadata({"a": [frozenset()]})
    assert member.poll() == []
    member.member.note_metadata({"a": [frozenset(), frozenset()]})
    assert "join m1 because cached metadata has changed" in member.settle(2, "a-0")


def test_an_eager_member_gives_away_all_partitions_before_it_joins_again() -> None:
    member = ClassicTranscript("a")
    member.settle(1, "a-0", "a-1")
    assert member.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS) == "heartbeat m1@1"
    assert member.settle(2, "a-1") == [
        "commit",
        "revoked a-0 a-1",
        "join m1 because group is already rebalancing",
        "sync m1@2 for 0",
        "assigned a-1",
    ]


def test_a_cooperative_member_keeps_its_partitions_and_joins_again_after_it_gave_one_away() -> None:
    member = ClassicTranscript("a", is_cooperative=True)
    member.settle(1, "a-0", "a-1")
    member.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    member.joined(2)
    member.synced("a-1")
    assert member.settle(3, "a-1") == [
        "commit",
        "join m1 because group is already rebalancing",
        "sync m1@2 for 0",
        "revoked a-0",
        "assigned",
        "commit",
        "join m1 because need to revoke partitions and re-join",
        "sync m1@3 for 0",
        "assigned",
    ]


def test_a_cooperative_member_gives_away_topics_that_it_no_longer_subscribes_to() -> None:
    member = ClassicTranscript("a", "b", is_cooperative=True)
    member.settle(1, "a-0", "b-0")
    member.subscription.subscribe(["a"])
    assert member.settle(2, "a-0") == [
        "commit",
        "revoked b-0",
        "join m1 because subscription has changed",
        "sync m1@2 for 0",
        "assigned",
    ]


def test_a_join_names_the_owned_partitions_and_the_generation() -> None:
    member = ClassicTranscript("a", is_cooperative=True, rack="r1", commits=False)
    member.settle(1, "a-0")
    member.member.request_rejoin("test")
    step = member.member.step(member.now)
    assert isinstance(step, SendToCoordinator)
    request = step.request
    assert isinstance(request, JoinGroupRequest)
    [protocol] = request.protocols
    found = decode_subscription(protocol.metadata)
    assert found == MemberSubscription(frozenset({"a"}), None, (TopicPartition("a", 0),), 1, "r1")
    assert (protocol.name, request.protocol_type, request.session_timeout_ms) == ("range", "consumer", 45_000)


@pytest.mark.parametrize(
    ("code", "member_id"), [(ErrorCode.UNKNOWN_MEMBER_ID, "-"), (ErrorCode.ILLEGAL_GENERATION, "m1")]
)
def test_partitions_are_lost_if_the_coordinator_does_not_know_the_generation(code: ErrorCode, member_id: str) -> None:
    member = ClassicTranscript("a", is_cooperative=True)
    member.settle(1, "a-0")
    member.heartbeat(code)
    assert member.settle(5, "a-0") == [
        "commit",
        "lost a-0",
        f"join {member_id} because encountered {code.name} from HEARTBEAT response",
        "sync m1@5 for 0",
        "assigned a-0",
    ]


def test_a_rebalance_fails_if_a_heartbeat_resets_the_generation_meanwhile() -> None:
    member = ClassicTranscript("a")
    member.settle(1, "a-0")
    member.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    member.joined(2)
    member.synced("a-0")
    member.joined(3)
    member.synced("a-0")

    def reset() -> None:
        member.during_sync = None
        assert member.heartbeat(ErrorCode.UNKNOWN_MEMBER_ID) == "heartbeat m1@2"

    member.during_sync = reset
    assert member.poll()[3:] == [
        "sync m1@2 for 0",
        "commit",
        "join - because encountered UNKNOWN_MEMBER_ID from HEARTBEAT response",
        "sync m1@3 for 0",
        "assigned a-0",
    ]


def test_a_rebalance_during_sync_makes_the_member_join_again_without_its_listener() -> None:
    member = ClassicTranscript("a")
    member.joined(1)
    member.syncs.append(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    assert member.settle(2, "a-0") == [
        "commit",
        "join - because -",
        "sync m1@1 for 0",
        "join m1 because rebalance failed due to REBALANCE_IN_PROGRESS",
        "sync m1@2 for 0",
        "assigned a-0",
    ]


@pytest.mark.parametrize(
    ("code", "needs_coordinator"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, False),
        (ErrorCode.NOT_COORDINATOR, True),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, True),
        (None, False),
    ],
)
def test_a_join_is_tried_again_after_a_backoff(code: ErrorCode | None, needs_coordinator: bool) -> None:
    member = ClassicTranscript("a")
    member.joins.append(None) if code is None else member.join_error(code)
    member.poll()
    assert member.member.needs_coordinator == needs_coordinator
    member.now += 99.0
    assert member.poll() == []
    member.now += 1.0
    assert member.settle(1, "a-0")[-1] == "assigned a-0"


@pytest.mark.parametrize(
    "code", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.FENCED_INSTANCE_ID]
)
def test_other_errors_of_a_join_are_raised(code: ErrorCode) -> None:
    member = ClassicTranscript("a")
    member.join_error(code)
    with pytest.raises(ApiError) as caught:
        member.poll()
    assert caught.value.code is code


def test_an_assignment_for_another_subscription_is_refused() -> None:
    member = ClassicTranscript("a")
    member.joined(1)
    member.synced("b-0")
    assert member.settle(2, "a-0")[2:] == [
        "sync m1@1 for 0",
        "commit",
        "revoked",
        "join m1 because received assignment does not match the current subscription",
        "sync m1@2 for 0",
        "assigned a-0",
    ]


def test_heartbeats_are_sent_in_their_interval_once_the_member_has_joined() -> None:
    member = ClassicTranscript("a")
    assert member.heartbeat() == "nothing"
    member.settle(1, "a-0")
    assert [member.heartbeat(after_ms=1500.0) for _ in range(4)] == ["nothing", "heartbeat m1@1"] * 2


def test_a_heartbeat_without_response_is_repeated_after_a_growing_backoff() -> None:
    member = ClassicTranscript("a")
    member.settle(1, "a-0")
    assert member.heartbeat(None) == "heartbeat m1@1"
    assert [member.heartbeat(None, after_ms=100.0) for _ in range(3)] == ["heartbeat m1@1", "nothing", "heartbeat m1@1"]


def test_the_coordinator_is_looked_up_after_the_session_timeout() -> None:
    member = ClassicTranscript("a")
    member.settle(1, "a-0")
    request = member.member.heartbeat(3000.0)
    assert request is not None
    assert member.member.heartbeat_at_ms == 45_000.0
    member.now = 45_000.0
    assert member.heartbeat(after_ms=0.0) == "nothing"
    assert member.member.needs_coordinator


def test_a_fenced_static_member_fails_with_its_next_poll() -> None:
    member = ClassicTranscript("a", instance_id="s")
    member.settle(1, "a-0")
    member.heartbeat(ErrorCode.FENCED_INSTANCE_ID)
    with pytest.raises(ApiError, match="another member has joined group g as s"):
        member.poll()


def test_a_member_that_does_not_poll_in_time_leaves_and_joins_again() -> None:
    member = ClassicTranscript("a", poll_interval_ms_max=10_000)
    member.settle(1, "a-0")
    assert member.heartbeat(after_ms=10_000.0) == "leave m1 because consumer poll timeout has expired."
    assert member.member.state is JoinState.UNJOINED
    assert member.settle(2, "a-0")[:3] == [
        "commit",
        "lost a-0",
        "join - because consumer pro-actively leaving the group",
    ]


@pytest.mark.parametrize(
    ("instance_id", "mode", "leaves"),
    [
        (None, LeaveMode.DEFAULT, True),
        (None, LeaveMode.REMAIN, False),
        ("s", LeaveMode.DEFAULT, False),
        ("s", LeaveMode.LEAVE, True),
    ],
)
def test_a_member_leaves_when_it_is_closed_unless_it_is_static(
    instance_id: str | None, mode: LeaveMode, leaves: bool
) -> None:
    member = ClassicTranscript("a", instance_id=instance_id)
    member.settle(1, "a-0")
    leave = ["leave m1 because the consumer is being closed"] if leaves else []
    assert member.leave(mode) == ["revoked a-0", *leave]
    assert member.subscription.partitions == []


def test_partitions_are_lost_if_a_member_leaves_during_a_rebalance() -> None:
    member = ClassicTranscript("a", is_cooperative=True)
    member.settle(1, "a-0")
    removed = CommitResult(code=ErrorCode.UNKNOWN_MEMBER_ID, is_removed=True, drops_member_id=True)
    member.member.commit_failed(removed)
    assert member.leave() == ["lost a-0"]


def test_partitions_that_the_listener_never_got_are_not_revoked_from_it() -> None:
    member = ClassicTranscript("a")
    member.joined(1)
    member.synced("a-0")
    while not isinstance(step := member.member.step(0.0), CallListener):
        member.member.answer(member._carry_out(step), 0.0)
    assert step.event is RebalanceEvent.ASSIGNED
    assert member.leave() == ["leave m1 because the consumer is being closed"]
    assert member.subscription.partitions == []


def test_assignors_without_a_common_rebalance_protocol_are_refused() -> None:
    member = ClassicTranscript("a")
    with pytest.raises(ValueError, match=r"partition\.assignment\.strategy: range, only-cooperative have no"):
        ClassicMembership(
            MemberSettings("g"),
            member.subscription,
            [ScriptedAssignor([], is_cooperative=False), OnlyCooperative([], is_cooperative=True)],
            lambda a, b: 1.0,
            0.0,
        )


def test_an_assignor_that_the_member_did_not_offer_is_an_error() -> None:
    member = ClassicTranscript("a")
    member.joined(1)
    member.joins[0].protocol_name = "other"
    member.synced("a-0")
    with pytest.raises(ApiError, match="chose the assignor other"):
        member.poll()
