"""A member of a classic group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup (KIP-62, 345, 394, 429, 814).

1. An eager member gives away all its partitions before it joins. A cooperative member keeps them, gives away only those
   that its next assignment lacks, and then joins again.
2. The generation is reset if the coordinator does not know it. The member's partitions are then lost, not revoked.
3. A rebalance is a generator of steps. Between two steps, a heartbeat may reset the generation; the rebalance then
   fails, and another one begins.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from enum import Enum
from typing import Any

from pykbroker.core.backoff import Uniform
from pykbroker.core.consumer.assignors.assignor import Assignor, RebalanceProtocol, ReplicaRacks
from pykbroker.core.consumer.assignors.protocol import encode_assignment
from pykbroker.core.consumer.commits import REMOVED, CommitIdentity, CommitResult
from pykbroker.core.consumer.errors import CommitFailed, GroupDataMalformed
from pykbroker.core.consumer.membership.generation import NO_GENERATION, MemberGeneration
from pykbroker.core.consumer.membership.group_data import assignment_of, subscription_of
from pykbroker.core.consumer.membership.group_requests import (
    heartbeat_request,
    join_request,
    leave_request,
    sync_request,
)
from pykbroker.core.consumer.membership.held_error import HeldError
from pykbroker.core.consumer.membership.running_steps import RunningSteps
from pykbroker.core.consumer.membership.steps import (
    CallListener,
    CommitOffsets,
    LeaveMode,
    LoadTopics,
    MemberSettings,
    MemberStep,
    MemberSteps,
    RebalanceEvent,
    SendToCoordinator,
    listener_call,
)
from pykbroker.core.consumer.membership.timers import MemberTimers
from pykbroker.core.consumer.subscription import ConsumerSubscription
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode, error_code
from wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from wire.messages.join_group import JoinGroupResponse
from wire.messages.leave_group import LeaveGroupRequest
from wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from wire.sentinels import NO_GENERATION_ID

JOIN_LAPSE_MS = 5000
"""The time that a response to JoinGroup may take after the rebalance timeout."""
_NO_COORDINATOR = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
_RESETS = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}
_RETRIED = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, *_NO_COORDINATOR}
_AT_ONCE = {ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS, *_RESETS}
"""The errors after which the member joins again without a backoff."""


class JoinState(Enum):
    """The states of a classic member. It sends heartbeats in the last two."""

    UNJOINED = "unjoined"
    PREPARING_REBALANCE = "preparing rebalance"
    COMPLETING_REBALANCE = "completing rebalance"
    STABLE = "stable"


class ClassicMembership:
    """A member of a classic group. `generation` identifies it in commits."""

    def __init__(
        self,
        settings: MemberSettings,
        subscription: ConsumerSubscription,
        assignors: Sequence[Assignor],
        uniform: Uniform,
        now_ms: float,
    ) -> None:
        """Start outside the group. The first assignor is preferred.

        The member is cooperative if all assignors are. Raise ValueError if they have no rebalance protocol in common.
        """
        self.state, self.generation = JoinState.UNJOINED, NO_GENERATION
        self.needs_coordinator = False
        self._settings, self._subscription, self._assignors = settings, subscription, assignors
        self._is_cooperative = _protocol(assignors) is RebalanceProtocol.COOPERATIVE
        self._timers = MemberTimers(settings, uniform, now_ms)
        self._now_ms = now_ms
        self.steps = RunningSteps()
        self._needs_join, self._is_prepared, self._reason = True, False, ""
        self._joined_topics: frozenset[str] | None = None
        self._assigned_topics: ReplicaRacks = {}
        self._is_leader = False
        self._heartbeat: HeartbeatRequest | None = None
        self.failure = HeldError()

    # ---- the member as others see it

    def identity(self) -> CommitIdentity:
        """Return the identity for commits.

        Raise CommitFailed outside the group, and ApiError with REBALANCE_IN_PROGRESS while the member joins.
        """
        if self.state is JoinState.UNJOINED:
            raise CommitFailed(REMOVED)
        if self.state is not JoinState.STABLE:
            text = "the group is rebalancing; poll again, and then commit again"
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS, text)
        number, member_id, _ = self.generation
        return CommitIdentity(self._settings.group_id, member_id, number, self._settings.instance_id)

    def commit_failed(self, result: CommitResult) -> None:
        """Join again if a commit found out that the group has removed the member, or is rebalancing."""
        if result.is_removed:
            self._reset(f"encountered {result.code.name} from a commit", drops_member_id=result.drops_member_id)
        else:
            self.request_rejoin(f"encountered {result.code.name} from a commit")

    @property
    def step_at_ms(self) -> float:
        """Return the time at which the next step may begin, or infinity if that does not depend on time."""
        joins = self._needs_join and self._subscription.is_from_group and self.steps.is_idle
        return self._timers.retry_at_ms if joins else math.inf

    @property
    def has_left(self) -> bool:
        """Whether all steps are done, after `leave`."""
        return self.steps.is_idle

    # ---- the user's task

    def poll(self, now_ms: float) -> None:
        """Note that the user polls. Raise the error of a heartbeat that the user has to handle."""
        self._timers.polled(now_ms)
        self.failure.raise_once()

    def step(self, now_ms: float) -> MemberStep | None:
        """Return the next step of a rebalance, or None if there is nothing to do."""
        self._now_ms = now_ms
        if self.steps.is_idle and self._is_join_due(now_ms):
            self.steps.add(self._rebalance())
        return self.steps.next()

    def answer(self, value: Any, now_ms: float) -> None:
        """Continue after a step, with its result. Raise the error of a rebalance that the user has to handle."""
        self._now_ms = now_ms
        self.steps.answer(value)

    def leave(self, mode: LeaveMode, reason: str, now_ms: float) -> None:
        """Let the next steps leave the group, as after `unsubscribe` and `close`."""
        self._now_ms = now_ms
        pending = self.steps.pending
        unheard: Collection[TopicPartition] = ()
        if isinstance(pending, CallListener) and pending.event is RebalanceEvent.ASSIGNED:
            unheard = pending.partitions
        self.steps.clear()
        self.steps.add(self._leave(mode, reason, unheard))
        self.steps.next()

    def request_rejoin(self, reason: str) -> None:
        """Join again with the next step."""
        if not self._needs_join:
            self._needs_join, self._reason = True, reason

    def note_metadata(self, topics: ReplicaRacks) -> None:
        """Note newer metadata of the group's topics. The leader joins again if its assignment is based on other."""
        if self._is_leader and self.state is JoinState.STABLE and topics != self._assigned_topics:
            self.request_rejoin("cached metadata has changed")

    # ---- the background task

    @property
    def heartbeat_at_ms(self) -> float:
        """Return the time at which to call `heartbeat`, or infinity while the member sends none."""
        if self.state not in (JoinState.COMPLETING_REBALANCE, JoinState.STABLE):
            return math.inf
        timers = self._timers
        beat = math.inf if self._heartbeat is not None else timers.heartbeat_at_ms
        return min(beat, timers.poll_by_ms, timers.session_ends_ms)

    def heartbeat(self, now_ms: float) -> HeartbeatRequest | LeaveGroupRequest | None:
        """Return the request to send now, if any. The response to a LeaveGroup request is ignored."""
        timers = self._timers
        if now_ms < self.heartbeat_at_ms or self.state not in (JoinState.COMPLETING_REBALANCE, JoinState.STABLE):
            return None
        if now_ms >= timers.poll_by_ms:
            request = self._leave_request(LeaveMode.DEFAULT, "consumer poll timeout has expired.")
            self._reset("consumer pro-actively leaving the group", drops_member_id=True)
            return request
        if now_ms >= timers.session_ends_ms:
            # The coordinator may be dead. The member looks for it anew, and gives it another session timeout.
            self.needs_coordinator, self._heartbeat = True, None
            timers.succeeded(now_ms)
            return None
        timers.sent(now_ms)
        self._heartbeat = heartbeat_request(self._settings, self.generation)
        return self._heartbeat

    def heartbeat_answered(self, request: HeartbeatRequest, response: HeartbeatResponse | None, now_ms: float) -> None:
        if request is not self._heartbeat:
            return
        self._heartbeat = None
        code = ErrorCode.NETWORK_EXCEPTION if response is None else response.error_code
        if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._timers.succeeded(now_ms)
            if code and self.state is JoinState.STABLE:
                self.request_rejoin("group is already rebalancing")
            return
        self._timers.failed(now_ms)
        self._timers.retry_at_ms = now_ms  # only the heartbeat waits for the backoff, not a join
        self.needs_coordinator = self.needs_coordinator or code in _NO_COORDINATOR
        is_current = (request.generation_id, request.member_id) == self.generation[:2]
        if code in {*_RESETS, ErrorCode.FENCED_INSTANCE_ID} and is_current:
            name = error_code(code).name
            drops = code != ErrorCode.ILLEGAL_GENERATION
            self._reset(f"encountered {name} from HEARTBEAT response", drops_member_id=drops)
            if code == ErrorCode.FENCED_INSTANCE_ID:
                self.failure.hold(ApiError(ErrorCode.FENCED_INSTANCE_ID, _fenced(self._settings)))

    # ---- a rebalance

    def _is_join_due(self, now_ms: float) -> bool:
        if not self._subscription.is_from_group:
            return False
        if self._joined_topics is not None and self._joined_topics != self._subscription.topics:
            self.request_rejoin("subscription has changed")
        return self._needs_join and now_ms >= self._timers.retry_at_ms

    def _rebalance(self) -> MemberSteps:
        """Join the group, and take the assignment. Raise GroupDataMalformed if the group has malformed data."""
        try:
            if not self._is_prepared:
                yield from self._prepare()
                self._is_prepared = True
            self.state, sent = JoinState.PREPARING_REBALANCE, self.generation
            settings = self._settings
            # The coordinator answers once all members have joined, or the rebalance timeout, which is
            # max.poll.interval.ms, is over.
            timeout_ms = max(settings.request_timeout_ms, settings.poll_interval_ms_max + JOIN_LAPSE_MS)
            request = join_request(settings, self._subscription, self.generation, self._assignors, self._reason)
            self._joined_topics = self._subscription.topics
            joined: JoinGroupResponse | None = yield SendToCoordinator(request, timeout_ms)
            if joined is None or joined.error_code or self.state is not JoinState.PREPARING_REBALANCE:
                self._join_failed(joined, sent)
                return
            self.state = JoinState.COMPLETING_REBALANCE
            self.generation = MemberGeneration(joined.generation_id, joined.member_id, joined.protocol_name)
            self._timers.restart(self._now_ms)
            sync = sync_request(settings, self.generation)
            self._is_leader = joined.leader == joined.member_id
            if self._is_leader:
                yield from self._lead(joined, sync)
            synced: SyncGroupResponse | None = yield SendToCoordinator(sync, settings.request_timeout_ms)
            sent = MemberGeneration(sync.generation_id, sync.member_id, sync.protocol_name)
            if synced is None or synced.error_code or self.generation != sent:
                self._sync_failed(synced, sent)
                return
            self.state = JoinState.STABLE
            self._needs_join, self._reason = False, ""
            self._timers.succeeded(self._now_ms)
            yield from self._complete(synced.assignment)
        except GroupDataMalformed:
            self.state, self._needs_join, self._reason = JoinState.UNJOINED, True, "the group has malformed data"
            self._timers.failed(self._now_ms)
            raise

    def _prepare(self) -> MemberSteps:
        """Commit, and give away partitions that the member may not keep while it joins."""
        subscription = self._subscription
        owned = subscription.partitions
        if self._settings.commits:
            if not self._is_cooperative:
                subscription.mark_revoking(owned)
            yield CommitOffsets()
        if self.generation.number == NO_GENERATION_ID or not self.generation.member_id:
            if owned:
                yield listener_call(RebalanceEvent.LOST, owned)
                subscription.assign_from_group(())
        elif not self._is_cooperative:
            yield listener_call(RebalanceEvent.REVOKED, owned)
            subscription.assign_from_group(())
        else:
            revoked = {partition for partition in owned if partition.topic not in subscription.topics}
            if revoked:
                yield listener_call(RebalanceEvent.REVOKED, revoked)
                subscription.assign_from_group(each for each in owned if each not in revoked)
        self._is_leader, subscription.group_topics = False, frozenset()

    def _join_failed(self, response: JoinGroupResponse | None, sent: MemberGeneration) -> None:
        code = ErrorCode.NETWORK_EXCEPTION if response is None else error_code(response.error_code)
        if response is not None and code is ErrorCode.MEMBER_ID_REQUIRED:
            self.generation = MemberGeneration(member_id=response.member_id)
            self._needs_join, self._reason = True, f"need to re-join with the given member-id: {response.member_id}"
            return
        if code is ErrorCode.UNKNOWN_MEMBER_ID and self.generation == sent:
            self._reset("encountered UNKNOWN_MEMBER_ID from JOIN_GROUP response", drops_member_id=True)
        self._rebalance_failed(code)

    def _lead(self, joined: JoinGroupResponse, sync: SyncGroupRequest) -> MemberSteps:
        """Assign the partitions as the leader. A static leader that returns may find its group unchanged (KIP-814)."""
        members = {member.member_id: subscription_of(member, self._settings.group_id) for member in joined.members}
        self._subscription.group_topics = frozenset(topic for each in members.values() for topic in each.topics)
        self._assigned_topics = yield LoadTopics(self._subscription.group_topics)
        if not joined.skip_assignment:
            assigned = _assignor(self._assignors, joined.protocol_name).assign(self._assigned_topics, members)
            sync.assignments = [
                SyncGroupRequestAssignment(member_id, encode_assignment(partitions))
                for member_id, partitions in assigned.items()
            ]

    def _sync_failed(self, response: SyncGroupResponse | None, sent: MemberGeneration) -> None:
        code = ErrorCode.NETWORK_EXCEPTION if response is None else error_code(response.error_code)
        if code in _RESETS and self.generation == sent:
            drops = code is not ErrorCode.ILLEGAL_GENERATION
            self._reset(f"encountered {code.name} from SYNC_GROUP response", drops_member_id=drops)
        self._rebalance_failed(code)

    def _rebalance_failed(self, code: ErrorCode) -> None:
        """Join again, at once or after a backoff, or raise the error."""
        self.state, self._needs_join = JoinState.UNJOINED, True
        self._reason = self._reason or f"rebalance failed due to {code.name}"
        self.needs_coordinator = self.needs_coordinator or code in _NO_COORDINATOR
        if code in _RETRIED or code is ErrorCode.NETWORK_EXCEPTION:
            self._timers.failed(self._now_ms)
        elif code and code not in _AT_ONCE:
            text = f"group {self._settings.group_id}: joining failed with {code.name}"
            raise ApiError(code, _fenced(self._settings) if code is ErrorCode.FENCED_INSTANCE_ID else text)

    def _complete(self, data: bytes) -> MemberSteps:
        """Take the assignment, and call the listener."""
        subscription, assigned = self._subscription, assignment_of(data, self._settings.group_id)
        self._is_prepared = False
        if not subscription.accepts(assigned):
            self.request_rejoin("received assignment does not match the current subscription")
            return
        owned = set(subscription.partitions)
        revoked, added = owned.difference(assigned), set(assigned) - owned
        if self._is_cooperative and revoked:
            yield listener_call(RebalanceEvent.REVOKED, revoked)
            self.request_rejoin("need to revoke partitions and re-join")
        # The leader may know a topic that the pattern matches, and that the metadata of this member lacks.
        if subscription.update_matched(subscription.topics | {partition.topic for partition in assigned}):
            self._joined_topics = subscription.topics
        _assignor(self._assignors, self.generation.protocol).on_assignment(assigned, self.generation.number)
        subscription.assign_from_group(sorted(assigned))
        yield listener_call(RebalanceEvent.ASSIGNED, added)

    # ---- leaving

    def _leave(self, mode: LeaveMode, reason: str, unheard: Collection[TopicPartition]) -> MemberSteps:
        """Give away all partitions, and leave. The listener has not heard of the partitions in `unheard`."""
        subscription = self._subscription
        owned = [each for each in subscription.partitions if subscription.is_from_group and each not in unheard]
        if owned:
            is_member = self.generation.number != NO_GENERATION_ID and self.state is JoinState.STABLE
            yield listener_call(RebalanceEvent.REVOKED if is_member else RebalanceEvent.LOST, owned)
        if subscription.is_from_group:
            subscription.assign_from_group(())
        request = self._leave_request(mode, reason)
        self._reset("consumer pro-actively leaving the group", drops_member_id=True)
        if request is not None:
            yield SendToCoordinator(request, self._settings.request_timeout_ms)

    def _leave_request(self, mode: LeaveMode, reason: str) -> LeaveGroupRequest | None:
        """Return the request to leave, or None if the member stays, or has not joined."""
        is_default = mode is LeaveMode.DEFAULT and self._settings.instance_id is None
        has_joined = self.state is not JoinState.UNJOINED and self.generation.member_id
        if not has_joined or not (mode is LeaveMode.LEAVE or is_default):
            return None
        return leave_request(self._settings, self.generation, reason)

    def _reset(self, reason: str, *, drops_member_id: bool) -> None:
        """Forget the generation, so that partitions are lost, and join again."""
        self.state = JoinState.UNJOINED
        self.generation = NO_GENERATION if drops_member_id else MemberGeneration(member_id=self.generation.member_id)
        self._needs_join, self._reason, self._is_prepared = True, reason, False


def _fenced(settings: MemberSettings) -> str:
    return f"another member has joined group {settings.group_id} as {settings.instance_id}"


def _protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """Return the newest rebalance protocol that all assignors support."""
    common = frozenset(RebalanceProtocol).intersection(*(assignor.protocols for assignor in assignors))
    if not common:
        names = ", ".join(assignor.name for assignor in assignors)
        raise ValueError(f"partition.assignment.strategy: {names} have no rebalance protocol in common")
    return max(common)


def _assignor(assignors: Sequence[Assignor], name: str | None) -> Assignor:
    """Return the assignor that the coordinator chose."""
    for assignor in assignors:
        if assignor.name == name:
            return assignor
    text = f"the coordinator chose the assignor {name}, which this member did not offer"
    raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text)
