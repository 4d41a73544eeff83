"""Spark's format `kafka` and the format `pykbroker` on the same topics, and the producers that fill these."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PATIENCE_S = 30
FORMATS = ("kafka", "pykbroker")
COMMITTED = {"kafka.isolation.level": "read_committed"}
ONE_RETRY = {"fetchOffset.numRetries": "1", "fetchOffset.retryIntervalMs": "50"}
"""Options of a query that soon gives up asking for offsets. By default it asks three times, a second apart."""
Row = tuple[Any, ...]
T = TypeVar("T")
AT_ONCE = 4
_THREADS = ThreadPoolExecutor(AT_ONCE, "query")
"""The threads of queries that run at the same time. Spark gives each one a thread of its JVM."""


class BothFormats:
    """A broker, a Spark session, and readers of both formats."""

    def __init__(self, spark: SparkSession, bootstrap: str) -> None:
        self.spark, self.bootstrap = spark, bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})

    # ---- topics

    def topic(self, partitions: int = 2, name: str = "", **configs: str) -> str:
        """Return a new topic. Its configs have underscores for dots."""
        name = name or f"t-{uuid.uuid4().hex[:8]}"
        named = {key.replace("_", "."): value for key, value in configs.items()}
        self._admin.create_topics([NewTopic(name, partitions, 1, config=named)])[name].result(PATIENCE_S)
        return name

    def feed(
        self,
        topic: str,
        values: Sequence[str | None],
        partition: int = 0,
        start_ms: int = 0,
        *,
        is_keyed: bool = False,
        **settings: str,
    ) -> None:
        """Produce records one second apart from `start_ms` on. Keys and headers are those of `record`."""
        producer = self._producer
        if settings:
            named = {key.replace("_", "."): value for key, value in settings.items()}
            producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 1, **named})
        for index, value in enumerate(values):
            timestamp = start_ms + index * 1000 if start_ms else 0
            producer.produce(topic, partition=partition, timestamp=timestamp, **record(index, value, is_keyed=is_keyed))
        assert producer.flush(PATIENCE_S) == 0

    def transactional(self, topic: str) -> Transactions:
        """Return a producer of transactions."""
        return Transactions(self.bootstrap, topic)

    def delete_records(self, topic: str, offset: int) -> None:
        """Delete the records of partition 0 below an offset."""
        place = TopicPartition(topic, 0, offset)
        self._admin.delete_records([place])[place].result(PATIENCE_S)

    def configure(self, topic: str, **configs: str) -> None:
        """Set configs of a topic. Their names have underscores for dots."""
        entries = [
            ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for name, value in configs.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        self._admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)

    def add_partitions(self, topic: str, total: int) -> None:
        """Let a topic have more partitions, `total` in all."""
        self._admin.create_partitions([NewPartitions(topic, total)])[topic].result(PATIENCE_S)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        self._admin.delete_topics([topic])[topic].result(PATIENCE_S)

    # ---- queries

    def options(self, reader: Any, given: Mapping[str, object]) -> Any:
        """Return a reader or a writer with options, which may be values of JSON."""
        reader = reader.option("kafka.bootstrap.servers", self.bootstrap)
        for key, value in given.items():
            reader = reader.option(key, value if isinstance(value, str) else json.dumps(value))
        return reader

    def frame(self, kind: str, **options: object) -> DataFrame:
        """Return a batch query of one format."""
        return self.options(self.spark.read.format(kind), options).load()

    def rows(self, kind: str, **options: object) -> list[Row]:
        """Return all rows of a batch query of one format, sorted by partition and offset."""
        return sorted(map(plain, self.frame(kind, **options).collect()), key=lambda row: row[2:5])

    def same(self, **options: object) -> list[Row]:
        """Return the rows of a batch query, which are the same in both formats."""
        theirs, ours = self.in_both(lambda kind: self.rows(kind, **options))
        unlike = [pair for pair in zip_longest(ours, theirs) if pair[0] != pair[1]]
        assert not unlike, f"{len(unlike)} of {len(theirs)} rows differ, first {unlike[0]}"
        return ours

    def values(self, **options: object) -> list[str]:
        """Return the values of a batch query, which are the same in both formats, sorted."""
        return sorted(row[1].decode() for row in self.same(**options))

    def in_both(self, action: Callable[[str], T]) -> tuple[T, T]:
        """Return the results of an action with the name of each format. Both actions run at the same time."""
        theirs, ours = self.at_once(action, FORMATS)
        return theirs, ours

    def at_once(self, action: Callable[[Any], T], arguments: Sequence[Any]) -> list[T]:
        """Return the results of an action with each argument, of which AT_ONCE run at the same time."""
        jvm: Any = self.spark._jvm

        def run(argument: Any) -> T:
            jvm.SparkSession.setActiveSession(self.spark._jsparkSession)  # of this thread: it has the Python formats
            return action(argument)

        return list(_THREADS.map(run, arguments))

    def failures(self, **options: object) -> tuple[str, str]:
        """Return the messages with which a batch query fails in both formats."""
        return self.in_both(lambda kind: failure(partial(self.rows, kind, **options)))


class Transactions:
    """A producer that runs one transaction after another, on one partition."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic, "linger.ms": 1})
        self._producer.init_transactions(PATIENCE_S)
        self._topic = topic

    def write(self, values: Sequence[str], end: str = "") -> None:
        """Send values in a transaction, and `end` it by "commit" or "abort". Otherwise it stays open."""
        self._producer.begin_transaction()
        for value in values:
            self._producer.produce(self._topic, value, partition=0)
        assert self._producer.flush(PATIENCE_S) == 0
        if end:
            self.end(end)

    def end(self, how: str) -> None:
        """End the open transaction."""
        (self._producer.commit_transaction if how == "commit" else self._producer.abort_transaction)(PATIENCE_S)


def record(index: int, value: str | None, *, is_keyed: bool = False) -> dict[str, Any]:
    """Return the key, the value and the headers of a record. Some have no headers.

    Some have no key, unless `is_keyed`: then every tenth key occurs once, and the others are repeated.
    """
    headers = [("h", str(index).encode()), ("empty", b""), ("h", None)]
    key = f"key-{index}" if is_keyed and index % 10 == 0 else f"key-{index % 7}"
    return {
        "key": None if index % 3 == 0 and not is_keyed else key,
        "value": value,
        "headers": headers if index % 4 == 1 else [],
    }


def plain(row: Any) -> Row:
    """Return a row with bytes and tuples, which can be compared."""
    return tuple(_plain(value) for value in row)


def _plain(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value


def numbers(start: int, end: int) -> list[str]:
    """Return values that sort like numbers."""
    return [f"{number:05}" for number in range(start, end)]


def failure(action: Callable[[], object]) -> str:
    """Return Spark's error message for an action that fails, with all causes."""
    with pytest.raises(Exception) as caught:  # noqa: PT011
        action()
    java = getattr(caught.value, "_origin", None)
    return f"{caught.value} {java.toString() if java else ''} {getattr(caught.value, 'stackTrace', '')}"
