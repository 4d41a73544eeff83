"""Positions: subscriptions, first positions, resets by ListOffsets, and validation after leader changes (KIP-320)."""

from __future__ import annotations

import pytest

from pykbroker.core.consumer.commits import consumed
from pykbroker.core.consumer.errors import (
    LogTruncation,
    NoOffsetForPartition,
    OffsetsOutOfRange,
    SubscriptionConflict,
    TopicsUnauthorized,
)
from pykbroker.core.consumer.offset_reset import EARLIEST, LATEST, NO_RESET, ResetStrategy, parse_offset_reset
from pykbroker.core.consumer.partition_state import FetchState
from pykbroker.core.consumer.position import NO_LEADER_OR_EPOCH, CommittedOffset, FetchPosition, PartitionLeader
from pykbroker.core.consumer.position_lookups import LookupSettings, PositionResets, PositionValidation
from pykbroker.core.consumer.subscription import ConsumerSubscription, reset_recreated
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode
from wire.messages.list_offsets import ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse
from wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

A, B = TopicPartition("a", 0), TopicPartition("b", 1)
LEADER = PartitionLeader(7, 3)
WALL_MS = 10_000_000


def assigned(reset: ResetStrategy = EARLIEST) -> ConsumerSubscription:
    subscription = ConsumerSubscription(reset)
    subscription.assign([A, B])
    return subscription


def listed(*rows: tuple[TopicPartition, int, int]) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(topic, [ListOffsetsPartitionResponse(index, code, 0, offset, 2)])
            for (topic, index), code, offset in rows
        ]
    )


def ends(*rows: tuple[TopicPartition, int, int, int]) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(topic, [EpochEndOffset(code, index, epoch, end)])
            for (topic, index), code, epoch, end in rows
        ]
    )


# ---- strategies


@pytest.mark.parametrize(
    ("text", "timestamp"),
    [
        ("earliest", -2),
        ("latest", -1),
        ("none", None),
        ("by_duration:PT1H", WALL_MS - 3_600_000),
        ("by_duration:P1DT2H3M4.5S", 0),
        ("by_duration:pt1.25s", WALL_MS - 1250),
        ("by_duration:PT0S", WALL_MS),
    ],
)
def test_a_reset_strategy_selects_a_timestamp(text: str, timestamp: int | None) -> None:
    assert parse_offset_reset(text).timestamp(WALL_MS) == timestamp


@pytest.mark.parametrize("text", ["", "Earliest", "by_duration", "by_duration:", "by_duration:P", "by_duration:-PT1H"])
def test_other_values_are_no_reset_strategy(text: str) -> None:
    with pytest.raises(ValueError, match=r"auto\.offset\.reset="):
        parse_offset_reset(text)


# ---- subscriptions


def test_topics_patterns_and_assigned_partitions_exclude_each_other() -> None:
    subscription = assigned()
    for subscribe in (
        lambda: subscription.subscribe(["a"]),
        lambda: subscription.subscribe_pattern(lambda name: True),
        lambda: subscription.subscribe_server_pattern("a.*"),
    ):
        with pytest.raises(SubscriptionConflict, match="mutually exclusive"):
            subscribe()
    subscription.unsubscribe()
    assert subscription.partitions == []
    assert subscription.subscribe(["a"])
    assert not subscription.subscribe(["a"])


def test_a_partition_keeps_its_state_while_it_stays_assigned() -> None:
    subscription = ConsumerSubscription(EARLIEST)
    subscription.subscribe(["a", "b"])
    subscription.assign_from_group([A])
    subscription[A].seek(FetchPosition(5))
    subscription.assign_from_group([B, A])
    assert subscription[A].position == FetchPosition(5)
    subscription.assign_from_group([B])
    with pytest.raises(SubscriptionConflict, match="No current assignment for partition a-0"):
        subscription[A]


def test_a_client_side_pattern_takes_the_matching_topics() -> None:
    subscription = ConsumerSubscription(EARLIEST)
    subscription.subscribe_pattern(lambda name: name.startswith("a"))
    assert subscription.update_matched(["a", "ab", "b"])
    assert not subscription.update_matched(["a", "ab"])
    assert subscription.topics == {"a", "ab"}
    assert subscription.accepts([TopicPartition("ac", 0)])
    assert not subscription.accepts([A, B])


def test_a_topic_that_is_no_longer_subscribed_is_not_fetched() -> None:
    subscription = ConsumerSubscription(EARLIEST)
    subscription.subscribe(["a", "b"])
    subscription.assign_from_group([A, B], awaiting=[B])
    for partition in (A, B):
        subscription[partition].seek(FetchPosition(0))
    assert [subscription.is_fetchable(each) for each in (A, B)] == [True, False]
    subscription.enable([B])
    subscription.subscribe(["b"])
    assert [subscription.is_fetchable(each) for each in (A, B)] == [False, True]
    subscription.mark_revoking([B])
    assert not subscription.is_fetchable(B)


