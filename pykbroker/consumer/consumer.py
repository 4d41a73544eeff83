"""The consumer for trio."""

from __future__ import annotations

import logging
from contextlib import AbstractAsyncContextManager
from inspect import isawaitable
from math import inf
from types import TracebackType
from typing import Any, Self

import trio

from pykbroker.client.nursery import leave_nursery
from pykbroker.consumer.calls import ConsumerCalls
from pykbroker.consumer.deserializing import Deserializers
from pykbroker.consumer.listener import call_listener
from pykbroker.consumer.poller import COLUMNS_ENOUGH, ConsumerPoller, checked_limit
from pykbroker.consumer.settings import consumer_settings
from pykbroker.consumer.shell import ConsumerShell
from pykbroker.core.consumer.membership.steps import CallListener, LeaveMode
from pykbroker.core.consumer.records import ConsumerRecord, FetchedColumns
from pykbroker.core.consumer.unread import Taken
from pykbroker.world.client_world import ClientWorld
from pykbroker.world.system import system_client_world

CLOSE_S_MAX = 30.0
"""The longest time that closing takes by default, as in Kafka."""
CANCELLED_CLOSE_S_MAX = 1.0
"""The longest time to leave a group after the block of the consumer was cancelled."""
log = logging.getLogger("pykbroker.consumer")


