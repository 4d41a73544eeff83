"""Queries that write: the format `pykbroker` writes the records of Spark's format `kafka`, and fails where it fails."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.interop.pipeline.both_formats import FORMATS, BothFormats, Row, failure, numbers
from tests.interop.pipeline.marks import spark_marks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = "key binary, value string, headers array<struct<key: string, value: binary>>, partition int"
HEADERS = [("h", b"1"), ("empty", b""), ("h", None)]

pytestmark = spark_marks()


def save(formats: BothFormats, kind: str, frame: DataFrame, options: Mapping[str, object]) -> None:
    formats.options(frame.write.format(kind).mode("append"), options).save()


def contents(formats: BothFormats, topic: str) -> list[Row]:
    """Return partition, key, value and headers of the records of a topic, in their order."""
    rows = formats.rows("kafka", subscribe=topic, includeHeaders="true")
    return [(row[3], row[0], row[1], row[7]) for row in rows]


def written(formats: BothFormats, frame: DataFrame, partitions: int = 3, **options: object) -> list[Row]:
    """Return the records that both formats write to topics of their own, which are the same."""
    topics = {kind: formats.topic(partitions) for kind in FORMATS}
    formats.in_both(lambda kind: save(formats, kind, frame.coalesce(1), {"topic": topics[kind], **options}))
    theirs, ours = formats.in_both(lambda kind: contents(formats, topics[kind]))
    assert ours == theirs
    return ours


def test_rows_become_the_same_records(formats: BothFormats) -> None:
    """Keys choose the partition unless the column `partition` does. Other columns have no effect."""
    rows: list[Row] = [(b"key-%d" % (n % 7), f"value-{n}", HEADERS if n % 4 == 1 else None, None) for n in range(50)]
    rows += [(None, "one", [], 2), (None, None, None, 1), (b"", "", None, 1), (b"key-1", "here", HEADERS, 0)]
    frame = formats.spark.createDataFrame(rows, COLUMNS).selectExpr("*", "now() AS timestamp", "value AS other")
    found = written(formats, frame)
    assert len(found) == 54
    assert (1, None, None, None) in found
    assert (1, b"", b"", None) in found
    assert (0, b"key-1", b"here", HEADERS) in found
    assert {row[0] for row in found} == {0, 1, 2}


def test_text_and_bytes_are_written(formats: BothFormats) -> None:
    frame = formats.spark.createDataFrame([("kéy", b"\xff\x00")], "key string, value binary")
    assert written(formats, frame, 1) == [(0, "kéy".encode(), b"\xff\x00", None)]
    frame = formats.spark.createDataFrame([("välue",)], "value string")
    assert written(formats, frame, 1) == [(0, None, "välue".encode(), None)]


def test_a_row_may_name_its_topic(formats: BothFormats) -> None:
    def check(kind: str) -> None:
        one, two = formats.topic(1), formats.topic(1)
        frame = formats.spark.createDataFrame([(one, "a"), (two, "b"), (one, "c")], "topic string, value string")
        save(formats, kind, frame.coalesce(1), {})
        assert [row[2] for row in contents(formats, one)] == [b"a", b"c"]
        assert [row[2] for row in contents(formats, two)] == [b"b"]
        save(formats, kind, frame.coalesce(1), {"topic": two})
        assert [row[2] for row in contents(formats, two)] == [b"b", b"a", b"b", b"c"]

    formats.in_both(check)


def test_options_reach_the_producer(formats: BothFormats) -> None:
    """A topic that is limited to 1000 bytes a batch takes 10,000 bytes only if they are compressed."""
    topic = formats.topic(1, max_message_bytes="1000")
    frame = formats.spark.sql("SELECT repeat('x', 10000) AS value")

    def write(codec: str) -> None:
        save(formats, "pykbroker", frame, {"topic": topic, "kafka.compression.type": codec})

    formats.at_once(write, ("gzip", "snappy", "lz4", "zstd"))
    assert len(formats.same(subscribe=topic)) == 4


def test_many_rows_are_written_once(formats: BothFormats) -> None:
    """The rows need more than the memory of the producer."""
    topic = formats.topic(2)
    frame = formats.spark.range(30_000).selectExpr("CAST(id AS string) AS key", "rpad(id, 100, 'x') AS value")
    save(formats, "pykbroker", frame, {"topic": topic, "kafka.buffer.memory": "300000", "kafka.batch.size": "50000"})
    found = formats.frame("kafka", subscribe=topic)
    counts = found.selectExpr("count(*)", "count(distinct key)", "count(distinct partition)").collect()[0]
    assert tuple(counts) == (30_000, 30_000, 2)


# ---- what is refused

REFUSED: dict[str, tuple[str, dict[str, str], str]] = {
    "no topic": ("'v' AS value", {}, "topic option required when no 'topic' attribute is present"),
    "no value": ("'k' AS key", {"topic": "t"}, "Required attribute 'value' not found"),
    "topic": ("'v' AS value, 1 AS topic", {}, "topic attribute unsupported type"),
    "value": ("1 AS value", {"topic": "t"}, "value attribute unsupported type"),
    "key": ("'v' AS value, 1L AS key", {"topic": "t"}, "key attribute unsupported type"),
    "partition": ("'v' AS value, 1L AS partition", {"topic": "t"}, "partition attribute unsupported type"),
    "headers": ("'v' AS value, map('a', 'b') AS headers", {"topic": "t"}, "headers attribute unsupported type"),
    "serializer": (
        "'v' AS value",
        {"topic": "t", "kafka.key.serializer": "x"},
        "Kafka option 'key.serializer' is not supported",
    ),
}


def test_what_cannot_be_written_is_refused_with_the_same_words(formats: BothFormats) -> None:
    def text_of(query: tuple[str, str]) -> str:
        columns, options, _ = REFUSED[query[1]]
        return failure(partial(save, formats, query[0], formats.spark.sql(f"SELECT {columns}"), options))

    queries = [(kind, name) for name in REFUSED for kind in FORMATS]
    texts = formats.at_once(text_of, queries)
    assert [query for query, text in zip(queries, texts, strict=True) if REFUSED[query[1]][2] not in text] == []


def test_a_row_without_a_topic_fails_the_query(formats: BothFormats) -> None:
    frame = formats.spark.sql("SELECT 'v' AS value, CAST(null AS string) AS topic")
    theirs, ours = formats.in_both(lambda kind: failure(partial(save, formats, kind, frame, {})))
    assert "topic" in theirs
    assert "null topic present in the data. Use the topic option for setting a topic" in ours


def overwrite(formats: BothFormats, kind: str, frame: DataFrame) -> None:
    formats.options(frame.write.format(kind).mode("overwrite"), {"topic": "t"}).save()


def test_a_topic_is_never_replaced(formats: BothFormats) -> None:
    frame = formats.spark.sql("SELECT 'v' AS value")
    for text in formats.in_both(lambda kind: failure(partial(overwrite, formats, kind, frame))):
        assert "ave mode" in text
        assert "verwrite not allowed for Kafka" in text


def test_a_row_that_the_broker_refuses_fails_the_query(formats: BothFormats) -> None:
    topic = formats.topic(1, max_message_bytes="1000")
    frame = formats.spark.sql("SELECT repeat('x', 5000) AS value")
    theirs, ours = formats.in_both(lambda kind: failure(partial(save, formats, kind, frame, {"topic": topic})))
    assert "RecordTooLargeException" in theirs
    assert "MESSAGE_TOO_LARGE" in ours


def test_a_partition_that_does_not_exist_fails_the_query(formats: BothFormats) -> None:
    topic = formats.topic(1)
    frame = formats.spark.sql("SELECT 'v' AS value, 7 AS partition")
    options = {"topic": topic, "kafka.max.block.ms": "500"}
    for text in formats.in_both(lambda kind: failure(partial(save, formats, kind, frame, options))):
        assert "500" in text


# ---- streams


def stream(formats: BothFormats, kind: str, source: DataFrame, directory: Path, options: Mapping[str, object]) -> None:
    """Write a stream until it has read what there is."""
    writer: Any = source.writeStream.format(kind).option("checkpointLocation", str(directory))
    query = formats.options(writer, options).trigger(availableNow=True).start()
    assert query.awaitTermination(60)


def test_a_stream_writes_the_same_records(formats: BothFormats, tmp_path: Path) -> None:
    origin = formats.topic(1)
    formats.feed(origin, [*numbers(0, 50), None, ""])
    reader = formats.spark.readStream.format("kafka")
    rows = formats.options(reader, {"subscribe": origin, "includeHeaders": "true", "startingOffsets": "earliest"})
    source = rows.load().drop("topic", "partition")
    targets = {kind: formats.topic(3) for kind in FORMATS}
    for turn in range(2):
        formats.in_both(lambda kind: stream(formats, kind, source, tmp_path / kind, {"topic": targets[kind]}))
        theirs, ours = formats.in_both(lambda kind: contents(formats, targets[kind]))
        assert [row for row in ours if row[1]] == [row for row in theirs if row[1]]
        assert sorted((row[1:] for row in ours), key=repr) == sorted((row[1:] for row in theirs), key=repr)
        assert len(ours) == 52 + turn * 10
        formats.feed(origin, numbers(50, 60))


def test_a_stream_of_the_format_is_written_by_the_format(formats: BothFormats, tmp_path: Path) -> None:
    origin, target = formats.topic(2), formats.topic(2)
    formats.feed(origin, numbers(0, 40), 1)
    reader = formats.options(formats.spark.readStream.format("pykbroker"), {"subscribe": origin})
    source = reader.option("startingOffsets", "earliest").load().selectExpr("key", "value", "partition")
    stream(formats, "pykbroker", source, tmp_path, {"topic": target})
    assert [(row[0], row[2].decode()) for row in contents(formats, target)] == [(1, text) for text in numbers(0, 40)]


def test_a_stream_without_a_topic_is_refused_with_the_same_words(formats: BothFormats, tmp_path: Path) -> None:
    missing = f"t-{uuid.uuid4().hex[:8]}"
    formats.topic(1, missing)
    source = formats.options(formats.spark.readStream.format("kafka"), {"subscribe": missing}).load()
    frame = source.select("value")
    for text in formats.in_both(lambda kind: failure(partial(stream, formats, kind, frame, tmp_path / kind, {}))):
        assert "topic option required when no 'topic' attribute is present" in text