# ---- first positions


def test_first_positions_are_committed_offsets_or_resets() -> None:
    subscription = assigned(LATEST)
    subscription.initialize({A: CommittedOffset(5), B: None}, lambda partition: LEADER)
    assert subscription[A].position == FetchPosition(5, -1, LEADER)
    assert subscription[B].reset == LATEST
    assert consumed(subscription) == {A: CommittedOffset(5)}


def test_a_partition_without_committed_offset_and_reset_policy_is_an_error() -> None:
    subscription = assigned(NO_RESET)
    with pytest.raises(NoOffsetForPartition, match=r"no reset policy for partitions: \[b-1\]"):
        subscription.initialize({A: CommittedOffset(5), B: None}, lambda partition: LEADER)
    assert subscription[A].position == FetchPosition(5, -1, LEADER)


def test_a_committed_offset_does_not_replace_a_seek() -> None:
    subscription = assigned()
    subscription[A].seek(FetchPosition(9))
    subscription.initialize({A: CommittedOffset(5)}, lambda partition: LEADER)
    assert subscription[A].position == FetchPosition(9)


# ---- resets


def test_resets_ask_each_leader_and_set_positions() -> None:
    subscription = assigned()
    subscription[A].request_reset(EARLIEST)
    subscription[B].request_reset(LATEST)
    resets = PositionResets(subscription, LookupSettings(is_committed=True))
    leaders = {A: LEADER, B: PartitionLeader(8, 1)}
    plan = resets.due(leaders.__getitem__, 0.0, WALL_MS)
    assert [(call.node, call.request.isolation_level) for call in plan.calls] == [(7, 1), (8, 1)]
    asked = plan.calls[0].request.topics[0].partitions[0]
    assert (asked.timestamp, asked.current_leader_epoch) == (-2, 3)
    assert resets.due(leaders.__getitem__, 29_999.0, WALL_MS).calls == []
    assert not resets.received(plan.calls[0], listed((A, 0, 17)), leaders.__getitem__, 10.0)
    assert subscription[A].position == FetchPosition(17, -1, LEADER)
    assert subscription[A].state is FetchState.FETCHING


def test_a_reset_is_tried_again_after_an_error_and_a_lost_response() -> None:
    subscription = assigned()
    subscription[A].request_reset(EARLIEST)
    resets = PositionResets(subscription, LookupSettings())
    for now in (0.0, 200.0, 400.0):
        [call] = resets.due(lambda partition: LEADER, now, WALL_MS).calls
        if now:
            assert resets.received(call, listed((A, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)), lambda _: LEADER, now)
        else:
            assert resets.failed(call, now)
        assert resets.due(lambda partition: LEADER, now + 99.0, WALL_MS).calls == []


def test_a_seek_of_the_user_wins_over_a_reset() -> None:
    subscription = assigned()
    subscription[A].request_reset(EARLIEST)
    resets = PositionResets(subscription, LookupSettings())
    [call] = resets.due(lambda partition: LEADER, 0.0, WALL_MS).calls
    subscription[A].seek(FetchPosition(9))
    resets.received(call, listed((A, 0, 17)), lambda partition: LEADER, 1.0)
    assert subscription[A].position == FetchPosition(9)
    subscription[A].request_reset(LATEST)
    resets.received(call, listed((A, 0, 17)), lambda partition: LEADER, 1.0)
    assert subscription[A].position is None


def test_a_partition_without_leader_has_metadata_refreshed() -> None:
    subscription = assigned()
    subscription[A].request_reset(EARLIEST)
    resets = PositionResets(subscription, LookupSettings())
    assert resets.due(lambda partition: NO_LEADER_OR_EPOCH, 0.0, WALL_MS) == ([], True)
    assert resets.due(lambda partition: NO_LEADER_OR_EPOCH, 99.0, WALL_MS) == ([], False)


def test_a_topic_that_may_not_be_read_is_an_error_of_its_reset() -> None:
    subscription = assigned()
    subscription[A].request_reset(EARLIEST)
    resets = PositionResets(subscription, LookupSettings())
    [call] = resets.due(lambda partition: LEADER, 0.0, WALL_MS).calls
    with pytest.raises(TopicsUnauthorized):
        resets.received(call, listed((A, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)), lambda partition: LEADER, 1.0)
    assert len(resets.due(lambda partition: LEADER, 200.0, WALL_MS).calls) == 1


# ---- validation


def awaiting_validation(reset: ResetStrategy = EARLIEST) -> ConsumerSubscription:
    subscription = assigned(reset)
    subscription[A].seek(FetchPosition(50, 2, LEADER))
    subscription.leaders_changed(lambda partition: PartitionLeader(8, 4), lambda node: True)
    return subscription


