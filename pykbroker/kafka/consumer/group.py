"""KafkaConsumer, with kafka-python's arguments, methods and errors."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from inspect import iscoroutine
from itertools import chain
from math import inf
from types import TracebackType
from typing import Any, Self

from pykbroker.consumer.hosted import HostedConsumer
from pykbroker.consumer.listener import answering, call_listener
from pykbroker.consumer.poller import COLUMNS_ENOUGH, checked_limit
from pykbroker.consumer.settings import consumer_settings
from pykbroker.core.consumer.errors import ConsumerError
from pykbroker.core.consumer.membership.steps import CallListener, LeaveMode
from pykbroker.core.consumer.partition_state import AssignedPartition
from pykbroker.core.consumer.records import FetchedColumns, by_partition
from pykbroker.core.consumer.subscription import paused
from pykbroker.core.consumer.unread import Taken
from pykbroker.core.errors import ApiError
from pykbroker.core.names import check_topic_name
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.kafka.consumer.subscription_state import check_listener
from pykbroker.kafka.errors import IllegalStateError, KafkaTimeoutError, kafka_errors
from pykbroker.kafka.future import CommitFuture
from pykbroker.kafka.metrics import Metrics, grouped
from pykbroker.kafka.offsets import checked, committed_offsets
from pykbroker.kafka.records import RecordReader
from pykbroker.kafka.settings import CONSUMER_CONFIG, configuration_errors, consumer_configs, consumer_settings_of
from pykbroker.kafka.structs import ConsumerGroupMetadata, KafkaRecord, OffsetAndMetadata, OffsetAndTimestamp

_CONFLICT = (
    "You must choose only one way to configure your consumer: (1) subscribe to specific topics by name, (2) subscribe "
    "to topics matching a regex pattern, (3) assign itself specific topic-partitions."
)
client_numbers = itertools.count(1)


class KafkaConsumer:
    """A consumer for one thread at a time, as kafka-python's.

    A background thread fetches and sends heartbeats, on trio. The rebalance listener and callbacks of commits run in
    the caller's thread. KafkaConfigurationError is raised for an argument that is unknown or not allowed, and
    KafkaTimeoutError if no broker answers within `bootstrap_timeout_ms`.

    Errors are those of kafka-python. Calls for commits raise IllegalStateError without a `group_id`. `timeout_ms`
    limits one call. Without it, a call waits up to 60 s, and then raises KafkaTimeoutError.
    """

    DEFAULT_CONFIG: Mapping[str, Any] = CONSUMER_CONFIG

    def __init__(self, *topics: str, **configs: Any) -> None:
        config = consumer_configs(configs)
        if config["client_id"] is None:
            config["client_id"] = f"pykbroker-consumer-{next(client_numbers)}"
        reader = RecordReader(config["key_deserializer"], config["value_deserializer"])
        checked_topics(topics)
        with configuration_errors():
            hosted = HostedConsumer(consumer_settings(consumer_settings_of(config)))
        self.config, self._hosted = config, hosted
        self._committed: deque[tuple[Callable[..., Any], Any, Any]] = deque()
        """The callbacks of commits that are done, which the next call of the user runs."""
        self._unread, self._is_closed, self._reader = hosted.unread, False, reader
        self._finalizer = weakref.finalize(self, stop_forgotten, hosted)
        try:
            self.bootstrap(config["bootstrap_timeout_ms"])
        except BaseException:
            self._finalizer()
            raise
        if topics:
            self.subscribe(topics)

    def __str__(self) -> str:
        return f"<KafkaConsumer client_id={self.config['client_id']} group_id={self.config['group_id']}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(autocommit=kind is None)

    def bootstrap_connected(self) -> bool:
        """Whether a broker has described the cluster."""
        return not (self._is_closed or self._hosted.shell.metadata.cluster.is_bootstrap)

    def bootstrap(self, timeout_ms: float | None = None, refresh: bool = False) -> None:
        """Wait until a broker has described the cluster, with `refresh` once more. Raise KafkaTimeoutError."""
        metadata = self._hosted.shell.metadata
        if refresh or not self.bootstrap_connected():
            self._ask(lambda: metadata.wait_newer(metadata.request_update()), timeout_ms=timeout_ms)

    # ---- the subscription

    def subscribe(
        self, topics: Iterable[str] = (), pattern: str | re.Pattern[str] | None = None, listener: Any = None
    ) -> None:
        """Subscribe to topics, or to those whose name matches from its start, in place of all earlier ones.

        The group assigns partitions during the next polls. Without a `group_id`, the consumer has all partitions.
        `listener` has `on_partitions_assigned` or `on_partitions_revoked`, which get sets. Raise ValueError or
        TypeError for a name that no topic may have, and IllegalStateError after `assign`.
        """
        if not topics and not pattern:
            raise ValueError("Must provide topics or pattern")
        if topics and pattern:
            raise IllegalStateError(_CONFLICT)
        check_listener(listener)
        names = checked_topics(topics)
        if pattern is not None:
            match = re.compile(pattern).match
            self._ask(self._hosted.consumer.subscribe_matching, lambda name: match(name) is not None, listener)
        else:
            self._ask(self._hosted.consumer.subscribe, names, listener)

    def subscription(self) -> set[str] | None:
        """Return the subscribed topics, None without a subscription."""
        subscription = self._hosted.shell.subscription
        return set(subscription.topics) if subscription.is_from_group else None

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions. Raise IllegalStateError if the consumer is subscribed."""
        wanted = checked(partitions)
        if not wanted:
            self.unsubscribe()
            return
        self._ask(self._hosted.consumer.commit_last)
        self._ask(self._hosted.consumer.assign, wanted)

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that the group, or the user, has assigned."""
        return set(self._hosted.shell.subscription.partitions)

    def unsubscribe(self) -> None:
        """Commit, leave the group, and read nothing."""
        self._ask(self._hosted.consumer.commit_last)
        while (step := self._ask(self._hosted.consumer.poller.unsubscribe)) is not None:
            self._call_listener(step)

    # ---- records

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> dict[TopicPartition, list[KafkaRecord]]:
        """Return the next records of each partition, at most `max_records`, or an empty dict after `timeout_ms`."""
        if timeout_ms < 0:
            raise ValueError("Timeout must not be negative")
        limit = checked_limit("max_records", max_records, self.config["max_poll_records"])
        if self._is_closed:
            raise IllegalStateError("KafkaConsumer is closed")
        self._call_back()
        unread = self._unread
        records, left = unread.choose(limit)  # those that an iteration has left
        if records:
            found: dict[TopicPartition, list[KafkaRecord]] = by_partition(records)
            unread.iteration = left  # no call is between this line and the end, so that nothing is lost by an interrupt
            return found
        found, taken = self._reader.by_partition(self._poll(timeout_ms / 1000, limit, cuts_batch=True))
        unread.parts = taken.left
        return found

    def poll_columns(self, timeout_ms: float = 0, max_records: int | None = None) -> list[FetchedColumns]:
        """Return the next records as columns, one item for each batch. kafka-python lacks this method.

        Without `max_records`, all batches are whole: more are returned until there are 10,000 records.
        """
        limit = checked_limit("max_records", max_records, COLUMNS_ENOUGH)
        self._call_back()
        with kafka_errors():
            self._hosted.rewind()
        taken = self._poll(timeout_ms / 1000, limit, cuts_batch=max_records is not None)
        found = taken.columns
        self._unread.parts = taken.left
        return found

    def _poll(self, timeout_s: float, records_max: int, *, cuts_batch: bool) -> Taken:
        deadline = time.monotonic() + timeout_s
        while True:
            left = max(0.0, deadline - time.monotonic())
            step = self._ask(self._hosted.poll, left, records_max, cuts_batch)
            if step is not None:
                self._call_listener(step)
                continue
            found = self._unread.take(records_max, cuts_batch=cuts_batch)
            if found.parts or left <= 0:
                return found

    def __iter__(self) -> Iterator[KafkaRecord]:
        return self

    def __next__(self) -> KafkaRecord:
        """Return the next record. Raise StopIteration after `consumer_timeout_ms` without one."""
        record: KafkaRecord
        while True:
            for record in self._unread.records:
                return record
            self._refill()

    def _refill(self) -> None:
        """Poll if the iteration has no records that may be returned. Raise StopIteration if there are none then."""
        if self._is_closed:
            raise StopIteration("KafkaConsumer closed")
        unread = self._unread
        if unread.restore():
            return
        self._call_back()
        timeout_ms = self.config["consumer_timeout_ms"]
        taken = self._poll(
            inf if timeout_ms < 0 else timeout_ms / 1000, self.config["max_poll_records"], cuts_batch=True
        )
        found, taken = self._reader.by_partition(taken)
        if not unread.iterate(taken, chain.from_iterable(found.values())):
            raise StopIteration

    def _call_listener(self, step: CallListener) -> None:
        consumer = self._hosted.consumer
        with answering(partial(self._ask, consumer.poller.listener_called), step):
            result = call_listener(consumer.listener, step)
            if iscoroutine(result):  # of an AsyncConsumerRebalanceListener
                asyncio.run(result)

    # ---- positions

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int | None:
        """Return the offset of the next record, or None if it is unknown after `timeout_ms`."""
        self._check_assigned(partition)
        try:
            found: int = self._ask(self._hosted.consumer.position, TopicPartition(*partition), timeout_ms=timeout_ms)
        except KafkaTimeoutError:
            return None
        return found

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of the last fetch, or None before it."""
        return self._check_assigned(partition).high_watermark

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until `resume`. Raise KeyError for one that is not assigned."""
        self._ask(self._hosted.consumer.pause, self._check_known(checked(partitions)))

    def paused(self) -> set[TopicPartition]:
        """Return the assigned partitions that are paused."""
        return paused(self._hosted.shell.subscription)

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again. Raise KeyError for one that is not assigned."""
        self._ask(self._hosted.consumer.resume, self._check_known(checked(partitions)))

    def seek(self, partition: TopicPartition, offset: Any) -> None:
        """Continue at an offset. Raise ValueError if it is negative, or if the partition is not assigned."""
        [moved] = checked([partition])
        if not isinstance(offset, int) or offset < 0:
            raise ValueError("Offset must be int >= 0")
        self._check_owned([moved])
        self._ask(self._hosted.consumer.seek, moved, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the start of the log. By default, all assigned partitions move."""
        self._ask(self._hosted.consumer.seek_to_beginning, self._check_owned(checked(partitions)))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue at the end of the log. By default, all assigned partitions move."""
        self._ask(self._hosted.consumer.seek_to_end, self._check_owned(checked(partitions)))

    # ---- commits

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, timeout_ms: float | None = None
    ) -> None:
        """Commit offsets, by default those behind the records that were returned."""
        self._check_group()
        self._call_back()
        self._ask(
            self._hosted.consumer.commit, None if offsets is None else committed_offsets(offsets), timeout_ms=timeout_ms
        )

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        callback: Callable[[Any, Any], Any] | None = None,
    ) -> CommitFuture:
        """Commit offsets in the background.

        `callback` gets the offsets, and None or an error, in a later `poll`, `commit` or `close` of this consumer.
        """
        self._check_group()
        self._call_back()
        found: Any = offsets
        if found is None:
            consumed = self._ask(self._hosted.shell.consumed)
            found = {key: OffsetAndMetadata(each.offset, each.metadata, each.epoch) for key, each in consumed.items()}
        function = callback or self.config["default_offset_commit_callback"]
        future = CommitFuture().add_both(lambda result: self._committed.append((function, found, result)))
        self._hosted.submit(self._hosted.consumer.commit, committed_offsets(found), done=future.settle)
        return future

    def _call_back(self) -> None:
        while self._committed:
            function, offsets, result = self._committed.popleft()
            function(offsets, result)

    def committed(
        self, partition: TopicPartition, metadata: bool = False, timeout_ms: float | None = None
    ) -> int | OffsetAndMetadata | None:
        """Return the committed offset of the group, or with `metadata` OffsetAndMetadata. None stands for no offset."""
        self._check_group()
        [key] = checked([partition])
        found = self._ask(self._hosted.consumer.committed, [key], timeout_ms=timeout_ms)[key]
        if found is None:
            return None
        return OffsetAndMetadata(found.offset, found.metadata, found.epoch) if metadata else int(found.offset)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return this member for `send_offsets_to_transaction`, which fences earlier members (KIP-447)."""
        group = self.config["group_id"]
        try:
            found = self._hosted.shell.identity() if group is not None else None
        except (ConsumerError, ApiError):
            found = None
        if found is None:
            return ConsumerGroupMetadata(group)
        state = "<stable>" if found.member_id else "<unjoined>"
        return ConsumerGroupMetadata(found.group_id, found.epoch, found.member_id, found.instance_id, state)

    # ---- look-ups

    def topics(self) -> set[str]:
        """Return the names of all topics of the cluster."""
        found: set[str] = self._ask(self._hosted.consumer.topics)
        return found

    def partitions_for_topic(self, topic: str) -> set[int]:
        """Return the partitions of a topic, none if it does not exist, as for anything that is no name."""
        if not isinstance(topic, str):
            return set()
        return set(self._ask(self._hosted.consumer.partitions_for, topic))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first offsets whose records have at least these timestamps, in ms since 1970."""
        wanted = {TopicPartition(*partition): int(each) for partition, each in timestamps.items()}
        for partition, timestamp in wanted.items():
            if timestamp < 0:
                raise ValueError(
                    f"The target time for partition {partition} is {timestamp}. The target time cannot be negative."
                )
        found = self._ask(self._hosted.consumer.offsets_for_times, wanted, timeout_ms=timeout_ms)
        return {
            partition: None if each is None else OffsetAndTimestamp(each.offset, each.timestamp, each.epoch)
            for partition, each in found.items()
        }

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offsets of logs."""
        found: dict[TopicPartition, int] = self._ask(
            self._hosted.consumer.beginning_offsets, checked(partitions), timeout_ms=timeout_ms
        )
        return found

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offsets of the next records. With read_committed, these are the last stable offsets."""
        found: dict[TopicPartition, int] = self._ask(
            self._hosted.consumer.end_offsets, checked(partitions), timeout_ms=timeout_ms
        )
        return found

    # ---- internals

    def _ask(self, function: Callable[..., Any], *args: Any, timeout_ms: float | None = None) -> Any:
        """Call a function of the consumer in its thread, and return its result."""
        timeout_s = inf if timeout_ms is None else timeout_ms / 1000
        with kafka_errors():
            return self._hosted.ask(partial(function, *args), timeout_s=timeout_s)

    def _check_group(self) -> None:
        if self.config["group_id"] is None:
            raise IllegalStateError("Requires group_id")

    def _check_assigned(self, partition: TopicPartition) -> AssignedPartition:
        """Return the state of a partition. Raise IllegalStateError if it is not assigned."""
        [key] = checked([partition])
        state = self._hosted.shell.subscription.get(key)
        if state is None:
            raise IllegalStateError("Partition is not assigned")
        return state

    def _check_known(self, partitions: Collection[TopicPartition]) -> Collection[TopicPartition]:
        assigned = self._hosted.shell.subscription.partitions
        for partition in partitions:
            if partition not in assigned:
                raise KeyError(partition)
        return partitions

    def _check_owned(self, partitions: Collection[TopicPartition]) -> Collection[TopicPartition]:
        """Raise ValueError for a partition that is not assigned, or if there is none."""
        assigned = self._hosted.shell.subscription.partitions
        if not partitions and not assigned:
            raise ValueError("No partitions are currently assigned")
        for partition in partitions:
            if partition not in assigned:
                raise ValueError(f"Unassigned partition: {partition}")
        return partitions

    # ---- the end

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Commit if `enable_auto_commit` is true, and leave the group, within `timeout_ms` or `request_timeout_ms`.

        If the call is interrupted, the consumer ends at once, without leaving. Another call does what was left undone.
        """
        if not self._finalizer.alive:
            return
        try:
            if not self._is_closed:
                self._is_closed = True
                self._leave_group(self.config["request_timeout_ms"] if timeout_ms is None else timeout_ms, autocommit)
        finally:
            stop_forgotten(self._hosted)
        self._call_back()
        for name in ("key_deserializer", "value_deserializer"):
            close = getattr(self.config[name], "close", None)
            if close is not None:
                close()
        self._finalizer.detach()

    def _leave_group(self, timeout_ms: float, autocommit: bool) -> None:
        """Commit and leave, within the time-out."""
        deadline = time.monotonic() + timeout_ms / 1000
        with suppress(KafkaTimeoutError):
            if autocommit:
                self._end(self._hosted.consumer.commit_last, deadline)
            while (step := self._end(self._leave, deadline)) is not None:
                self._call_listener(step)

    async def _leave(self) -> CallListener | None:
        return await self._hosted.consumer.poller.leave(LeaveMode.DEFAULT, "the consumer is being closed")

    def _end(self, function: Any, deadline: float) -> Any:
        with kafka_errors():
            return self._hosted.ask(function, timeout_s=max(0.0, deadline - time.monotonic()))

    def metrics(self, raw: bool = False) -> Metrics | None:
        """Return the assigned partitions and the largest known lag, in Kafka's groups and under Kafka's names.

        There are none after `close`, and the result is None if `metrics_enabled` is false.
        """
        if not self.config["metrics_enabled"] or self._is_closed:
            return {} if self.config["metrics_enabled"] else None
        subscription, prefix = self._hosted.shell.subscription, self.config["metric_group_prefix"]
        states = [subscription.get(each) for each in subscription.partitions]
        places = [(each.high_watermark, each.position) for each in states if each is not None]
        lags = [end - position.offset for end, position in places if end is not None and position is not None]
        own = {
            f"{prefix}-coordinator-metrics": {"assigned-partitions": len(states)},
            f"{prefix}-fetch-manager-metrics": {"records-lag-max": max(lags, default=0)},
        }
        return grouped(prefix, own, self._hosted.shell.nodes.in_flight_counts())


def stop_forgotten(hosted: HostedConsumer) -> None:
    """End the thread of a consumer. One that has crashed, or belongs to the parent of a fork, is left alone."""
    with suppress(RuntimeError):
        hosted.stop()


def checked_topics(topics: Iterable[str]) -> list[str]:
    """Return names of topics. Raise TypeError or ValueError, as kafka-python does, for one that no topic may have."""
    if isinstance(topics, str):
        raise TypeError(f"topics must be a list of names, not the text {topics!r}")
    names = list(topics)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"topics must be names: {name!r} is of type {type(name).__name__}")
        try:
            check_topic_name(name)
        except ApiError as error:
            raise ValueError(error.message) from error
    return names
