"""Streams: the format `pykbroker` reads the same rows as Spark's format `kafka`, and fails where it fails."""

from __future__ import annotations

import re
import time
import uuid
from pathlib import Path

import pytest

from pykbroker.pipeline.source.data_source import HAS_LIMITS
from tests.interop.pipeline.archived_rows import topic_content
from tests.interop.pipeline.both_formats import COMMITTED, FORMATS, ONE_RETRY, PATIENCE_S, BothFormats, numbers
from tests.interop.pipeline.marks import spark_marks
from tests.interop.pipeline.streams import Stream, both, failures, finish, running, settle

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
START_MS = 1_700_000_000_000
EARLIEST = {"startingOffsets": "earliest"}

pytestmark = spark_marks()


def test_a_stream_reads_what_is_new_and_goes_on_from_its_checkpoint(formats: BothFormats, tmp_path: Path) -> None:
    topic = formats.topic()
    formats.feed(topic, numbers(0, 10), 0)
    streams = both(formats, tmp_path, subscribe=topic, includeHeaders="true", **EARLIEST)
    with running(streams) as queries:
        settle(queries)
        formats.feed(topic, numbers(10, 20), 1)
        settle(queries)
    formats.feed(topic, numbers(20, 30), 0)
    for _ in range(2):
        finish(streams)
    theirs, ours = streams
    assert ours.values == [numbers(0, 10), numbers(10, 20), numbers(20, 30)]
    assert ours.rows == theirs.rows


def test_a_stream_reads_every_codec_transactions_and_gaps(formats: BothFormats, tmp_path: Path) -> None:
    prefix = f"each-{uuid.uuid4().hex[:8]}"
    codecs, committed, compacted = (f"{prefix}-{name}" for name in ("codecs", "committed", "compacted"))
    formats.topic(1, codecs)
    for index, codec in enumerate(CODECS):
        formats.feed(codecs, [*numbers(index * 100, index * 100 + 50), "x" * 3000], compression_type=codec)
    formats.topic(1, committed)
    writer = formats.transactional(committed)
    writer.write(numbers(0, 10), "commit")
    writer.write(numbers(100, 105), "abort")
    writer.write(numbers(20, 25))
    compact = {"cleanup_policy": "compact", "internal_segment_bytes": "3000", "min_cleanable_dirty_ratio": "0.01"}
    formats.topic(1, compacted, **compact)
    formats.feed(compacted, numbers(0, 300), is_keyed=True, batch_size="500")
    formats.feed(compacted, ["x" * 2800, "y" * 2800], is_keyed=True)
    deadline = time.monotonic() + PATIENCE_S
    while len(topic_content(formats.bootstrap, compacted)) > 200:
        assert time.monotonic() < deadline, "the cleaner has not run"
    formats.configure(compacted, cleanup_policy="delete", retention_ms="-1")
    options = {"subscribePattern": f"{prefix}-.*", "includeHeaders": "true", **EARLIEST, **COMMITTED}
    theirs, ours = streams = both(formats, tmp_path, **options)
    finish(streams)
    assert ours.rows == theirs.rows
    assert {row[2] for row in ours.rows} == {codecs, committed, compacted}
    assert [row[1].decode() for row in ours.rows if row[2] == committed] == numbers(0, 10)
    writer.end("commit")
    finish(streams)
    assert ours.rows == theirs.rows
    assert ours.values[-1] == numbers(20, 25)


def test_a_first_micro_batch_that_fails_begins_at_the_same_place_again(formats: BothFormats, tmp_path: Path) -> None:
    """With `startingOffsets=latest`, which is the default, a later start would lose the records in between."""
    topic = formats.topic(1)
    formats.feed(topic, numbers(0, 10))
    streams = both(formats, tmp_path, subscribe=topic)
    finish(streams)
    assert [stream.batches for stream in streams] == [[], []]
    streams = both(formats, tmp_path / "failing", subscribe=topic)
    for stream in streams:
        stream.fails = True
    assert all("this micro-batch fails" in text for text in failures(streams))
    formats.feed(topic, numbers(10, 20))
    for stream in streams:
        stream.fails = False
    for _ in range(2):
        finish(streams)
    for stream in streams:
        assert [value for batch in stream.values for value in batch] == numbers(10, 20)


