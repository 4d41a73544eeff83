"""The poller of a consumer: the calls of the user that return records, or a call of the listener that is due."""

from __future__ import annotations

from collections.abc import Collection

import trio

from pykbroker.consumer.shell import ConsumerShell
from pykbroker.core.consumer.membership.steps import CallListener, CommitOffsets, LeaveMode
from pykbroker.core.topic_partition import TopicPartition

COLUMNS_ENOUGH = 10_000
"""The records after which a poll for columns returns no further batch."""


def checked_limit(name: str, given: int | None, default: int) -> int:
    """Return the largest number of records of a poll. `name` is that of the argument. Raise TypeError or ValueError."""
    if given is None:
        return default
    if not isinstance(given, int):
        raise TypeError(f"{name}={given!r} must be an integer")
    if given < 1:
        raise ValueError(f"{name}={given} must be at least 1")
    return given


class ConsumerPoller:
    """The polls of one consumer, and the end of its membership.

    A face carries out each call of the listener that a method returns, and answers it by `listener_called`.
    """

    def __init__(self, shell: ConsumerShell) -> None:
        self._shell, self._is_committing = shell, False

    async def unsubscribe(self) -> CallListener | None:
        """Leave the group and read nothing. Return a call of the listener; call this again after its answer."""
        shell = self._shell
        step = await self.leave(LeaveMode.DEFAULT, "the consumer unsubscribed from all topics")
        if step is None:
            shell.subscription.unsubscribe()
            shell.topics.follow()
        return step

    async def leave(self, mode: LeaveMode, reason: str) -> CallListener | None:
        """Leave the group, if the consumer is in one. Return a call of the listener as `unsubscribe` does."""
        shell = self._shell
        member = shell.member
        if member is None or not shell.subscription.is_from_group:
            return None
        if not member.is_leaving:
            member.leave(mode, reason)
        while True:
            step = member.user_step()
            if isinstance(step, CallListener):
                return step
            if step is not None:  # a reconciliation that was cut short
                member.answer(step, None)
            elif member.has_left:
                member.left()
                return None
            else:
                await shell.waiting.park()

    def listener_called(self, step: CallListener, is_done: bool) -> None:
        """Answer a call of the listener, with whether it returned without an error."""
        assert self._shell.member is not None, "only a member has a listener"
        self._shell.member.answer(step, is_done)
        self._shell.changed()

    async def poll(
        self, deadline: float, records_max: int, *, cuts_batch: bool = True, among: Collection[TopicPartition] = ()
    ) -> CallListener | None:
        """Wait until there are unread records, of all partitions or `among` some, or until a deadline of trio's clock.

        If `cuts_batch` is false, the last batch becomes unread as a whole, with more records than `records_max`.
        Return a call of the listener first, which the caller has to answer. As in Kafka, a poll ends early if a
        position has moved over records that are not for the user.

        Raise ConsumerError, or ApiError, for an error that the user has to handle. The next call continues.
        """
        # A poll that finds records at once must still let other tasks run, and notice a cancellation.
        await trio.lowlevel.checkpoint()
        shell = self._shell
        shell.check_open()
        self._begin_poll()
        while True:
            shell.raise_failure()
            if shell.member is not None:
                shell.member.raise_failure()
            step = self._user_step()
            if step is not None:
                return step
            # Records that are returned now would be missing in the commit, and another member would read them again.
            if not self._is_committing:
                if shell.unread.has_parts(among):
                    return None
                has_progress = shell.fetches.buffer.collect(
                    records_max, shell.now_ms(), cuts_batch=cuts_batch, among=among
                )
                shell.advance()  # a response that is used up makes room for the next one, also if it has no records
                if has_progress:
                    return None
            if trio.current_time() >= deadline:
                return None
            wakes_at = deadline if shell.member is None else min(deadline, shell.member.step_at)
            with trio.move_on_at(wakes_at):
                await shell.wait_for_news()
            shell.check_open()

    def _begin_poll(self) -> None:
        """Note that the user has processed the records of the last poll."""
        shell = self._shell
        if shell.member is not None and shell.subscription.is_from_group:
            shell.member.poll()
        commits = shell.commits
        if commits is not None and commits.is_due(shell.now_ms()):
            # As in Kafka, a poll does not wait for the automatic commit, whose errors are only logged.
            shell.start(commits.commit_automatically, shell.consumed(), shell.now_ms)

    def _user_step(self) -> CallListener | None:
        """Return the call of the listener that is due, and start the commit that is due."""
        step = None if self._shell.member is None else self._shell.member.user_step()
        if isinstance(step, CommitOffsets):
            if not self._is_committing:
                self._is_committing = True
                self._shell.start(self._commit_before_rebalance, step)
            return None
        return step

    @trio.lowlevel.enable_ki_protection
    async def _commit_before_rebalance(self, step: CommitOffsets) -> None:
        shell = self._shell
        assert shell.commits is not None, "only a group has commits"
        assert shell.member is not None, "only a group has members"
        try:
            await shell.commits.commit_before_rebalance(shell.consumed())
        finally:
            self._is_committing = False
        shell.member.answer(step, None)
        shell.changed()
