"""The member of a group: it carries out the steps of the pure membership, and sends its heartbeats.

1. A join and a reconciliation begin only while the user polls. Records that earlier polls have returned then
   count as processed, so that their offsets may be committed.
2. Requests to the coordinator run in the background. Calls of the listener and commits wait for the user's task.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import trio

from pykbroker.client.errors import Disconnected
from pykbroker.client.metadata import ClusterMetadata
from pykbroker.client.timer import wait_s
from pykbroker.consumer.coordinator_link import CoordinatorLink
from pykbroker.consumer.topics import ConsumerTopics
from pykbroker.core.consumer.commits import CommitIdentity, CommitResult
from pykbroker.core.consumer.errors import ConsumerError
from pykbroker.core.consumer.membership.classic import ClassicMembership
from pykbroker.core.consumer.membership.consumer import ConsumerMembership
from pykbroker.core.consumer.membership.steps import CallListener, CommitOffsets, LeaveMode, LoadTopics, MemberStep
from pykbroker.core.consumer.subscription import ConsumerSubscription
from pykbroker.core.errors import ApiError
from wire.declare import Request
from wire.messages.leave_group import LeaveGroupRequest

UserStep = CallListener | CommitOffsets


class MemberTasks:
    """The tasks of a member.

    `failed` is called with an error for the user, and `changed` when the user's task may continue.
    """

    def __init__(
        self,
        membership: ClassicMembership | ConsumerMembership,
        subscription: ConsumerSubscription,
        link: CoordinatorLink,
        links: tuple[ClusterMetadata, ConsumerTopics],
        now_ms: Callable[[], float],
        failed: Callable[[Exception], None],
        changed: Callable[[], None],
    ) -> None:
        self._membership, self._subscription, self._link = membership, subscription, link
        self._metadata, self._topics = links
        self._now_ms, self._failed, self._changed = now_ms, failed, changed
        self._nursery: trio.Nursery | None = None
        self._woken = trio.Event()
        self._may_join = self.is_leaving = self._is_busy = False
        self._beats = 0
        """The heartbeats in flight."""

    # ---- the user's task

    def identity(self) -> CommitIdentity:
        """Return the identity for commits. The errors are those of the membership."""
        return self._membership.identity()

    def commit_failed(self, result: CommitResult) -> None:
        """Pass the error of a commit to a classic member.

        A member of the consumer protocol learns of it by its next heartbeat.
        """
        if isinstance(self._membership, ClassicMembership):
            self._membership.commit_failed(result)
        self._wake()

    def poll(self) -> None:
        """Note that the user polls. Raise an error that the user has to handle."""
        self._may_join = True
        self._membership.poll(self._now_ms())
        self._wake()

    def raise_failure(self) -> None:
        """Raise an error that the user has to handle, if a heartbeat has brought one since the last poll."""
        self._membership.failure.raise_once()

    @property
    def awaits_user(self) -> bool:
        """Whether a step waits for the user's task."""
        return isinstance(self._membership.steps.pending, UserStep)

    @property
    def step_at(self) -> float:
        """Return the time of trio's clock at which `user_step` has to be called again, or infinity."""
        if isinstance(self._membership, ConsumerMembership):
            return inf
        return trio.current_time() + wait_s(self._membership.step_at_ms, self._now_ms())

    def user_step(self) -> UserStep | None:
        """Return the step that the user's task has to carry out and `answer`, or None."""
        step = self._guarded(self._next_step)
        self._wake()
        if step is None or isinstance(step, UserStep):
            return step
        if not self._is_busy:
            self._is_busy = True
            self._start(self._carry_out)
        return None

    def answer(self, step: MemberStep, value: Any) -> None:
        """Continue after a step, unless another one has replaced it meanwhile."""
        if self._membership.steps.pending is step:
            self._guarded(self._membership.answer, value, self._now_ms())
        self._wake()

    def leave(self, mode: LeaveMode, reason: str) -> None:
        """Begin to leave the group. `user_step` then has the calls of the listener, until `has_left`."""
        self._may_join, self.is_leaving = False, True
        self._membership.leave(mode, reason, self._now_ms())
        self._wake()

    @property
    def has_left(self) -> bool:
        """Whether all steps after `leave` are done, and no request is in flight."""
        return self._membership.has_left and not self._is_busy and not self._beats

    def left(self) -> None:
        """Let the next poll join again."""
        self.is_leaving = False

    def _next_step(self) -> MemberStep | None:
        # A classic member would join again at once after it has left.
        if self._may_join or isinstance(self._membership, ConsumerMembership):
            return self._membership.step(self._now_ms())
        return self._membership.steps.pending

    def _guarded(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of the membership. Report the error of a rebalance, which the next poll repeats."""
        try:
            return function(*args)
        except (ApiError, ConsumerError) as error:
            self._may_join = False
            self._failed(error)
            return None

    # ---- the background

    @trio.lowlevel.enable_ki_protection
    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Send heartbeats until cancelled."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            while True:
                self._woken = trio.Event()
                request = self._membership.heartbeat(self._now_ms())
                if request is not None:
                    self._beats += 1
                    self._start(self._beat, request)
                    self._changed()
                    continue
                seconds = wait_s(self._membership.heartbeat_at_ms, self._now_ms())
                with trio.move_on_after(seconds):
                    await self._woken.wait()

    def note_metadata(self) -> None:
        """Let the leader of a classic group compare the topics of the group with newer metadata."""
        if isinstance(self._membership, ClassicMembership):
            self._membership.note_metadata(self._topics.replica_racks(self._subscription.group_topics))
        self._wake()

    def _start(self, task: Callable[..., Any], *args: Any) -> None:
        assert self._nursery is not None, "the member's tasks are running"
        self._nursery.start_soon(task, *args)

    @trio.lowlevel.enable_ki_protection
    async def _beat(self, request: Request[Any]) -> None:
        response = await self._ask(request)
        self._beats -= 1
        self._membership.heartbeat_answered(request, response, self._now_ms())  # type: ignore[arg-type]
        self._wake()
        self._changed()

    @trio.lowlevel.enable_ki_protection
    async def _carry_out(self) -> None:
        """Carry out steps that need no user, until there is none."""
        while (step := self._membership.steps.pending) is not None and not isinstance(step, UserStep):
            if isinstance(step, LoadTopics):
                value: Any = await self._topics.load(step.topics)
            elif isinstance(step.request, LeaveGroupRequest) and not self._link.is_known:
                value = None  # the session times out
            else:
                value = await self._ask(step.request, step.timeout_ms)
            self.answer(step, value)
        self._is_busy = False
        self._changed()

    async def _ask(self, request: Request[Any], timeout_ms: float | None = None) -> Any:
        """Return the response of the coordinator, or None if there is none."""
        try:
            return await self._link.ask(request, None, timeout_ms)
        except (OSError, Disconnected):
            return None
        except ApiError as error:
            self._may_join = False
            self._failed(error)
            return None

    def _wake(self) -> None:
        """Do what the membership now asks for. Call this after each event."""
        membership = self._membership
        if membership.needs_coordinator:
            membership.needs_coordinator = False
            self._link.forget()
        if isinstance(membership, ConsumerMembership):
            if membership.needs_metadata:
                membership.needs_metadata = False
                self._metadata.use_ids(membership.assigned_topic_ids)
            if self.is_leaving and not self._link.is_known:
                membership.leave_skipped()
        self._woken.set()
