"""The consumer for trio."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from inspect import isawaitable
from math import inf
from types import TracebackType
from typing import Any, Self, TypeVar

import trio

from pykbroker.client.errors import AuthenticationError
from pykbroker.client.nursery import leave_nursery
from pykbroker.consumer.deserializing import Deserializers
from pykbroker.consumer.listener import answering, call_listener
from pykbroker.consumer.poller import COLUMNS_ENOUGH, ConsumerPoller, checked_limit
from pykbroker.consumer.settings import CONSUMER_PROTOCOL, consumer_settings
from pykbroker.consumer.shell import ConsumerShell
from pykbroker.core.consumer.commits import CommitIdentity
from pykbroker.core.consumer.errors import ConsumerError, ConsumerTimeout
from pykbroker.core.consumer.membership.steps import CallListener, LeaveMode
from pykbroker.core.consumer.offset_reset import EARLIEST, LATEST
from pykbroker.core.consumer.offsets import TimedOffset
from pykbroker.core.consumer.position import CommittedOffset, offsets_to_commit
from pykbroker.core.consumer.records import ConsumerRecord, FetchedColumns
from pykbroker.core.consumer.unread import Taken
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.world.client_world import ClientWorld
from pykbroker.world.system import system_client_world
from wire.error_codes import ErrorCode
from wire.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, NO_LEADER_EPOCH

T = TypeVar("T")
CLOSE_S_MAX = 30.0
"""The longest time that closing takes by default, as in Kafka."""
CANCELLED_CLOSE_S_MAX = 1.0
"""The longest time to leave a group after the block of the consumer was cancelled."""
log = logging.getLogger("pykbroker.consumer")


class Consumer:
    """A consumer for trio, which fetches while its `async with` block runs.

    `topics` are subscribed to at once. The settings have Kafka's names with underscores, such as `bootstrap_servers`,
    `group_id` or `auto_offset_reset`. InvalidSetting is raised for a setting that is unknown or not allowed. Without a
    `group_id`, a subscription has all partitions of its topics.

    At the end of the block, the positions are committed if `enable_auto_commit` is true, and the consumer leaves its
    group. After an error in the block nothing is committed, since the last records may not be processed.

    Ctrl-C interrupts a call while it waits or runs code of the user, or is raised behind it: no call is left half done.
    """

    def __init__(self, *topics: str, world: ClientWorld | None = None, **settings: Any) -> None:
        self._take(ConsumerShell(consumer_settings(settings), world or system_client_world()))
        if topics:
            self.subscribe(topics)

    @classmethod
    def over(cls, shell: ConsumerShell) -> Consumer:
        """Return a consumer over a shell that its caller runs, for the faces whose trio loop is in another thread."""
        consumer = cls.__new__(cls)
        consumer._take(shell)
        return consumer

    def _take(self, shell: ConsumerShell) -> None:
        self._shell, self._settings, self._unread = shell, shell.settings, shell.unread
        self.poller = ConsumerPoller(shell)
        self.listener: Any = None
        self._deserializers = Deserializers(self._settings.key_deserializer, self._settings.value_deserializer)
        self._nursery_manager: AbstractAsyncContextManager[trio.Nursery] | None = None
        self._background = trio.CancelScope(shield=True)

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
    def subscribe(self, topics: Iterable[str], listener: Any = None) -> None:
        """Subscribe to topics in place of all earlier ones. The group assigns partitions during the next polls.

        `listener` is a RebalanceListener. Raise SubscriptionConflict after `assign` or a pattern, until `unsubscribe`.
        """
        if isinstance(topics, str):
            raise TypeError(f"topics must be a list of names, not the text {topics!r}")
        shell = self._shell
        shell.check_open()
        shell.subscription.subscribe(topics)
        self._subscribed(listener)

    def subscribe_pattern(self, pattern: str | re.Pattern[str], listener: Any = None) -> None:
        """Subscribe to all topics whose whole name matches a regular expression, also those that are created later."""
        fullmatch = re.compile(pattern).fullmatch
        self.subscribe_matching(lambda name: fullmatch(name) is not None, listener)

    @trio.lowlevel.enable_ki_protection
    def subscribe_matching(self, matches: Callable[[str], bool], listener: Any = None) -> None:
        """Subscribe to all topics for whose name a function returns true."""
        self._shell.check_open()
        self._shell.topics.subscribe_pattern(matches)
        self._subscribed(listener)

    @trio.lowlevel.enable_ki_protection
    def subscribe_server_pattern(self, pattern: str, listener: Any = None) -> None:
        """Subscribe with a regular expression of RE2/J, which the coordinator evaluates (KIP-848)."""
        self._shell.check_open()
        if self._settings.group_protocol != CONSUMER_PROTOCOL or self._settings.group_id is None:
            text = "a pattern for the coordinator needs group_protocol='consumer'"
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, text)
        self._shell.subscription.subscribe_server_pattern(pattern)
        self._subscribed(listener)

    def _subscribed(self, listener: Any) -> None:
        self.listener = listener
        self._shell.topics.follow()
        self._shell.metadata_changed()

    @trio.lowlevel.enable_ki_protection
    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read exactly these partitions, without the group's assignment. Raise SubscriptionConflict if subscribed."""
        shell = self._shell
        shell.check_open()
        shell.subscription.assign(partitions)
        shell.topics.follow()
        shell.advance()

    @property
    def subscription(self) -> frozenset[str]:
        """Return the names of the subscribed topics, or of those that a client-side pattern matches."""
        return self._shell.subscription.topics

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that the group, or the user, has assigned."""
        return frozenset(self._shell.subscription.partitions)

    @trio.lowlevel.enable_ki_protection
    async def unsubscribe(self) -> None:
        """Leave the group, and read nothing."""
        while (step := await self.poller.unsubscribe()) is not None:
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
        while (step := await self.poller.poll(deadline, records_max, cuts_batch=cuts_batch)) is not None:
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
        with answering(self.poller.listener_called, step, trio.Cancelled):
            result = call_listener(self.listener, step)
            if isawaitable(result):
                await result

    # ---- positions

    @trio.lowlevel.enable_ki_protection
    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = NO_LEADER_EPOCH) -> None:
        """Continue at an offset. With the leader epoch of the record before it, a truncated log is noticed (KIP-320).

        Raise SubscriptionConflict for a partition that is not assigned.
        """
        if offset < 0:
            raise ValueError(f"{partition}: the offset {offset} is negative")
        self._shell.seek(partition, offset, leader_epoch)

    @trio.lowlevel.enable_ki_protection
    def seek_to_beginning(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Continue at the start of the log, which is looked up later. By default, all assigned partitions move."""
        self._shell.reset(partitions or self._shell.subscription.partitions, EARLIEST)

    @trio.lowlevel.enable_ki_protection
    def seek_to_end(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Continue at the end of the log, which is looked up later. By default, all assigned partitions move."""
        self._shell.reset(partitions or self._shell.subscription.partitions, LATEST)

    @trio.lowlevel.enable_ki_protection
    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record. Raise ConsumerTimeout if it is unknown for `default_api_timeout_ms`."""
        unread = self._shell.unread.first(partition)
        return (await self._limited(self._shell.known_position, partition)).offset if unread is None else unread

    @trio.lowlevel.enable_ki_protection
    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no records of these partitions until `resume`."""
        self._shell.pause(partitions, is_paused=True)

    @trio.lowlevel.enable_ki_protection
    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return records of these partitions again."""
        self._shell.pause(partitions, is_paused=False)

    # ---- the group

    @trio.lowlevel.enable_ki_protection
    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset | int] | None = None) -> None:
        """Commit offsets, by default the positions behind the records that were returned.

        Raise CommitFailed if the group has removed this consumer, ApiError, or ConsumerTimeout after
        `default_api_timeout_ms`.
        """
        await self._limited(self._commit, None if offsets is None else offsets_to_commit(offsets))

    async def _commit(self, offsets: Mapping[TopicPartition, CommittedOffset] | None = None) -> None:
        found = self._shell.consumed() if offsets is None else offsets
        await self._shell.offset_commits().commit(found)

    async def commit_last(self) -> None:
        """Commit before the end, if `enable_auto_commit` is true. Log a failure."""
        if self._settings.commits:
            try:
                await self._commit()
            except (AuthenticationError, ConsumerError, ApiError) as error:
                log.warning("group %s: the last commit failed: %s", self._settings.group_id, error)

    @trio.lowlevel.enable_ki_protection
    async def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, CommittedOffset | None]:
        """Return the committed offset of the group in each partition, or None if the group has not committed there."""
        return await self._limited(self._shell.offset_commits().committed, partitions)

    def group_member(self) -> CommitIdentity:
        """Return this consumer for `Producer.send_offsets_to_transaction`, which fences earlier members (KIP-447)."""
        return self._shell.identity()

    # ---- look-ups: each raises ConsumerTimeout after `default_api_timeout_ms`

    async def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offsets of logs."""
        return await self._ends(partitions, EARLIEST_TIMESTAMP)

    async def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offsets of the next records: high watermarks, or for read_committed last stable offsets."""
        return await self._ends(partitions, LATEST_TIMESTAMP)

    async def _ends(self, partitions: Collection[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        found = await self.offsets_for_times(dict.fromkeys(partitions, timestamp))
        return {partition: 0 if each is None else each.offset for partition, each in found.items()}

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, TimedOffset | None]:
        """Return the first offsets whose records have at least these timestamps, in ms since 1970.

        None stands for a timestamp after the last record.
        """
        return await self._limited(self._shell.lookups.offsets, timestamps)

    async def partitions_for(self, topic: str) -> list[int]:
        """Return the partitions of a topic, none if it does not exist."""
        creates = self._settings.allow_auto_create_topics
        found = await self._limited(lambda: self._shell.lookups.topics([topic], creates=creates))
        return sorted(each.partition_index for topic_ in found for each in topic_.partitions)

    async def topics(self) -> set[str]:
        """Return the names of all topics, without the internal ones."""
        found = await self._limited(self._shell.lookups.topics, None)
        return {each.name for each in found if each.name and not each.is_internal}

    async def _limited(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Return the result of a call, or raise ConsumerTimeout after `default_api_timeout_ms`.

        Raise ConsumerClosed after the end, and RuntimeError in a forked process.
        """
        self._shell.check_open()
        limit_ms = self._settings.default_api_timeout_ms
        with trio.move_on_after(limit_ms / 1000):
            return await function(*args)
        raise ConsumerTimeout(f"no answer within default_api_timeout_ms={limit_ms}: {self._shell.advice}")

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
                while (step := await self.poller.leave(leave, "the consumer is being closed")) is not None:
                    await self._call_listener(step)
        finally:
            shell.close_links()
