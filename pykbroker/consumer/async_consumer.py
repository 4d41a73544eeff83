"""The consumer for asyncio, with the names of aiokafka."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from inspect import isawaitable
from math import inf
from types import TracebackType
from typing import Any, Self

from pykbroker.client.aiokafka_arguments import without_aiokafka_defaults
from pykbroker.client.settings import INT32_MAX, InvalidSetting
from pykbroker.consumer.deserializing import Deserializers
from pykbroker.consumer.hosted import HostedConsumer
from pykbroker.consumer.listener import answering, call_listener
from pykbroker.consumer.poller import COLUMNS_ENOUGH, checked_limit
from pykbroker.consumer.settings import ASSIGNORS, consumer_settings
from pykbroker.core.consumer.commits import CommitIdentity
from pykbroker.core.consumer.errors import ConsumerClosed
from pykbroker.core.consumer.membership.steps import CallListener, LeaveMode
from pykbroker.core.consumer.offsets import TimedOffset
from pykbroker.core.consumer.position import CommittedOffset
from pykbroker.core.consumer.records import ConsumerRecord, FetchedColumns, by_partition
from pykbroker.core.consumer.subscription import paused
from pykbroker.core.consumer.unread import Taken
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.world.client_world import ClientWorld

CLOSE_S_MAX = 30.0
"""The longest time that `stop` takes by default, as in Kafka."""
client_numbers = itertools.count(1)


class AsyncConsumer:
    """A consumer for asyncio. The settings have Kafka's names, and aiokafka's arguments are accepted too.

    A background thread fetches and sends heartbeats, on trio. Use the consumer with `async with`, or call `start` first
    and `stop` at the end. A call may be cancelled, or limited by `asyncio.wait_for`: no record is lost then. Functions
    that are not async change what the next poll does. ConsumerTimeout is raised after `default_api_timeout_ms`.
    """

    def __init__(self, *topics: str, world: ClientWorld | None = None, **settings: Any) -> None:
        named = consumer_arguments(settings)
        named.setdefault("client_id", f"pykbroker-consumer-{next(client_numbers)}")
        self._settings, self._world, self._topics = consumer_settings(named), world, topics
        self._started: HostedConsumer | None = None
        self._deserializers = Deserializers(self._settings.key_deserializer, self._settings.value_deserializer)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop(commits=kind is None)

    async def start(self) -> None:
        """Start the background thread, and subscribe to the topics of the constructor. A second call does nothing."""
        if self._started is None:
            self._started = HostedConsumer(self._settings, self._world)
            if self._topics:
                self.subscribe(self._topics)

    async def stop(self, *, commits: bool = True, timeout_s: float = CLOSE_S_MAX) -> None:
        """Commit if `enable_auto_commit` is true, and leave the group, within `timeout_s`.

        After an error in the block, nothing is committed. A cancelled call ends at once, without leaving.
        """
        hosted = self._hosted
        if hosted.shell.is_closed:
            return
        try:
            async with asyncio.timeout(timeout_s):
                if commits:
                    await self._call(hosted.consumer.commit_last)
                leave = partial(hosted.consumer.poller.leave, LeaveMode.DEFAULT, "the consumer is being closed")
                while (step := await self._call(leave)) is not None:
                    await self._call_listener(step)
        except (TimeoutError, ConsumerClosed):  # closed by a call that was interrupted while it ended the thread
            return
        finally:
            await asyncio.shield(asyncio.to_thread(hosted.stop))

    @property
    def _hosted(self) -> HostedConsumer:
        if self._started is None:
            raise RuntimeError("the consumer is not started: use `async with`, or await start() first")
        return self._started

    async def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of the consumer in its thread, and return its result."""
        return await self._hosted.call_async(function, *args)

    # ---- the subscription

    def subscribe(
        self, topics: Iterable[str] = (), pattern: str | re.Pattern[str] | None = None, listener: Any = None
    ) -> None:
        """Subscribe to topics, or to those whose whole name matches, in place of all earlier ones.

        The methods of `listener` may be async functions. They run while `getone` or `getmany` waits.
        """
        if bool(topics) is bool(pattern):
            raise TypeError("give either topics or a pattern")
        if pattern is not None:
            self._hosted.ask(self._hosted.consumer.subscribe_pattern, pattern, listener)
        else:
            self._hosted.ask(self._hosted.consumer.subscribe, topics, listener)

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read exactly these partitions, without the group's assignment."""
        self._hosted.ask(self._hosted.consumer.assign, partitions)

    async def unsubscribe(self) -> None:
        """Leave the group, and read nothing."""
        while (step := await self._call(self._hosted.consumer.poller.unsubscribe)) is not None:
            await self._call_listener(step)

    def subscription(self) -> frozenset[str]:
        """Return the names of the subscribed topics, or of those that a client-side pattern matches."""
        return self._hosted.shell.subscription.topics

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that the group, or the user, has assigned."""
        return frozenset(self._hosted.shell.subscription.partitions)

    # ---- records

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return the next records of each partition, at most `max_records`, or an empty dict after `timeout_ms`.

        If partitions are given, the records of others wait for later calls.

        Raise ConsumerError or ApiError for an error that the user has to handle; the next call continues.
        """
        limit = checked_limit("max_records", max_records, self._settings.max_poll_records)
        among = frozenset(TopicPartition(*each) for each in partitions)
        unread = self._hosted.unread
        records, left = unread.choose(limit, among)
        if records:
            found = by_partition(records)
            unread.iteration = left  # no call is between this line and the end, so that nothing is lost by an interrupt
            return found
        records, taken = await self._next(timeout_ms / 1000, limit, among)
        found = by_partition(records)
        unread.parts = taken.left
        return found

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord:
        """Return the next record, by default of any partition.

        A record counts as processed once the next one is requested.
        """
        if not partitions:
            return await self.__anext__()
        unread, among = self._hosted.unread, frozenset(TopicPartition(*each) for each in partitions)
        record: ConsumerRecord
        while not (found := unread.choose(1, among))[0]:
            await self._refill(among)
        [record], unread.iteration = found
        return record

    async def _refill(self, among: Collection[TopicPartition] = ()) -> None:
        """Poll if the iteration has no records that may be returned, or none of some partitions."""
        unread = self._hosted.unread
        if among or not unread.restore():
            records, taken = await self._next(inf, self._settings.max_poll_records, among)
            unread.iterate(taken, records)

    async def poll_columns(self, timeout_s: float = inf, records_max: int | None = None) -> list[FetchedColumns]:
        """Return the next records as columns, as `Consumer.poll_columns` does."""
        limit, hosted = checked_limit("records_max", records_max, COLUMNS_ENOUGH), self._hosted
        hosted.rewind()
        taken = await self._poll(timeout_s, limit, cuts_batch=records_max is not None)
        found = taken.columns
        hosted.unread.parts = taken.left
        return found

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        """Return the next record, without an end, as `getone` does."""
        record: ConsumerRecord
        while True:
            if self._started is not None:  # inline, because each record passes here
                for record in self._started.unread.records:
                    return record
            await self._refill()

    async def _next(
        self, timeout_s: float, records_max: int, among: Collection[TopicPartition] = ()
    ) -> tuple[list[ConsumerRecord], Taken]:
        """Return the next records for the user, and the parts that they are of."""
        taken = await self._poll(timeout_s, records_max, cuts_batch=True, among=among)
        records, taken = self._deserializers.records(taken)
        return self._hosted.shell.interceptors.on_consume(records), taken

    async def _poll(
        self, timeout_s: float, records_max: int, *, cuts_batch: bool, among: Collection[TopicPartition] = ()
    ) -> Taken:
        hosted, deadline = self._hosted, time.monotonic() + timeout_s
        while True:
            left = max(0.0, deadline - time.monotonic())
            step = await self._call(hosted.poll, left, records_max, cuts_batch, among)
            if step is not None:
                await self._call_listener(step)
                continue
            found = hosted.unread.take(records_max, cuts_batch=cuts_batch, among=among)
            if found.parts or left <= 0:
                return found

    async def _call_listener(self, step: CallListener) -> None:
        hosted = self._hosted
        with answering(partial(hosted.ask, hosted.consumer.poller.listener_called), step, asyncio.CancelledError):
            result = call_listener(hosted.consumer.listener, step)
            if isawaitable(result):
                await result

    # ---- positions

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at an offset. Raise SubscriptionConflict for a partition that is not assigned."""
        self._hosted.ask(self._hosted.consumer.seek, TopicPartition(*partition), offset)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the start of the log, which is looked up later. By default, all assigned partitions move."""
        await self._call(self._hosted.consumer.seek_to_beginning, partitions)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue at the end of the log, which is looked up later. By default, all assigned partitions move."""
        await self._call(self._hosted.consumer.seek_to_end, partitions)

    async def seek_to_committed(self, *partitions: TopicPartition) -> dict[TopicPartition, int | None]:
        """Continue at committed offsets, and return them. By default, all assigned partitions move."""
        moved = list(partitions) or self._hosted.shell.subscription.partitions
        found = await self._call(self._hosted.consumer.committed, moved)
        for partition, committed in found.items():
            if committed is not None:
                self.seek(partition, committed.offset)
        return {partition: None if each is None else each.offset for partition, each in found.items()}

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record."""
        found: int = await self._call(self._hosted.consumer.position, TopicPartition(*partition))
        return found

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """Return the last stable offset of the last fetch, or None before it."""
        return self._hosted.shell.subscription[TopicPartition(*partition)].last_stable_offset

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the partitions of a topic in the metadata of this consumer, or None if it has none of the topic."""
        found = self._hosted.shell.topics.cluster.topics.get(topic)
        return None if found is None else {each.index for each in found.partitions}

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of the last fetch, or None before it."""
        return self._hosted.shell.subscription[TopicPartition(*partition)].high_watermark

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until `resume`."""
        self._hosted.ask(self._hosted.consumer.pause, partitions)

    def paused(self) -> set[TopicPartition]:
        """Return the assigned partitions that are paused."""
        return paused(self._hosted.shell.subscription)

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        self._hosted.ask(self._hosted.consumer.resume, partitions)

    # ---- the group

    async def commit(self, offsets: Mapping[TopicPartition, Any] | None = None) -> None:
        """Commit offsets, by default those behind the records that were returned.

        A value is a CommittedOffset, a number, or a pair of an offset and a text. Errors are those of Consumer.commit.
        """
        given = None if offsets is None else {key: committed_offset(each) for key, each in offsets.items()}
        await self._call(self._hosted.consumer.commit, given)

    async def committed(self, partition: TopicPartition) -> int | None:
        """Return the committed offset of the group, or None if there is none."""
        [found] = (await self._call(self._hosted.consumer.committed, [TopicPartition(*partition)])).values()
        return None if found is None else int(found.offset)

    def group_member(self) -> CommitIdentity:
        """Return this consumer for `send_offsets_to_transaction`, which fences earlier members (KIP-447)."""
        return self._hosted.shell.identity()

    # ---- look-ups

    async def topics(self) -> set[str]:
        """Return the names of all topics, without the internal ones."""
        found: set[str] = await self._call(self._hosted.consumer.topics)
        return found

    async def partitions_for(self, topic: str) -> list[int]:
        """Return the partitions of a topic, none if it does not exist."""
        found: list[int] = await self._call(self._hosted.consumer.partitions_for, topic)
        return found

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, TimedOffset | None]:
        """Return the first offsets whose records have at least these timestamps, in ms since 1970."""
        found: dict[TopicPartition, TimedOffset | None] = await self._call(
            self._hosted.consumer.offsets_for_times, timestamps
        )
        return found

    async def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offsets of logs."""
        found: dict[TopicPartition, int] = await self._call(self._hosted.consumer.beginning_offsets, partitions)
        return found

    async def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offsets of the next records. With read_committed, these are the last stable offsets."""
        found: dict[TopicPartition, int] = await self._call(self._hosted.consumer.end_offsets, partitions)
        return found


def consumer_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return aiokafka's arguments as settings of Kafka. Raise InvalidSetting for one without a counterpart."""
    found = without_aiokafka_defaults(given)
    found.pop("consumer_timeout_ms", None)  # the pause of aiokafka's fetcher, which this one does not need
    if found.pop("rebalance_timeout_ms", None) is not None:
        raise InvalidSetting("rebalance_timeout_ms is not supported: a rebalance may take max_poll_interval_ms")
    if found.get("max_poll_records", 1) is None:
        found["max_poll_records"] = INT32_MAX
    if found.get("enable_auto_commit") and found.get("group_id") is None:
        del found["enable_auto_commit"]
    assignors = found.get("partition_assignment_strategy", "")
    if not isinstance(assignors, str):
        names = [getattr(each, "name", None) if isinstance(each, type) else each for each in assignors]
        found["partition_assignment_strategy"] = [
            name if name in ASSIGNORS else each for name, each in zip(names, assignors, strict=True)
        ]
    return found


def committed_offset(given: Any) -> Any:
    """Return an offset to commit, which may be a pair of a number and a text, as in aiokafka."""
    is_pair = isinstance(given, tuple) and not isinstance(given, CommittedOffset) and len(given) == 2
    return CommittedOffset(given[0], metadata=given[1]) if is_pair else given
