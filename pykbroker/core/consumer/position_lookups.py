"""The look-ups that give partitions a position to fetch from: resets by ListOffsets, and validation (KIP-320).

1. A partition is asked for again once its request failed and the backoff is over, or after the request timeout.
2. A result is used only if the partition still waits for it: a seek of the user in the meantime wins.
3. A position whose records were truncated moves to the first offset that diverges. Without a reset policy, that is an
   error for the user instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pykbroker.core.consumer.errors import LogTruncation, NoOffsetForPartition, TopicsUnauthorized
from pykbroker.core.consumer.offset_reset import NO_RESET, ResetStrategy
from pykbroker.core.consumer.offsets import list_offsets_requests, offsets_found, requested_partitions
from pykbroker.core.consumer.partition_state import AssignedPartition, FetchState
from pykbroker.core.consumer.position import CommittedOffset, FetchPosition, PartitionLeaderOf
from pykbroker.core.consumer.subscription import ConsumerSubscription
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode
from wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from wire.sentinels import CONSUMER_REPLICA_ID, NO_LEADER_EPOCH, NO_OFFSET


class LookupSettings(NamedTuple):
    """The settings of look-ups, with Kafka's defaults. Times are in ms."""

    is_committed: bool = False
    request_timeout_ms: int = 30_000
    retry_backoff_ms: float = 100


class ResetCall(NamedTuple):
    """A ListOffsets request to the broker `node`, and the strategies that it serves."""

    node: int
    request: ListOffsetsRequest
    strategies: Mapping[TopicPartition, ResetStrategy]


class ResetPlan(NamedTuple):
    """The ListOffsets requests to send now, and whether metadata has to be refreshed to find leaders."""

    calls: list[ResetCall]
    is_metadata_stale: bool


class PositionResets:
    """The resets of positions. Methods return whether metadata has to be refreshed."""

    def __init__(self, subscription: ConsumerSubscription, settings: LookupSettings) -> None:
        self._subscription, self._settings = subscription, settings

    def due(self, leader_of: PartitionLeaderOf, now_ms: float, wall_ms: int) -> ResetPlan:
        """Return the requests to send. Raise NoOffsetForPartition if a partition has no strategy."""
        waiting = dict(self._subscription.waiting(FetchState.AWAIT_RESET, now_ms))
        strategies = {partition: state.reset or NO_RESET for partition, state in waiting.items()}
        timestamps = {partition: strategy.timestamp(wall_ms) for partition, strategy in strategies.items()}
        known = {partition: timestamp for partition, timestamp in timestamps.items() if timestamp is not None}
        if len(known) != len(timestamps):
            raise NoOffsetForPartition(timestamps.keys() - known.keys())
        settings = self._settings
        found = list_offsets_requests(
            known, leader_of, committed=settings.is_committed, timeout_ms=settings.request_timeout_ms
        )
        calls = []
        for node, request in found.by_node.items():
            partitions = requested_partitions(request)
            self._subscription.failed(partitions, now_ms + settings.request_timeout_ms)
            calls.append(ResetCall(node, request, {each: strategies[each] for each in partitions}))
        self._subscription.failed(found.leaderless, now_ms + settings.retry_backoff_ms)
        return ResetPlan(calls, bool(found.leaderless))

    def received(
        self, call: ResetCall, response: ListOffsetsResponse, leader_of: PartitionLeaderOf, now_ms: float
    ) -> bool:
        """Set positions. Raise TopicsUnauthorized if a topic may not be read."""
        try:
            found = offsets_found(call.request, response)
        except TopicsUnauthorized:
            self.failed(call, now_ms)
            raise
        self._subscription.failed(found.retry, now_ms + self._settings.retry_backoff_ms)
        for partition, offset in found.offsets.items():
            state = self._subscription.get(partition)
            if state is None or state.state is not FetchState.AWAIT_RESET or state.reset != call.strategies[partition]:
                continue
            if offset is not None:  # the log has no record as young as by_duration asks for: Kafka asks again later
                state.seek_unvalidated(FetchPosition(offset.offset, NO_LEADER_EPOCH, leader_of(partition)))
        return bool(found.retry)

    def failed(self, call: ResetCall, now_ms: float) -> bool:
        """Note that a request has no response."""
        self._subscription.failed(call.strategies, now_ms + self._settings.retry_backoff_ms)
        return True


