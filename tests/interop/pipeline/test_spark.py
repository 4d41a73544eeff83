"""Tests of Spark's `kafka` format with the broker: batch queries, streams, and Spark's errors for missing data."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.pipeline.marks import spark_marks
from tools.broker_process import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PATIENCE_S = 30
EARLIEST, LATEST = -2, -1
COMMITTED = {"kafka.isolation.level": "read_committed"}

pytestmark = spark_marks()


class Transactional:
    """A producer that runs one transaction after another."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 1})
        self._producer.init_transactions(PATIENCE_S)

    def write(self, topic: str, values: Sequence[str], end: str = "") -> None:
        """Begin a transaction and send values to two partitions alternately.

        Then `end` the transaction, or leave it open with all records stored.
        """
        self._producer.begin_transaction()
        for index, value in enumerate(values):
            self._producer.produce(topic, value, partition=index % 2)
        assert self._producer.flush(PATIENCE_S) == 0
        if end:
            self.end(end)

    def end(self, how: str) -> None:
        """End the transaction; `how` is "commit" or "abort"."""
        (self._producer.commit_transaction if how == "commit" else self._producer.abort_transaction)(PATIENCE_S)


class Kafka:
    """A broker, its Spark session, and the producer that feeds it."""

    def __init__(self, spark: SparkSession, bootstrap: str) -> None:
        self.spark, self.bootstrap = spark, bootstrap
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})

    def topic(self, partitions: int = 2, name: str = "") -> str:
        """Return a new topic that is served."""
        name = name or f"spark-{uuid.uuid4().hex}"
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(PATIENCE_S)
        for partition in range(partitions):
            self.feed(name, [], partition)
        return name

    def feed(self, topic: str, values: Sequence[str], partition: int | None = None, start_ms: int = 0) -> None:
        """Produce values one second apart from `start_ms` on, to one partition or round robin to two."""
        for index, value in enumerate(values):
            self._producer.produce(
                topic,
                value,
                f"key-{value}",
                index % 2 if partition is None else partition,
                timestamp=start_ms + index * 1000 if start_ms else 0,
                headers=[("h", value.encode()), ("n", None)],
            )
        assert self._producer.flush(PATIENCE_S) == 0

    def transactional(self, name: str) -> Transactional:
        """Return a producer with this transactional id."""
        return Transactional(self.bootstrap, name)

    def delete_records(self, topic: str, offset: int) -> None:
        """Delete the records of partition 0 below the offset."""
        place = TopicPartition(topic, 0, offset)
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.delete_records([place])[place].result(PATIENCE_S)

    def read(self, **options: object) -> DataFrame:
        """Return a batch query."""
        return self._with(self.spark.read, options).load()

    def stream(self, **options: object) -> DataFrame:
        """Return a stream that starts at the earliest offsets."""
        return self._with(self.spark.readStream, {"startingOffsets": "earliest", **options}).load()

    def _with(self, reader, options):
        reader = reader.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        for key, value in options.items():
            reader = reader.option(key, value if isinstance(value, str) else json.dumps(value))
        return reader


@pytest.fixture
def kafka(spark: SparkSession, bootstrap: str) -> Kafka:
    return Kafka(spark, bootstrap)


def values(frame: DataFrame) -> list[str]:
    """Return the values of all rows, sorted."""
    return sorted(bytes(row.value).decode() for row in frame.select("value").collect())


def numbers(start: int, end: int) -> list[str]:
    return [f"{number:04}" for number in range(start, end)]


# ---- batch


