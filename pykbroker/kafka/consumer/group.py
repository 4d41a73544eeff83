"""KafkaConsumer, with kafka-python's arguments, methods and errors."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from inspect import iscoroutine
from itertools import chain
from math import inf
from types import TracebackType
from typing import Any, Self

from pykbroker.consumer.hosted import HostedConsumer
from pykbroker.consumer.listener import call_listener
from pykbroker.consumer.poller import COLUMNS_ENOUGH, checked_limit
from pykbroker.consumer.settings import consumer_settings
from pykbroker.core.consumer.membership.steps import CallListener, LeaveMode
from pykbroker.core.consumer.records import FetchedColumns, by_partition
from pykbroker.core.consumer.unread import Taken
from pykbroker.core.errors import ApiError
from pykbroker.core.names import check_topic_name
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.kafka.consumer.subscription_state import check_listener
from pykbroker.kafka.errors import IllegalStateError, KafkaTimeoutError
from pykbroker.kafka.metrics import Metrics, grouped
from pykbroker.kafka.partition_calls import PartitionCalls, checked, kafka_errors
from pykbroker.kafka.records import RecordReader
from pykbroker.kafka.settings import CONSUMER_CONFIG, configuration_errors, consumer_configs, consumer_settings_of
from pykbroker.kafka.structs import KafkaRecord

_CONFLICT = (
    "You must choose only one way to configure your consumer: (1) subscribe to specific topics by name, (2) subscribe "
    "to topics matching a regex pattern, (3) assign itself specific topic-partitions."
)
client_numbers = itertools.count(1)


class KafkaConsumer(PartitionCalls):
    """A consumer for one thread at a time, as kafka-python's.

    A background thread fetches and sends heartbeats, on trio. The rebalance listener and callbacks of commits run in
    the caller's thread. KafkaConfigurationError is raised for an argument that is unknown or not allowed, and
    KafkaTimeoutError if no broker answers within `bootstrap_timeout_ms`.
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
        super().__init__(hosted, config)
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
        """Subscribe to topics, or to those whose name matches from its start, instead of the topics before.

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
            self._ask(self._hosted.calls.subscribe_matching, lambda name: match(name) is not None, listener)
        else:
            self._ask(self._hosted.calls.subscribe, names, listener)

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
        self._ask(self._hosted.calls.commit_last)
        self._ask(self._hosted.calls.assign, wanted)

    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions."""
        return set(self._hosted.shell.subscription.partitions)

    def unsubscribe(self) -> None:
        """Commit, leave the group, and read nothing."""
        self._ask(self._hosted.calls.commit_last)
        while (step := self._ask(self._hosted.poller.unsubscribe)) is not None:
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
        """Call the listener. If an interrupt ends the call, the next poll repeats it, or the end of the membership."""
        try:
            result = call_listener(self._hosted.calls.listener, step)
            if iscoroutine(result):  # of an AsyncConsumerRebalanceListener
                asyncio.run(result)
        except Exception:
            self._ask(self._hosted.answer, step, False)
            raise
        self._ask(self._hosted.answer, step, True)

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
                self._end(self._hosted.calls.commit_last, deadline)
            while (step := self._end(self._leave, deadline)) is not None:
                self._call_listener(step)

    async def _leave(self) -> CallListener | None:
        return await self._hosted.poller.leave(LeaveMode.DEFAULT, "the consumer is being closed")

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
