"""Batch queries: the format `pykbroker` returns the rows of Spark's format `kafka`, and fails where it fails."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from functools import partial
from typing import Any

import pytest

from tests.interop.pipeline.archived_rows import topic_content
from tests.interop.pipeline.both_formats import COMMITTED, FORMATS, ONE_RETRY, PATIENCE_S, BothFormats, failure, numbers
from tests.interop.pipeline.marks import spark_marks

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
EARLIEST, LATEST = -2, -1
START_MS = 1_700_000_000_000

pytestmark = spark_marks()


def test_rows_have_the_same_columns_and_types(formats: BothFormats) -> None:
    topic = formats.topic()
    for headers in ("true", "false"):
        theirs, ours = (formats.frame(kind, subscribe=topic, includeHeaders=headers).schema for kind in FORMATS)
        assert ours.simpleString() == theirs.simpleString()


def test_rows_have_the_same_content(formats: BothFormats) -> None:
    """Keys, values and headers may be null or absent, and timestamps have milliseconds."""
    topic = formats.topic()
    formats.feed(topic, [*numbers(0, 50), None, ""], 0, START_MS + 123)
    formats.feed(topic, numbers(50, 60), 1)
    rows = formats.same(subscribe=topic, includeHeaders="true")
    assert len(rows) == 62
    assert rows[1][7] == [("h", b"1"), ("empty", b""), ("h", None)]
    assert (rows[0][0], rows[0][7], rows[50][1], rows[51][1]) == (None, None, None, b"")


def test_rows_have_the_time_of_the_broker_if_the_topic_asks_for_it(formats: BothFormats) -> None:
    topic = formats.topic(1, message_timestamp_type="LogAppendTime")
    formats.feed(topic, numbers(0, 10), 0, START_MS)
    rows = formats.same(subscribe=topic)
    assert {row[6] for row in rows} == {1}
    assert all(row[5].timestamp() * 1000 > START_MS + 1_000_000 for row in rows)


def test_every_codec_is_read(formats: BothFormats) -> None:
    topics = {codec: formats.topic(1) for codec in CODECS}
    for codec, topic in topics.items():
        formats.feed(topic, [*numbers(0, 500), "x" * 5000], compression_type=codec)
    rows = formats.same(subscribe=",".join(topics.values()), includeHeaders="true")
    assert Counter(row[2] for row in rows) == dict.fromkeys(topics.values(), 501)


def test_a_query_of_many_fetches_returns_every_row(formats: BothFormats) -> None:
    topic = formats.topic(1)
    formats.feed(topic, numbers(0, 30_000), batch_size="20000")
    small = {"kafka.max.partition.fetch.bytes": "50000", "kafka.fetch.max.bytes": "50000"}
    frame = formats.frame("pykbroker", subscribe=topic, **small)
    assert frame.selectExpr("count(*)", "count(distinct offset)", "max(offset)").collect()[0] == (
        30_000,
        30_000,
        29_999,
    )


def test_a_query_reads_between_offsets(formats: BothFormats) -> None:
    topic = formats.topic()
    formats.feed(topic, numbers(0, 10), 0)
    formats.feed(topic, numbers(10, 20), 1)
    starting, ending = {topic: {"0": 2, "1": EARLIEST}}, {topic: {"0": LATEST, "1": 3}}
    assert formats.values(subscribe=topic, startingOffsets=starting, endingOffsets=ending) == numbers(2, 13)
    assert formats.values(subscribe=topic, startingOffsets={topic: {"0": 10, "1": 10}}) == []
    assert formats.values(subscribe=topic, STARTINGOFFSETS="Earliest", endingoffsets="LATEST") == numbers(0, 20)


def test_a_query_reads_between_timestamps(formats: BothFormats) -> None:
    topic = formats.topic()
    formats.feed(topic, numbers(0, 10), 0, START_MS)
    formats.feed(topic, numbers(10, 20), 1, START_MS)
    two, five = START_MS + 2000, START_MS + 5000
    every = {"startingTimestamp": str(two), "endingTimestamp": str(five)}
    assert formats.values(subscribe=topic, **every) == numbers(2, 5) + numbers(12, 15)
    single = {
        "startingOffsetsByTimestamp": {topic: {"0": two, "1": five}},
        "endingOffsetsByTimestamp": {topic: {"0": five, "1": START_MS + 100_000}},
    }
    assert formats.values(subscribe=topic, **single) == numbers(2, 5) + numbers(15, 20)
    late = {"startingTimestamp": str(START_MS + 100_000), "startingOffsetsByTimestampStrategy": "latest"}
    assert formats.values(subscribe=topic, **late) == []
    late.pop("startingOffsetsByTimestampStrategy")
    assert all("No offset matched" in text for text in formats.failures(subscribe=topic, **late, **ONE_RETRY))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"minPartitions": "3"},
        {"minPartitions": "7"},
        {"minPartitions": "40"},
        {"maxRecordsPerPartition": "30"},
        {"maxRecordsPerPartition": "1000"},
        {"maxRecordsPerPartition": "50", "minPartitions": "9"},
    ],
    ids=str,
)
def test_a_query_has_as_many_tasks(formats: BothFormats, options: dict[str, str]) -> None:
    """Partitions of 100, 10 and 0 records are divided in the same way.

    The offsets are explicit, because Spark divides a range up to the end of a log by `minPartitions` alone.
    """
    topic = formats.topic(3)
    formats.feed(topic, numbers(0, 100), 0)
    formats.feed(topic, numbers(100, 110), 1)
    ends = {topic: {"0": 100, "1": 10, "2": 0}}
    options = {
        "startingOffsets": json.dumps({topic: {"0": 0, "1": 0, "2": 0}}),
        "endingOffsets": json.dumps(ends),
        **options,
    }
    theirs, ours = formats.in_both(lambda kind: formats.frame(kind, subscribe=topic, **options).rdd.getNumPartitions())
    assert ours == theirs
    assert formats.values(subscribe=topic, **options) == numbers(0, 110)


def test_topics_are_chosen_by_name_pattern_or_partition(formats: BothFormats) -> None:
    prefix = f"chosen-{uuid.uuid4().hex[:8]}"
    one, other, unlike = (formats.topic(name=name) for name in (f"{prefix}-1", f"{prefix}-2", f"un{prefix}-1"))
    for index, topic in enumerate((one, other, unlike)):
        formats.feed(topic, numbers(index * 10, index * 10 + 5), 0)
        formats.feed(topic, numbers(index * 10 + 5, index * 10 + 10), 1)
    assert formats.values(subscribe=f"{one}, {other},") == numbers(0, 20)
    assert formats.values(subscribePattern=rf"^{prefix}-\p{{Digit}}") == numbers(0, 20)
    assert formats.values(subscribePattern=f"{prefix}-1") == numbers(0, 10) + numbers(20, 30)
    assert formats.values(subscribePattern=f"{prefix}-none") == []
    assert formats.values(assign={one: [1], unlike: [0, 7]}) == numbers(5, 10) + numbers(20, 25)


def test_a_read_committed_query_returns_committed_records(formats: BothFormats) -> None:
    """Offsets 0-9 are committed, 11-15 aborted, 17-26 committed, and 28-32 undecided, with markers between them."""
    topic = formats.topic(1)
    writer = formats.transactional(topic)
    writer.write(numbers(0, 10), "commit")
    writer.write(numbers(100, 105), "abort")
    writer.write(numbers(10, 20), "commit")
    writer.write(numbers(20, 25))
    for tasks in ("1", "6"):
        assert formats.values(subscribe=topic, minPartitions=tasks, **COMMITTED) == numbers(0, 20)
    for start, end, wanted in ((10, 22, numbers(10, 15)), (11, 17, []), (12, LATEST, numbers(10, 20))):
        offsets = {"startingOffsets": {topic: {"0": start}}, "endingOffsets": {topic: {"0": end}}}
        assert formats.values(subscribe=topic, **offsets, **COMMITTED) == wanted
    assert formats.values(subscribe=topic) == numbers(0, 25) + numbers(100, 105)
    writer.end("commit")
    assert formats.values(subscribe=topic, **COMMITTED) == numbers(0, 25)


def test_a_compacted_topic_is_read_over_its_gaps(formats: BothFormats) -> None:
    compact = {"cleanup_policy": "compact", "internal_segment_bytes": "3000", "min_cleanable_dirty_ratio": "0.01"}
    topic = formats.topic(1, **compact)
    formats.feed(topic, numbers(0, 300), is_keyed=True, batch_size="500")
    formats.feed(topic, ["x" * 2800, "y" * 2800], is_keyed=True)
    deadline = time.monotonic() + PATIENCE_S
    while len(topic_content(formats.bootstrap, topic)) > 200:
        assert time.monotonic() < deadline, "the cleaner has not run"
    formats.configure(topic, cleanup_policy="delete", retention_ms="-1")
    for options in ({}, {"startingOffsets": {topic: {"0": 3}}}, {"minPartitions": "5"}):
        rows = formats.same(subscribe=topic, includeHeaders="true", **options)
        assert [row[4] for row in rows] != list(range(rows[0][4], rows[-1][4] + 1))


# ---- lost records


def test_deleted_records_fail_a_query_unless_fail_on_data_loss_is_false(formats: BothFormats) -> None:
    topic = formats.topic(1)
    formats.feed(topic, numbers(0, 30))
    formats.delete_records(topic, 20)
    assert formats.values(subscribe=topic) == numbers(20, 30)
    partly, wholly = ({topic: {"0": start}} for start in (5, 0))
    for text in formats.failures(subscribe=topic, startingOffsets=partly):
        assert "failOnDataLoss" in text
        assert "Could not read records in offset [5, 30)" in text
    tolerant = {"subscribe": topic, "failOnDataLoss": "false"}
    assert formats.values(**tolerant, startingOffsets=partly) == numbers(20, 30)
    assert formats.values(**tolerant, startingOffsets=wholly, endingOffsets={topic: {"0": 10}}) == []


def test_an_end_beyond_the_log_is_lost_data_after_the_poll_timeout(formats: BothFormats) -> None:
    topic = formats.topic(1)
    formats.feed(topic, numbers(0, 10))
    beyond = {"subscribe": topic, "endingOffsets": {topic: {"0": 60}}, "kafkaConsumer.pollTimeoutMs": "600"}
    for text in formats.failures(**beyond):
        assert "Could not read records in offset [10, 60)" in text
    assert formats.values(**beyond, failOnDataLoss="false") == numbers(0, 10)


def test_a_start_beyond_the_log_is_lost_data(formats: BothFormats) -> None:
    topic = formats.topic(1)
    formats.feed(topic, numbers(0, 10))
    beyond = {"startingOffsets": {topic: {"0": 50}}, "endingOffsets": {topic: {"0": 60}}}
    for text in formats.failures(subscribe=topic, **beyond):
        assert "Could not read records in offset [50, 60)" in text
    assert formats.values(subscribe=topic, failOnDataLoss="false", **beyond) == []


def test_a_start_after_the_end_fails_a_query(formats: BothFormats) -> None:
    topic = formats.topic(1)
    formats.feed(topic, numbers(0, 10), start_ms=START_MS)
    beyond = {"subscribe": topic, "startingOffsets": {topic: {"0": 50}}, "failOnDataLoss": "false"}
    assert all("Beginning offset 50 is after the ending offset 10" in text for text in formats.failures(**beyond))
    times = {"startingTimestamp": str(START_MS + 8000), "endingTimestamp": str(START_MS + 2000)}
    for text in formats.failures(subscribe=topic, **times):
        assert "Beginning offset 8 is after the ending offset 2" in text
    divided = failure(partial(formats.rows, "pykbroker", **beyond, minPartitions="4"))
    assert "Beginning offset 50 is after the ending offset 10" in divided


# ---- refused options

REFUSED = {
    "no topic": ({}, "One of the following options must be specified for Kafka source"),
    "two choices": ({"subscribe": "a", "assign": '{"a":[0]}'}, "Only one of the following options can be specified"),
    "empty topics": ({"subscribe": " , "}, "No topics to subscribe to as specified value for option 'subscribe'"),
    "no partitions": ({"assign": "a"}, "No topicpartitions to assign as specified value for option 'assign'"),
    "bad partitions": ({"assign": '{"a": 1}'}, "Expected e.g. {"),
    "empty pattern": ({"subscribePattern": " "}, "Pattern to subscribe is empty"),
    "start at the end": ({"subscribe": "a", "startingOffsets": "latest"}, "starting offset can't be latest"),
    "end at the start": ({"subscribe": "a", "endingOffsets": "earliest"}, "ending offset can't be earliest"),
    "start of one at the end": (
        {"subscribe": "a", "startingOffsets": '{"a":{"0":-1}}'},
        "startingOffsets for a-0 can't be latest for batch queries",
    ),
    "end of one at the start": (
        {"subscribe": "a", "endingOffsets": '{"a":{"0":-2}}'},
        "ending offset for a-0 can't be earliest for batch queries",
    ),
    "no JSON": ({"subscribe": "a", "startingOffsets": "first"}, "Expected e.g. {"),
    "no start": ({"subscribe": "a", "startingOffsets": " "}, "Expected e.g. {"),
    "no number": ({"subscribe": "a", "startingTimestamp": "noon"}, "Expected a single long value, got noon"),
    "no tasks": ({"subscribe": "a", "minPartitions": "0"}, "minPartitions must be positive"),
    "reset": (
        {"subscribe": "a", "kafka.auto.offset.reset": "latest"},
        "Kafka option 'auto.offset.reset' is not supported",
    ),
    "deserializer": (
        {"subscribe": "a", "kafka.key.deserializer": "x"},
        "Kafka option 'key.deserializer' is not supported",
    ),
    "commits": (
        {"subscribe": "a", "kafka.enable.auto.commit": "true"},
        "Kafka option 'enable.auto.commit' is not supported",
    ),
}


def test_an_option_is_refused_with_the_same_words(formats: BothFormats) -> None:
    queries = [(kind, options, message) for options, message in REFUSED.values() for kind in FORMATS]
    texts = formats.at_once(lambda query: failure(partial(formats.rows, query[0], **query[1])), queries)
    assert [query for query, text in zip(queries, texts, strict=True) if query[2] not in text] == []


def count(query: Any) -> int:
    return query.load().count()


def test_a_query_without_a_broker_or_with_another_schema_is_refused(formats: BothFormats) -> None:
    for kind in FORMATS:
        query = formats.spark.read.format(kind).option("subscribe", "a")
        assert "Option 'kafka.bootstrap.servers' must be specified" in failure(partial(count, query))
    query = formats.options(formats.spark.read.format("pykbroker").schema("value binary"), {"subscribe": "a"})
    assert "fixed schema" in failure(partial(count, query))


def test_a_missing_topic_and_missing_partitions_are_named(formats: BothFormats) -> None:
    missing = f"missing-{uuid.uuid4().hex[:8]}"
    theirs, ours = formats.failures(subscribe=missing)
    assert "UnknownTopicOrPartition" in theirs
    assert f"Topic '{missing}' (UNKNOWN_TOPIC_OR_PARTITION)" in ours
    topic = formats.topic(2)
    for text in formats.failures(subscribe=topic, startingOffsets={topic: {"0": 0}}):
        assert "don't match what are assigned" in text


def test_a_setting_that_cannot_work_is_refused(formats: BothFormats) -> None:
    settings = [
        ("kafka.security.protocol", "SASL_SSL", "sasl_mechanism is missing"),
        ("kafka.ssl.truststore.location", "/x", "has no effect with security_protocol='PLAINTEXT'"),
        ("kafka.fetch.min.bites", "1", "do you mean 'fetch_min_bytes'?"),
        ("kafka.isolation.level", "dirty", "use 'read_uncommitted', 'read_committed'"),
    ]

    def text_of(setting: tuple[str, str, str]) -> str:
        return failure(lambda: formats.rows("pykbroker", subscribe="a", **{setting[0]: setting[1]}))

    texts = formats.at_once(text_of, settings)
    assert [setting for setting, text in zip(settings, texts, strict=True) if setting[2] not in text] == []


def test_settings_of_kafkas_consumer_are_accepted(formats: BothFormats) -> None:
    topic = formats.topic(1)
    formats.feed(topic, numbers(0, 10))
    settings = {
        "kafka.security.protocol": "PLAINTEXT",
        "kafka.group.id": "g",
        "kafka.max.poll.records": "10000",
        "kafka.receive.buffer.bytes": "65536",
        "kafka.client.id": "me",
        "groupIdPrefix": "x",
    }
    assert formats.values(subscribe=topic, **settings) == numbers(0, 10)