def test_a_batch_query_returns_every_row_with_partition_and_offset(kafka: Kafka) -> None:
    topic = kafka.topic()
    start_ms = int(time.time()) * 1000 - 100_000
    kafka.feed(topic, numbers(0, 100), start_ms=start_ms)
    rows = kafka.read(subscribe=topic).orderBy("timestamp").collect()
    assert [row.value.decode() for row in rows] == numbers(0, 100)
    assert [row.key.decode() for row in rows] == [f"key-{number}" for number in numbers(0, 100)]
    assert [(row.partition, row.offset) for row in rows] == [(index % 2, index // 2) for index in range(100)]
    assert [int(row.timestamp.timestamp() * 1000) for row in rows] == [start_ms + index * 1000 for index in range(100)]
    assert {(row.topic, row.timestampType) for row in rows} == {(topic, 0)}


def test_a_batch_query_reads_between_offsets(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.feed(topic, numbers(0, 10), 0)
    kafka.feed(topic, numbers(10, 20), 1)
    some = kafka.read(
        subscribe=topic, startingOffsets={topic: {"0": 2, "1": EARLIEST}}, endingOffsets={topic: {"0": LATEST, "1": 3}}
    )
    assert values(some) == numbers(2, 13)
    assert values(kafka.read(subscribe=topic, startingOffsets={topic: {"0": 10, "1": 10}})) == []


def test_a_batch_query_reads_between_timestamps(kafka: Kafka) -> None:
    topic = kafka.topic()
    start_ms = int(time.time()) * 1000 - 100_000
    kafka.feed(topic, numbers(0, 20), start_ms=start_ms)
    from_5 = start_ms + 5_000
    some = kafka.read(subscribe=topic, startingTimestamp=str(from_5), endingTimestamp=str(from_5 + 10_000))
    assert values(some) == numbers(5, 15)
    one = kafka.read(
        subscribe=topic,
        startingOffsetsByTimestamp={topic: {"0": from_5, "1": start_ms}},
        endingOffsetsByTimestamp={topic: {"0": from_5 + 3_000, "1": start_ms}},
    )
    assert values(one) == ["0006"]


def test_headers_are_read(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.feed(topic, ["one"], 0)
    (row,) = kafka.read(subscribe=topic, includeHeaders="true").collect()
    headers = [(header.key, header.value and bytes(header.value)) for header in row.headers]
    assert headers == [("h", b"one"), ("n", None)]


def test_a_batch_query_may_have_more_tasks_than_partitions(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.feed(topic, numbers(0, 100))
    frame = kafka.read(subscribe=topic, minPartitions="6")
    assert frame.rdd.getNumPartitions() >= 6
    assert values(frame) == numbers(0, 100)


def test_topics_are_subscribed_by_pattern(kafka: Kafka) -> None:
    prefix = f"pattern-{uuid.uuid4().hex}"
    for index in range(2):
        topic = kafka.topic(name=f"{prefix}-{index}")
        kafka.feed(topic, numbers(index * 10, index * 10 + 10))
    kafka.topic(name=f"not-{prefix}")
    assert values(kafka.read(subscribePattern=f"{prefix}-.*")) == numbers(0, 20)


def test_assigned_partitions_are_read(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.feed(topic, numbers(0, 10), 0)
    kafka.feed(topic, numbers(10, 20), 1)
    assert values(kafka.read(assign={topic: [1]})) == numbers(10, 20)


def test_a_read_committed_batch_query_returns_committed_records_only(kafka: Kafka) -> None:
    """A partition has 10 committed, 5 aborted, 10 committed and 5 undecided records, with markers between them."""
    topic = kafka.topic()
    writer = kafka.transactional(topic)
    writer.write(topic, numbers(0, 20), "commit")
    writer.write(topic, numbers(100, 110), "abort")
    writer.write(topic, numbers(20, 40), "commit")
    writer.write(topic, numbers(40, 50))
    assert values(kafka.read(subscribe=topic, minPartitions="6", **COMMITTED)) == numbers(0, 40)
    for start, end, wanted in ((10, 22, numbers(20, 30)), (10, 17, []), (12, LATEST, numbers(20, 40))):
        some = kafka.read(
            subscribe=topic,
            startingOffsets={topic: {"0": start, "1": start}},
            endingOffsets={topic: {"0": end, "1": end}},
            **COMMITTED,
        )
        assert values(some) == wanted
    assert values(kafka.read(subscribe=topic)) == sorted(numbers(0, 50) + numbers(100, 110))
    writer.end("commit")
    assert values(kafka.read(subscribe=topic, **COMMITTED)) == numbers(0, 50)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_rows_are_written_in_every_codec(kafka: Kafka, codec: str) -> None:
    topic = kafka.topic()
    frame = kafka.spark.createDataFrame([(number,) for number in numbers(0, 200)], "value string")
    writer = frame.write.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
    writer.option("topic", topic).option("kafka.compression.type", codec).save()
    assert values(kafka.read(subscribe=topic)) == numbers(0, 200)


def test_rows_choose_topic_partition_key_and_headers(kafka: Kafka) -> None:
    one, other = kafka.topic(), kafka.topic()
    rows = [
        (b"k1", b"v1", one, 0, [("h", b"1"), ("h", b"2")]),
        (None, b"v2", one, 1, None),
        (b"k3", None, other, 1, []),
    ]
    schema = "key binary, value binary, topic string, partition int, headers array<struct<key: string, value: binary>>"
    writer = kafka.spark.createDataFrame(rows, schema).write.format("kafka").option("includeHeaders", "true")
    writer.option("kafka.bootstrap.servers", kafka.bootstrap).save()
    found = kafka.read(subscribe=f"{one},{other}", includeHeaders="true").orderBy("topic", "partition").collect()
    assert {
        (row.topic, row.partition, row.key and bytes(row.key), row.value and bytes(row.value)) for row in found
    } == {(one, 0, b"k1", b"v1"), (one, 1, None, b"v2"), (other, 1, b"k3", None)}
    (first,) = (row for row in found if row.key == b"k1")
    assert [(header.key, bytes(header.value)) for header in first.headers] == [("h", b"1"), ("h", b"2")]


# ---- streams


def test_available_now_continues_from_its_checkpoint(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic()

    def run() -> None:
        writer = kafka.stream(subscribe=topic, maxOffsetsPerTrigger="40").writeStream.format("parquet")
        writer = writer.option("path", str(tmp_path / "rows"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination(PATIENCE_S * 2)

    kafka.feed(topic, numbers(0, 100))
    run()
    assert values(kafka.spark.read.parquet(str(tmp_path / "rows"))) == numbers(0, 100)
    kafka.feed(topic, numbers(100, 150))
    run()
    run()
    assert values(kafka.spark.read.parquet(str(tmp_path / "rows"))) == numbers(0, 150)


def test_a_stream_reads_new_records(kafka: Kafka) -> None:
    topic = kafka.topic()
    name = f"follows_{uuid.uuid4().hex}"
    query = kafka.stream(subscribe=topic).writeStream.format("memory").queryName(name).start()
    try:
        for start in range(0, 50, 10):
            kafka.feed(topic, numbers(start, start + 10))
            query.processAllAvailable()
            assert values(kafka.spark.table(name)) == numbers(0, start + 10)
    finally:
        query.stop()


def test_a_stream_from_topic_to_topic_survives_a_restart(kafka: Kafka, tmp_path: Path) -> None:
    source, target = kafka.topic(), kafka.topic()

    def run(until: int) -> None:
        rows = kafka.stream(subscribe=source).selectExpr("key", "value")
        writer = rows.writeStream.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
        writer = writer.option("topic", target).option("checkpointLocation", str(tmp_path))
        query = writer.trigger(processingTime="100 milliseconds").start()
        query.processAllAvailable()
        query.stop()
        assert values(kafka.read(subscribe=target)) == numbers(0, until)

    kafka.feed(source, numbers(0, 50))
    run(50)
    kafka.feed(source, numbers(50, 80))
    run(80)


@pytest.mark.parametrize("tasks", ["1", "6"])
def test_a_read_committed_stream_reads_committed_records_only(kafka: Kafka, tasks: str) -> None:
    """Markers and aborted records leave gaps in the offsets.

    Spark neither reports the gaps as data loss nor waits for their offsets.
    """
    topic, name = kafka.topic(), f"committed_{uuid.uuid4().hex}"
    writer = kafka.transactional(topic)
    stream = kafka.stream(subscribe=topic, minPartitions=tasks, **COMMITTED)
    query = stream.writeStream.format("memory").queryName(name).start()

    def has_come(until: int) -> None:
        query.processAllAvailable()
        assert values(kafka.spark.table(name)) == numbers(0, until)

    try:
        for start in range(0, 20, 10):
            writer.write(topic, numbers(start, start + 5), "commit")
            writer.write(topic, numbers(100, 105), "abort")
            has_come(start + 5)
            writer.write(topic, numbers(start + 5, start + 10))
            has_come(start + 5)
            writer.end("commit")
            has_come(start + 10)
        writer.write(topic, numbers(100, 105))
        writer.end("abort")
        has_come(20)
    finally:
        query.stop()


def test_a_stream_fails_on_deleted_records_unless_fail_on_data_loss_is_off(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic(1)

    def run(**options: str) -> None:
        writer = kafka.stream(subscribe=topic, **options).writeStream.format("parquet")
        writer = writer.option("path", str(tmp_path / "rows"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination(PATIENCE_S * 2)

    kafka.feed(topic, numbers(0, 10), 0)
    run()
    kafka.feed(topic, numbers(10, 30), 0)
    kafka.delete_records(topic, 20)
    assert "failOnDataLoss" in failure(run)
    run(failOnDataLoss="false")
    assert values(kafka.spark.read.parquet(str(tmp_path / "rows"))) == numbers(0, 10) + numbers(20, 30)


def test_a_stream_survives_a_crash_of_the_broker(spark: SparkSession, broker: BrokerProcess) -> None:
    kafka = Kafka(spark, broker.address)
    topic = kafka.topic()
    name = f"outlives_{uuid.uuid4().hex}"
    query = kafka.stream(subscribe=topic).writeStream.format("memory").queryName(name).start()
    try:
        kafka.feed(topic, numbers(0, 10))
        query.processAllAvailable()
        broker.kill()
        broker.restart()
        kafka.feed(topic, numbers(10, 20))
        query.processAllAvailable()
        assert values(spark.table(name)) == numbers(0, 20)
    finally:
        query.stop()


# ---- errors


def failure(action: Callable[[], object]) -> str:
    """Return Spark's error message for a failing query, with all causes."""
    with pytest.raises(Exception) as caught:  # noqa: PT011
        action()
    java = getattr(caught.value, "_origin", None)
    return f"{caught.value} {java.toString() if java else ''} {getattr(caught.value, 'stackTrace', '')}"


def test_the_error_for_a_missing_topic_names_it(kafka: Kafka) -> None:
    topic = f"missing-{uuid.uuid4().hex}"
    assert "UnknownTopicOrPartitionException" in failure(kafka.read(subscribe=topic).collect)


def test_the_error_for_an_offset_beyond_the_end_names_it(kafka: Kafka) -> None:
    topic = kafka.topic(1)
    kafka.feed(topic, numbers(0, 10), 0)
    frame = kafka.read(subscribe=topic, startingOffsets={topic: {"0": 50}}, endingOffsets={topic: {"0": 60}})
    message = failure(frame.collect)
    assert topic in message
    assert "offset" in message.lower()


def test_rows_above_max_message_bytes_are_refused(kafka: Kafka) -> None:
    topic = kafka.topic(1)
    frame = kafka.spark.createDataFrame([("x" * 2_000_000,)], "value string")
    writer = frame.write.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap).option("topic", topic)
    message = failure(writer.option("kafka.max.request.size", "10000000").save)
    assert "RecordTooLargeException" in message
