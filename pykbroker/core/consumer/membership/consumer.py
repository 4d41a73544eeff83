"""A member of a group of the consumer protocol (KIP-848): ConsumerGroupHeartbeat, and reconciliation.

1. The coordinator assigns partitions. The member gives away what it may not keep, takes what is new, and acknowledges
   with the next heartbeat.
2. A target assignment whose topic ids are not all known is reconciled as far as they are.
3. A fenced member loses its partitions and joins again, with its old member id and epoch 0. After an error that the
   user has to handle, it stays out of the group.
4. A member that does not poll in time leaves, loses its partitions, and joins again with its next poll.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from typing import Any

from pykbroker.core.backoff import Uniform
from pykbroker.core.consumer.commits import REMOVED, CommitIdentity
from pykbroker.core.consumer.errors import CommitFailed
from pykbroker.core.consumer.membership.heartbeat_fields import HeartbeatFields, TopicIdPartitions
from pykbroker.core.consumer.membership.held_error import HeldError
from pykbroker.core.consumer.membership.running_steps import RunningSteps
from pykbroker.core.consumer.membership.steps import (
    CommitOffsets,
    LeaveMode,
    MemberSettings,
    MemberStep,
    MemberSteps,
    RebalanceEvent,
    listener_call,
)
from pykbroker.core.consumer.membership.timers import MemberTimers
from pykbroker.core.consumer.subscription import ConsumerSubscription
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode, error_code
from wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH = 0, -1, -2
_NO_COORDINATOR = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
_FENCED = {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID}

TopicNameOf = Callable[[bytes], str | None]
"""A function that returns the name of a topic id, or None if metadata does not have it."""


class MembershipState(Enum):
    """The states of a member. A member sends heartbeats in the states from JOINING to LEAVING."""

    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    RECONCILING = "reconciling"
    ACKNOWLEDGING = "acknowledging"
    STABLE = "stable"
    PREPARE_LEAVING = "prepare leaving"
    LEAVING = "leaving"
    FENCED = "fenced"
    FATAL = "fatal"
    STALE = "stale"


_ABSENT = {MembershipState.UNSUBSCRIBED, MembershipState.FENCED, MembershipState.FATAL, MembershipState.STALE}
_LEAVING = {MembershipState.PREPARE_LEAVING, MembershipState.LEAVING}
_BEATS_NOW = {MembershipState.JOINING, MembershipState.ACKNOWLEDGING, MembershipState.LEAVING}
_ACCEPTS = {MembershipState.JOINING, MembershipState.RECONCILING, MembershipState.ACKNOWLEDGING, MembershipState.STABLE}
"""The states in which the member takes a new assignment."""
NOTHING: tuple[int, TopicIdPartitions] = (-1, {})
"""No assignment. The number of an assignment grows with each different one."""


class ConsumerMembership:
    """A member of a group of the consumer protocol. `epoch` and `member_id` identify it in commits."""

    def __init__(
        self,
        settings: MemberSettings,
        subscription: ConsumerSubscription,
        member_id: str,
        topic_name_of: TopicNameOf,
        uniform: Uniform,
        now_ms: float,
    ) -> None:
        """Start outside the group. `member_id` is a random UUID in Kafka's base64, which the member keeps."""
        self.state, self.member_id, self.epoch = MembershipState.UNSUBSCRIBED, member_id, JOIN_EPOCH
        self.needs_coordinator = self.needs_metadata = False
        self._settings, self._subscription, self._topic_name_of = settings, subscription, topic_name_of
        self._fields = HeartbeatFields(settings, subscription)
        self._timers = MemberTimers(settings, uniform, now_ms)
        self._names: dict[bytes, str] = {}
        self._target = self._current = NOTHING
        self.steps = RunningSteps()
        self._in_flight: ConsumerGroupHeartbeatRequest | None = None
        self._joins = 0
        self._is_expired = False
        self._leave_mode = LeaveMode.DEFAULT
        self.failure = HeldError()

    # ---- the member as others see it

    def identity(self) -> CommitIdentity:
        """Return the identity for commits. Raise CommitFailed outside the group."""
        if self.epoch <= 0:
            raise CommitFailed(REMOVED)
        return CommitIdentity(self._settings.group_id, self.member_id, self.epoch, self._settings.instance_id)

    @property
    def has_left(self) -> bool:
        """Whether all steps are done, after `leave`."""
        return self.state in _ABSENT and self.steps.is_idle

    @property
    def assigned_topic_ids(self) -> frozenset[bytes]:
        """Return the topic ids of the target assignment, whose names the member has to know."""
        return frozenset(self._target[1])

    # ---- the user's task

    def poll(self, now_ms: float) -> None:
        """Note that the user polls, which joins the group if necessary. Raise an error that the user has to handle."""
        self._timers.polled(now_ms)
        self.failure.raise_once()
        is_out = self.state in (MembershipState.STALE, MembershipState.UNSUBSCRIBED)
        if is_out and self.steps.is_idle and self._subscription.is_from_group:
            self._join()

    def step(self, now_ms: float) -> MemberStep | None:
        """Return the next step, or None if there is nothing to do. The signature is that of a classic member."""
        if self.steps.is_idle and self.state is MembershipState.RECONCILING and self._current != self._target:
            self.steps.add(self._reconcile())
        return self.steps.next()

    def answer(self, value: Any, now_ms: float) -> None:
        """Continue after a step, with its result."""
        self.steps.answer(value)

    def leave(self, mode: LeaveMode, reason: str, now_ms: float) -> None:
        """Let the next steps give away the partitions, and the next heartbeat leave the group.

        A step that is being carried out is still to be answered. The protocol has no field for the reason.
        """
        self._leave_mode = mode
        if self.state in _LEAVING:
            return
        if self.state in _ABSENT:
            if self.state is MembershipState.FENCED:
                self.state = MembershipState.UNSUBSCRIBED
            if self.steps.is_idle:
                self._clear()
            return
        self.state = MembershipState.PREPARE_LEAVING
        self.steps.add(self._release())

    def leave_skipped(self) -> None:
        """Leave without a request, since the coordinator is unknown. The session then times out."""
        if self.state is MembershipState.LEAVING:
            self._left()

    # ---- the background task

    @property
    def heartbeat_at_ms(self) -> float:
        """Return the time at which to call `heartbeat`, or infinity while the member sends none."""
        if self.state in _ABSENT:
            return math.inf
        timers = self._timers
        expires = math.inf if self.state in _LEAVING else timers.poll_by_ms
        if self._in_flight is not None and self.state is not MembershipState.LEAVING:
            return expires
        return min(expires, timers.retry_at_ms if self.state in _BEATS_NOW else timers.heartbeat_at_ms)

    def heartbeat(self, now_ms: float) -> ConsumerGroupHeartbeatRequest | None:
        """Return the request to send now, if any."""
        timers = self._timers
        if now_ms < self.heartbeat_at_ms or self.state in _ABSENT:
            return None
        if now_ms >= timers.poll_by_ms and self.state not in _LEAVING:
            self._is_expired = True
            self._start_leaving()
        # A static member always sends the request: with epoch -2 it keeps its partitions (KIP-848).
        remains = self._leave_mode is LeaveMode.REMAIN and self._settings.instance_id is None
        if self.state is MembershipState.LEAVING and remains:
            self.state = MembershipState.UNSUBSCRIBED
            return None
        timers.sent(now_ms)
        joins = self.state is MembershipState.JOINING
        self._in_flight = self._fields.request(self.member_id, self.epoch, self._current, joins=joins)
        request = self._in_flight
        if self.state is MembershipState.ACKNOWLEDGING:
            is_done = self._current == self._target
            self.state = MembershipState.STABLE if is_done else MembershipState.RECONCILING
        elif self.state is MembershipState.LEAVING:
            self._left()
        return request

    def heartbeat_answered(
        self, request: ConsumerGroupHeartbeatRequest, response: ConsumerGroupHeartbeatResponse | None, now_ms: float
    ) -> None:
        """Handle the response to a heartbeat. That of a request to leave is ignored."""
        if request is not self._in_flight:
            return
        self._in_flight = None
        if response is not None and not response.error_code:
            if response.heartbeat_interval_ms > 0:
                self._timers.interval_ms = response.heartbeat_interval_ms
            self._timers.succeeded(now_ms)
            self._timers.sent(now_ms)
            if self.state not in _ABSENT and self.state is not MembershipState.LEAVING and response.member_epoch >= 0:
                self.epoch = response.member_epoch
                if response.assignment is not None and self.state in _ACCEPTS:
                    self._assigned(response.assignment)
            return
        # The coordinator may not have received the fields of this request, so that the next one has all again.
        self._fields.forget()
        self._timers.failed(now_ms)
        if response is None:
            return
        code = error_code(response.error_code)
        if code in _NO_COORDINATOR:
            self.needs_coordinator = True
            self._timers.retry_at_ms = self._timers.heartbeat_at_ms = now_ms
        elif code in _FENCED:
            self._timers.retry_at_ms = now_ms
            self._fence()
        elif code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            self.failure.hold(ApiError(code, response.error_message))
        elif code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self._fail(ApiError(code, response.error_message))

    # ---- joining and leaving

    def _join(self) -> None:
        self._joins += 1
        self.state, self.epoch, self._is_expired = MembershipState.JOINING, JOIN_EPOCH, False
        self._target = NOTHING
        self._names.clear()

    def _fence(self) -> None:
        """Lose the partitions and join again, unless the member is leaving anyway."""
        if self.state in _LEAVING:
            self.state = MembershipState.UNSUBSCRIBED
        elif self.state is not MembershipState.UNSUBSCRIBED:
            self.state, self.epoch = MembershipState.FENCED, JOIN_EPOCH
            self.steps.add(self._lose())

    def _fail(self, error: ApiError) -> None:
        """Lose the partitions, and stay out of the group."""
        was_leaving = self.state in _LEAVING or self.state is MembershipState.UNSUBSCRIBED
        self.state = MembershipState.FATAL
        self.failure.hold(error)
        if not was_leaving:
            self.steps.add(self._lose())

    def _start_leaving(self) -> None:
        is_static = self._settings.instance_id is not None and self._leave_mode is not LeaveMode.LEAVE
        self.state, self.epoch = MembershipState.LEAVING, STATIC_LEAVE_EPOCH if is_static else LEAVE_EPOCH
        self._current = NOTHING
        self._timers.retry_at_ms = 0.0

    def _left(self) -> None:
        self._in_flight = None
        self._fields.forget()
        if self._is_expired:
            self.state = MembershipState.STALE
            self.steps.add(self._lose())
        else:
            self.state = MembershipState.UNSUBSCRIBED

    def _release(self) -> MemberSteps:
        """Give away all partitions, and then leave."""
        owned = self._subscription.partitions
        if owned:
            event = RebalanceEvent.REVOKED if self.epoch > 0 else RebalanceEvent.LOST
            self._subscription.mark_revoking(owned)
            yield listener_call(event, owned)
        self._clear()
        if self.state is MembershipState.PREPARE_LEAVING:
            self._start_leaving()

    def _lose(self) -> MemberSteps:
        """Give away all partitions that the group may have assigned to others, and join again if fenced."""
        owned = self._subscription.partitions
        if owned:
            self._subscription.mark_revoking(owned)
            yield listener_call(RebalanceEvent.LOST, owned)
        self._clear()
        if self.state is MembershipState.FENCED:
            self._join()

    def _clear(self) -> None:
        if self._subscription.is_from_group:
            self._subscription.assign_from_group(())
        self._current = self._target = NOTHING
        self._names.clear()

    # ---- reconciliation

    def _assigned(self, assignment: Assignment) -> None:
        """Take a target assignment."""
        target = {each.topic_id: frozenset(each.partitions) for each in assignment.topic_partitions}
        if self._target == NOTHING or self._target[1] != target:
            self._target = (self._target[0] + 1, target)
        if self._current != self._target:
            self.state = MembershipState.RECONCILING
        elif self.state in (MembershipState.RECONCILING, MembershipState.JOINING):
            self.state = MembershipState.STABLE

    def _reconcile(self) -> MemberSteps:
        """Give away and take partitions, as the target assignment says. A step that fails is tried again."""
        subscription, joins = self._subscription, self._joins
        resolved = (self._target[0], self._resolved())
        if resolved == self._current:
            return  # the rest waits for metadata
        assigned = {
            TopicPartition(self._names[topic_id], index) for topic_id, all_ in resolved[1].items() for index in all_
        }
        owned = set(subscription.partitions)
        revoked, added = owned - assigned, assigned - owned
        subscription.mark_revoking(revoked)
        is_read = assigned == owned and not any(subscription[each].awaits_listener for each in owned)
        if is_read and self._current != NOTHING and resolved[1] == self._current[1]:
            self._current = resolved
            self.state = MembershipState.ACKNOWLEDGING
            return
        # Before partitions are given away: their next owners begin at the committed offsets.
        if self._settings.commits:
            yield CommitOffsets()
            if self._is_overtaken(joins):
                return
        if revoked:
            is_done = yield listener_call(RebalanceEvent.REVOKED, revoked)
            if is_done:
                subscription.assign_from_group(sorted(owned & assigned))
            if not is_done or self._is_overtaken(joins):
                return
        subscription.assign_from_group(sorted(assigned), awaiting=added)
        is_done = yield listener_call(RebalanceEvent.ASSIGNED, added)
        if is_done:
            subscription.enable(assigned)
        if is_done and not self._is_overtaken(joins):
            self._current = resolved
            self.state = MembershipState.ACKNOWLEDGING

    def _is_overtaken(self, joins: int) -> bool:
        """Whether the member was fenced, left or joined again since the reconciliation began."""
        return self.state is not MembershipState.RECONCILING or self._joins != joins

    def _resolved(self) -> TopicIdPartitions:
        """Return the part of the target assignment whose topic ids are known."""
        found = {}
        for topic_id, indexes in self._target[1].items():
            name = self._topic_name_of(topic_id) or self._names.get(topic_id)
            if name is None:
                self.needs_metadata = True
            else:
                self._names[topic_id], found[topic_id] = name, indexes
        return found