class ValidationCall(NamedTuple):
    """An OffsetForLeaderEpoch request to the broker `node`, and the positions that it validates."""

    node: int
    request: OffsetForLeaderEpochRequest
    positions: Mapping[TopicPartition, FetchPosition]


class PositionValidation:
    """The validation of positions after a change of leaders. Methods return whether metadata has to be refreshed."""

    def __init__(self, subscription: ConsumerSubscription, settings: LookupSettings) -> None:
        self._subscription, self._settings = subscription, settings

    def due(self, now_ms: float) -> list[ValidationCall]:
        """Return the requests to send."""
        by_node: dict[int, dict[TopicPartition, FetchPosition]] = {}
        for partition, state in self._subscription.waiting(FetchState.AWAIT_VALIDATION, now_ms):
            position = state.position
            if position is not None and position.leader.node is not None:
                by_node.setdefault(position.leader.node, {})[partition] = position
        for positions in by_node.values():
            self._subscription.failed(positions, now_ms + self._settings.request_timeout_ms)
        return [ValidationCall(node, _validation_request(positions), positions) for node, positions in by_node.items()]

    def received(self, call: ValidationCall, response: OffsetForLeaderEpochResponse, now_ms: float) -> bool:
        """Continue fetching where the log has the position. Raise LogTruncation or TopicsUnauthorized."""
        retry, unauthorized = set(call.positions), set()
        truncated: dict[TopicPartition, int] = {}
        divergent: dict[TopicPartition, CommittedOffset] = {}
        for topic in response.topics:
            for end in topic.partitions:
                partition = TopicPartition(topic.topic, end.partition)
                if partition not in retry:
                    continue
                if end.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    unauthorized.add(topic.topic)
                if end.error_code:
                    continue
                retry.discard(partition)
                state, position = self._subscription.get(partition), call.positions[partition]
                if state is None or state.state is not FetchState.AWAIT_VALIDATION or state.position != position:
                    continue
                if not self._validate(state, position, end):
                    truncated[partition] = position.offset
                    if _is_defined(end):
                        divergent[partition] = CommittedOffset(end.end_offset, end.leader_epoch)
        self._subscription.failed(retry, now_ms + self._settings.retry_backoff_ms)
        if unauthorized:
            raise TopicsUnauthorized(unauthorized)
        if truncated:
            raise LogTruncation(truncated, divergent)
        return bool(retry)

    def failed(self, call: ValidationCall, now_ms: float) -> bool:
        """Note that a request has no response."""
        self._subscription.failed(call.positions, now_ms + self._settings.retry_backoff_ms)
        return True

    def _validate(self, state: AssignedPartition, position: FetchPosition, end: EpochEndOffset) -> bool:
        """Fetch from the position, or from where the log diverges. Return False if the user has to decide."""
        if _is_defined(end) and end.end_offset >= position.offset:
            state.validated()
            return True
        if self._subscription.reset == NO_RESET:
            return False
        if _is_defined(end):
            state.seek(FetchPosition(end.end_offset, end.leader_epoch, position.leader))
        else:
            state.request_reset(self._subscription.reset)
        return True


def _is_defined(end: EpochEndOffset) -> bool:
    """Whether the leader knows where the epoch ends."""
    return end.end_offset != NO_OFFSET and end.leader_epoch != NO_LEADER_EPOCH


def _validation_request(positions: Mapping[TopicPartition, FetchPosition]) -> OffsetForLeaderEpochRequest:
    topics: dict[str, OffsetForLeaderTopic] = {}
    for (name, index), position in positions.items():
        topic = topics.setdefault(name, OffsetForLeaderTopic(name, []))
        topic.partitions.append(OffsetForLeaderPartition(index, position.leader.epoch, position.epoch))
    return OffsetForLeaderEpochRequest(CONSUMER_REPLICA_ID, list(topics.values()))