class Consumer(ConsumerCalls):
    """A consumer for trio, which fetches while its `async with` block runs.

    `topics` are subscribed to at once. The settings have Kafka's names with underscores, such as `bootstrap_servers`,
    `group_id` or `auto_offset_reset`. InvalidSetting is raised for a setting that is unknown or not allowed. Without a
    `group_id`, a subscription has all partitions of its topics.

    At the end of the block, the positions are committed if `enable_auto_commit` is true, and the consumer leaves its
    group. After an error in the block nothing is committed, since the last records may not be processed.

    Ctrl-C interrupts a call while it waits or runs code of the user, or is raised behind it: no call is left half done.
    """

    def __init__(self, *topics: str, world: ClientWorld | None = None, **settings: Any) -> None:
        super().__init__(ConsumerShell(consumer_settings(settings), world or system_client_world()))
        self._poller = ConsumerPoller(self._shell)
        self._unread = self._shell.unread
        self._deserializers = Deserializers(self._settings.key_deserializer, self._settings.value_deserializer)
        self._nursery_manager: AbstractAsyncContextManager[trio.Nursery] | None = None
        self._background = trio.CancelScope(shield=True)
        if topics:
            self.subscribe(topics)

    @trio.lowlevel.enable_ki_protection
    async def __aenter__(self) -> Self:
        self._nursery_manager = trio.open_nursery()
        nursery = await self._nursery_manager.__aenter__()
        try:
            await nursery.start(self._run)
        except BaseException as error:
            await self._nursery_manager.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    @trio.lowlevel.enable_ki_protection
    async def _run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Run the shell until the block ends, also if it is cancelled, since the consumer then leaves its group."""
        with self._background:
            await self._shell.run(task_status=task_status)

    @trio.lowlevel.enable_ki_protection
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._nursery_manager is not None
        try:
            if trio.current_effective_deadline() == -inf:  # the block was cancelled
                with trio.CancelScope(shield=True):
                    await self._close(CANCELLED_CLOSE_S_MAX, commits=False)
            else:
                await self._close(CLOSE_S_MAX, commits=error is None)
        finally:
            self._background.cancel()
            await leave_nursery(self._nursery_manager, error)

    # ---- the subscription

    @trio.lowlevel.enable_ki_protection
    async def unsubscribe(self) -> None:
        """Leave the group, and read nothing."""
        while (step := await self._poller.unsubscribe()) is not None:
            await self._call_listener(step)

    # ---- records

    @trio.lowlevel.enable_ki_protection
    async def poll(self, timeout_s: float = inf, records_max: int | None = None) -> list[ConsumerRecord]:
        """Return the next records, at most `records_max` (by default `max_poll_records`), or none after the time-out.

        The list may be empty earlier, when a position has moved over records that are not for the user. Raise
        ConsumerError or ApiError for an error that the user has to handle; the next call continues. An error that the
        rebalance listener raises is raised here.
        """
        records_max = checked_limit("records_max", records_max, self._settings.max_poll_records)
        unread = self._unread
        found, left = unread.choose(records_max)
        if found:
            unread.iteration = left  # no call is between this line and the end, so that nothing is lost by an interrupt
            return found
        found, taken = await self._next(timeout_s, records_max)
        unread.parts = taken.left
        return found

    @trio.lowlevel.enable_ki_protection
    async def poll_columns(self, timeout_s: float = inf, records_max: int | None = None) -> list[FetchedColumns]:
        """Return the next records as columns, one item for each batch, as `poll` does.

        Without `records_max`, all batches are whole: more are returned until there are 10,000 records. Keys and values
        are bytes: no deserializer and no interceptor sees them.
        """
        limit = checked_limit("records_max", records_max, COLUMNS_ENOUGH)
        self._shell.rewind()
        taken = await self._poll(timeout_s, limit, cuts_batch=records_max is not None)
        found = taken.columns
        self._unread.parts = taken.left
        return found

    async def _next(self, timeout_s: float, records_max: int) -> tuple[list[ConsumerRecord], Taken]:
        """Return the next records for the user, and the parts that they are of."""
        taken = await self._poll(timeout_s, records_max, cuts_batch=True)
        records, taken = self._deserializers.records(taken)
        return self._shell.interceptors.on_consume(records), taken

    async def _poll(self, timeout_s: float, records_max: int, *, cuts_batch: bool) -> Taken:
        deadline = trio.current_time() + timeout_s
        while (step := await self._poller.poll(deadline, records_max, cuts_batch=cuts_batch)) is not None:
            await self._call_listener(step)
        return self._unread.take(records_max, cuts_batch=cuts_batch)

    def __aiter__(self) -> Self:
        return self

    @trio.lowlevel.enable_ki_protection
    async def __anext__(self) -> ConsumerRecord:
        """Return the next record, without an end. A record counts as processed once the next one is requested."""
        record: ConsumerRecord
        while True:
            for record in self._unread.records:
                return record
            await self._refill()

    async def _refill(self) -> None:
        """Poll if the iteration has no records that may be returned."""
        unread = self._unread
        if not unread.restore():
            records, taken = await self._next(inf, self._settings.max_poll_records)
            unread.iterate(taken, records)

    async def _call_listener(self, step: CallListener) -> None:
        """Call the listener. If an interrupt ends the call, the next poll repeats it, or the end of the membership."""
        try:
            result = call_listener(self.listener, step)
            if isawaitable(result):
                await result
        except (Exception, trio.Cancelled):
            self._poller.listener_called(step, is_done=False)
            raise
        self._poller.listener_called(step, is_done=True)

    # ---- the end

    @trio.lowlevel.enable_ki_protection
    async def aclose(self, timeout_s: float = CLOSE_S_MAX, leave: LeaveMode = LeaveMode.DEFAULT) -> None:
        """Commit the positions if `enable_auto_commit` is true, and leave the group, within `timeout_s`."""
        await self._close(timeout_s, commits=True, leave=leave)

    async def _close(self, timeout_s: float, *, commits: bool, leave: LeaveMode = LeaveMode.DEFAULT) -> None:
        shell = self._shell
        if shell.is_closed:
            return
        shell.process.check()
        try:
            with trio.move_on_after(timeout_s):
                if commits:
                    await self.commit_last()
                while (step := await self._poller.leave(leave, "the consumer is being closed")) is not None:
                    await self._call_listener(step)
        finally:
            shell.close_links()