def test_a_position_is_validated_at_a_new_leader() -> None:
    subscription = awaiting_validation()
    assert subscription[A].state is FetchState.AWAIT_VALIDATION
    assert not subscription.is_fetchable(A)
    validation = PositionValidation(subscription, LookupSettings())
    [call] = validation.due(0.0)
    asked = call.request.topics[0].partitions[0]
    assert (call.node, asked.leader_epoch, asked.current_leader_epoch) == (8, 2, 4)
    assert not validation.received(call, ends((A, 0, 2, 60)), 1.0)
    assert subscription[A].position == FetchPosition(50, 2, PartitionLeader(8, 4))
    assert subscription.is_fetchable(A)


def test_a_position_is_not_validated_where_the_leader_cannot_or_the_epoch_is_unknown() -> None:
    subscription = assigned()
    subscription[A].seek(FetchPosition(50, 2, LEADER))
    subscription[B].seek(FetchPosition(50, -1, LEADER))
    subscription.leaders_changed(lambda partition: PartitionLeader(8, 4), lambda node: False)
    assert subscription.is_fetchable(A)
    subscription.leaders_changed(lambda partition: PartitionLeader(9, 5), lambda node: True)
    assert [subscription.is_fetchable(each) for each in (A, B)] == [False, True]


def test_a_truncated_position_moves_to_the_first_divergent_offset() -> None:
    subscription = awaiting_validation()
    validation = PositionValidation(subscription, LookupSettings())
    [call] = validation.due(0.0)
    validation.received(call, ends((A, 0, 1, 40)), 1.0)
    assert subscription[A].position == FetchPosition(40, 1, PartitionLeader(8, 4))


def test_a_truncated_position_is_reset_if_the_epoch_is_unknown_to_the_leader() -> None:
    subscription = awaiting_validation(LATEST)
    validation = PositionValidation(subscription, LookupSettings())
    [call] = validation.due(0.0)
    validation.received(call, ends((A, 0, -1, -1)), 1.0)
    assert (subscription[A].state, subscription[A].reset) == (FetchState.AWAIT_RESET, LATEST)


@pytest.mark.parametrize(("epoch", "end", "divergent"), [(1, 40, {A: CommittedOffset(40, 1)}), (-1, -1, {})])
def test_a_truncated_position_is_an_error_without_a_reset_policy(
    epoch: int, end: int, divergent: dict[TopicPartition, CommittedOffset]
) -> None:
    subscription = awaiting_validation(NO_RESET)
    validation = PositionValidation(subscription, LookupSettings())
    [call] = validation.due(0.0)
    with pytest.raises(LogTruncation, match="a-0 at offset 50") as caught:
        validation.received(call, ends((A, 0, epoch, end)), 1.0)
    assert (caught.value.offsets, caught.value.divergent) == ({A: 50}, divergent)


def test_validation_is_tried_again_after_an_error() -> None:
    subscription = awaiting_validation()
    validation = PositionValidation(subscription, LookupSettings())
    [call] = validation.due(0.0)
    assert validation.received(call, ends((A, ErrorCode.FENCED_LEADER_EPOCH, -1, -1)), 1.0)
    assert validation.due(100.0) == []
    [call] = validation.due(101.0)
    assert validation.failed(call, 200.0)
    assert validation.due(250.0) == []


def test_a_result_for_an_older_position_is_ignored() -> None:
    subscription = awaiting_validation()
    validation = PositionValidation(subscription, LookupSettings())
    [call] = validation.due(0.0)
    subscription[A].seek_unvalidated(FetchPosition(70, 2, PartitionLeader(8, 4)))
    validation.received(call, ends((A, 0, 2, 60)), 1.0)
    assert subscription[A].state is FetchState.AWAIT_VALIDATION


@pytest.mark.parametrize("reset", [EARLIEST, NO_RESET])
@pytest.mark.parametrize("is_assigned_late", [False, True])
def test_a_position_in_a_topic_that_was_deleted_and_created_again_is_reset(
    reset: ResetStrategy, is_assigned_late: bool
) -> None:
    """A group assigns partitions once metadata has their topics. The next metadata may have the new ids already."""
    partition, subscription = TopicPartition("topic", 0), ConsumerSubscription(reset)
    subscription.assign([partition])
    state = subscription[partition]
    state.seek(FetchPosition(3))
    era, before = state.era, b"1" * 16
    if not is_assigned_late:
        for old, new in ((bytes(16), bytes(16)), (bytes(16), before), (before, before), (before, bytes(16))):
            reset_recreated(subscription, {"topic": old}.__getitem__, {"topic": new}.__getitem__)
        before = bytes(16)  # a rebootstrap has dropped what was known
    assert (state.position, state.era) == (FetchPosition(3), era)
    ids = {"topic": before}.__getitem__, {"topic": b"2" * 16}.__getitem__
    if reset == NO_RESET:
        with pytest.raises(OffsetsOutOfRange, match="deleted and created again: topic-0 at offset 3"):
            reset_recreated(subscription, *ids)
    else:
        reset_recreated(subscription, *ids)
    assert (state.position, state.state, state.reset) == (None, FetchState.AWAIT_RESET, reset)
    assert state.era is not era