def test_a_stream_starts_where_its_options_say(formats: BothFormats, tmp_path: Path) -> None:
    topic = formats.topic()
    formats.feed(topic, numbers(0, 10), 0, START_MS)
    formats.feed(topic, numbers(10, 20), 1, START_MS)
    starts: list[tuple[str, object, list[str]]] = [
        ("startingOffsets", {topic: {"0": 4, "1": -2}}, numbers(4, 20)),
        ("startingOffsets", {topic: {"0": -1, "1": 7}}, numbers(17, 20)),
        ("startingTimestamp", str(START_MS + 5000), [*numbers(5, 10), *numbers(15, 20)]),
        ("startingOffsetsByTimestamp", {topic: {"0": START_MS + 8000, "1": START_MS}}, numbers(8, 20)),
    ]
    pairs = [
        both(formats, tmp_path / str(index), subscribe=topic, minPartitions="5", **{name: value})
        for index, (name, value, _) in enumerate(starts)
    ]
    finish([stream for pair in pairs for stream in pair])
    for (theirs, ours), (name, value, wanted) in zip(pairs, starts, strict=True):
        assert ours.values == theirs.values == [wanted], (name, value)
        assert ours.tasks == theirs.tasks, (name, value)


def test_a_partition_that_is_added_is_read_from_its_start(formats: BothFormats, tmp_path: Path) -> None:
    topic = formats.topic(1)
    theirs, ours = streams = both(formats, tmp_path, subscribe=topic)
    with running(streams) as queries:
        settle(queries)
        formats.add_partitions(topic, 3)
        formats.feed(topic, numbers(0, 10), 2)
        for stream, query in zip(streams, queries, strict=True):
            deadline = time.monotonic() + PATIENCE_S
            while not stream.batches:
                query.processAllAvailable()
                assert time.monotonic() < deadline, "the new partition was not read"
    assert ours.rows == theirs.rows
    assert ours.values == [numbers(0, 10)]


def test_deleted_records_fail_a_stream_unless_fail_on_data_loss_is_false(formats: BothFormats, tmp_path: Path) -> None:
    topic = formats.topic(1)
    formats.feed(topic, numbers(0, 10))
    streams = both(formats, tmp_path, subscribe=topic, **EARLIEST)
    tolerant = both(formats, tmp_path, subscribe=topic, failOnDataLoss="false", **EARLIEST)
    finish(streams)
    formats.feed(topic, numbers(10, 30))
    formats.delete_records(topic, 20)
    for text in failures(streams):
        assert "failOnDataLoss" in text
        assert "Could not read records in offset [10, 30)" in text
    finish(tolerant)
    assert [stream.values for stream in tolerant] == [[numbers(20, 30)]] * 2


def test_a_topic_that_is_created_again_fails_a_stream_unless_fail_on_data_loss_is_false(
    formats: BothFormats, tmp_path: Path
) -> None:
    """The offsets of the new topic up to the last one that was read count as read, as in Spark's own format."""
    prefix = f"again-{uuid.uuid4().hex[:8]}"
    topic, other = (formats.topic(1, f"{prefix}-{index}") for index in range(2))
    formats.feed(topic, numbers(0, 10))
    options = {"subscribePattern": f"{prefix}-.", **ONE_RETRY, **EARLIEST}
    streams = both(formats, tmp_path / "strict", **options)
    tolerant = both(formats, tmp_path / "tolerant", failOnDataLoss="false", **options)
    finish(streams + tolerant)
    formats.delete_topic(topic)
    assert all(re.search(f"{topic}-0.? have been deleted", text) for text in failures(streams))
    formats.topic(1, topic)
    formats.feed(topic, numbers(10, 15))
    finish(tolerant)
    formats.feed(topic, numbers(15, 20))
    formats.feed(other, numbers(20, 25))
    finish(tolerant)
    assert [stream.values for stream in tolerant] == [[numbers(0, 10), numbers(15, 25)]] * 2


def test_a_stream_of_a_missing_topic_fails(formats: BothFormats, tmp_path: Path) -> None:
    missing = f"missing-{uuid.uuid4().hex[:8]}"
    theirs, ours = failures(both(formats, tmp_path, subscribe=missing, **ONE_RETRY))
    assert "UnknownTopicOrPartition" in theirs
    assert f"Topic '{missing}' (UNKNOWN_TOPIC_OR_PARTITION)" in ours


REFUSED = {
    "end": ({"endingOffsets": "latest"}, "ending offset not valid in streaming queries"),
    "end by time": ({"endingOffsetsByTimestamp": "{}"}, "ending timestamp not valid in streaming queries"),
    "no tasks": ({"minPartitions": "0"}, "minPartitions must be positive"),
    "commits": ({"kafka.enable.auto.commit": "true"}, "Kafka option 'enable.auto.commit' is not supported"),
}


def test_an_option_is_refused_with_the_same_words(formats: BothFormats, tmp_path: Path) -> None:
    pairs = [both(formats, tmp_path / name, subscribe="a", **options) for name, (options, _) in REFUSED.items()]
    texts = failures([stream for pair in pairs for stream in pair])
    messages = [message for _, message in REFUSED.values() for _ in FORMATS]
    assert [message for message, text in zip(messages, texts, strict=True) if message not in text] == []


# ---- limits


@pytest.mark.skipif(HAS_LIMITS, reason="this Spark has limits for micro-batches")
def test_a_limit_is_refused_where_spark_has_none(formats: BothFormats, tmp_path: Path) -> None:
    names = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
    streams = [Stream(formats, FORMATS[1], tmp_path / name, {"subscribe": "a", name: "10"}) for name in names]
    for name, text in zip(names, failures(streams), strict=True):
        assert f"{name} needs Spark 4.2: in Spark {formats.spark.version}" in text


@pytest.mark.skipif(not HAS_LIMITS, reason="a Python data source has no limits for micro-batches in this Spark")
def test_a_limit_divides_what_there_is_in_the_same_way(formats: BothFormats, tmp_path: Path) -> None:
    topic = formats.topic(3)
    formats.feed(topic, numbers(0, 100), 0)
    formats.feed(topic, numbers(100, 105), 1)
    theirs, ours = streams = both(formats, tmp_path, subscribe=topic, maxOffsetsPerTrigger="30", **EARLIEST)
    with running(streams) as queries:
        settle(queries)
    formats.feed(topic, numbers(105, 150), 2)
    finish(streams)
    assert ours.values == theirs.values
    assert len(ours.values) > 4


@pytest.mark.skipif(not HAS_LIMITS, reason="a Python data source has no limits for micro-batches in this Spark")
def test_a_micro_batch_waits_for_its_least_number_of_offsets(formats: BothFormats, tmp_path: Path) -> None:
    topic = formats.topic(1)
    formats.feed(topic, numbers(0, 10))
    streams = both(formats, tmp_path, subscribe=topic, minOffsetsPerTrigger="20", **EARLIEST)
    with running(streams) as queries:
        settle(queries)
        formats.feed(topic, numbers(10, 20))
        settle(queries)
        assert [stream.values for stream in streams] == [[numbers(0, 10)]] * 2
        formats.feed(topic, numbers(20, 31))
        for stream, query in zip(streams, queries, strict=True):
            deadline = time.monotonic() + PATIENCE_S
            while len(stream.batches) < 2:
                query.processAllAvailable()
                assert time.monotonic() < deadline, "there is no second micro-batch"
    assert [stream.values[1:] for stream in streams] == [[numbers(10, 31)]] * 2
    crossed = {"maxOffsetsPerTrigger": "1", "minOffsetsPerTrigger": "2"}
    for text in failures(both(formats, tmp_path / "crossed", subscribe=topic, **crossed)):
        assert "is higher than the maxOffsetsPerTrigger(1)" in text
