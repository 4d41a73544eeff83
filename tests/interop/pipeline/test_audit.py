"""The measures of the job `audit` beside a model in plain Python, and the job itself."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pykbroker.pipeline.audit import measures
from pykbroker.pipeline.audit.comparing import OPEN_SEGMENT, settled
from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.jobs.audit import AuditReport, AuditSettings, audit
from pykbroker.pipeline.reading import TopicsToRead
from pykbroker.pipeline.schema import RECORD_TYPES, TIME_COLUMN, with_date
from pykbroker.pipeline.session import PipelineSession
from pykbroker.pipeline.times import DAYS_END_MS, FIRST_DAY_MS, time_ms_of_connector
from tests.interop.pipeline.both_formats import BothFormats, numbers
from tests.interop.pipeline.marks import spark_marks
from tests.unit.pipeline.audit.segment_rows import Record, segment_rows
from wire.sentinels import NO_TIMESTAMP

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = spark_marks()
SEGMENT, COUNT = 10, 200
ODD_MS = (0, -2, FIRST_DAY_MS, FIRST_DAY_MS - 1, DAYS_END_MS, DAYS_END_MS - 1, -(2**63), 2**63 - 1)


def sample(seed: int) -> list[Record]:
    """Return records of two partitions with gaps, double offsets, disorder, and few keys."""
    rng = random.Random(seed)
    return [
        Record(
            rng.randrange(120),
            rng.choice((None, 1000 + rng.randrange(500), rng.choice(ODD_MS))),
            rng.choice((None, b"", b"a", b"key-" + bytes([65 + rng.randrange(4)]) * 60)),
            rng.choice((None, b"x" * rng.randrange(40))),
            side,
            "t",
            rng.randrange(2),
        )
        for _ in range(COUNT)
        for side in ("topic", "archive")
    ]


def is_dated(record: Record) -> bool:
    return record.time_ms is not None and FIRST_DAY_MS <= record.time_ms < DAYS_END_MS


def frame(spark: SparkSession, records: list[Record]) -> DataFrame:
    """Return the narrow rows of records. Records of the same offset have the same time, as copies do."""
    times: dict[tuple[str, int, int], int | None] = {}
    rows: list[tuple[Any, ...]] = []
    columns = {**RECORD_TYPES, "side": "string"}
    for each in records:
        ms = times.setdefault((each.side, each.partition, each.offset), each.time_ms)
        ms = NO_TIMESTAMP if ms is None else ms
        rows.append((each.key, each.value, each.topic, each.partition, each.offset, None, 0, [], ms, each.side))
    found = spark.createDataFrame(rows, ", ".join(f"{name} {kind}" for name, kind in columns.items()))
    sides = [measures.measured(found.where(f"side = '{side}'"), side) for side in ("topic", "archive")]
    return sides[0].unionAll(sides[1]).cache()


def known(records: list[Record]) -> list[Record]:
    """Return the records with the times that `frame` gives them."""
    times: dict[tuple[str, int, int], int | None] = {}
    return [
        each._replace(time_ms=times.setdefault((each.side, each.partition, each.offset), each.time_ms))
        for each in records
    ]


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let segments have few offsets."""
    monkeypatch.setattr(measures, "SEGMENT_OFFSETS", SEGMENT)


def test_the_measures_are_those_of_a_model(spark: SparkSession, small_segments: None) -> None:
    records = known(sample(1))
    rows = frame(spark, records)
    found = [row.asDict() for row in measures.segments(rows).orderBy("side", "topic", "partition", "segment").collect()]
    expected = segment_rows(records, SEGMENT)
    for one, two in zip(found, expected, strict=True):
        assert {name: one[name] for name in two if name not in ("first_ms", "last_ms", "steps_back")} == {
            name: two[name] for name in two if name not in ("first_ms", "last_ms", "steps_back")
        }
        if not two["duplicates"]:
            assert (one["first_ms"], one["steps_back"]) == (two["first_ms"], two["steps_back"])
    counts = measures.key_counts(rows)
    keys = Counter((each.side, each.key) for each in records if each.key is not None)
    top = [(row.side, row.records) for row in measures.top_keys(counts).collect()]
    assert Counter(top) == Counter((side, count) for (side, _), count in keys.items())
    assert all(len(row.key) <= measures.KEY_BYTES_SHOWN for row in measures.top_keys(counts).collect())
    frequencies = {(row.side, row.records): row["keys"] for row in measures.key_frequencies(counts).collect()}
    assert frequencies == Counter((side, count) for (side, _), count in keys.items())
    sizes = {(row.side, row.power): row.records for row in measures.value_sizes(rows).collect()}
    assert sizes == Counter((r.side, max(len(r.value), 1).bit_length() - 1) for r in records if r.value is not None)
    slots = measures.timeline(rows).collect()
    assert sum(row.records for row in slots) == sum(is_dated(each) for each in records)
    assert sum(row.bytes for row in slots) == sum(
        len(each.key or b"") + len(each.value or b"") for each in records if is_dated(each)
    )
    assert sum(row.records for row in measures.coverage(rows).collect()) == len(records)


def test_the_comparison_is_that_of_sets(spark: SparkSession, small_segments: None) -> None:
    records = sample(2)
    rows = frame(spark, records)
    alike, different = settled([row.asDict() for row in measures.segments(rows).collect()])
    places = spark.createDataFrame([tuple(each) for each in different], OPEN_SEGMENT)
    found: dict[int, Counter[str]] = {0: Counter(), 1: Counter()}
    for row in [*alike, *(each.asDict() for each in measures.compared(rows, places).collect())]:
        found[row["partition"]].update({name: count for name, count in row.items() if name in KINDS and count})
    for partition in (0, 1):
        topic, archive = (
            {each.offset for each in records if (each.side, each.partition) == (side, partition)}
            for side in ("topic", "archive")
        )
        assert found[partition] == Counter(
            {
                "both": len(topic & archive),
                "missing": sum(offset <= max(archive) for offset in topic - archive),
                "not_archived": sum(offset > max(archive) for offset in topic - archive),
                "deleted": sum(offset < min(topic) for offset in archive - topic),
                "only_archived": sum(offset >= min(topic) for offset in archive - topic),
            }
        )


KINDS = ("both", "missing", "not_archived", "deleted", "only_archived")


def run(spark: SparkSession, **settings: Any) -> AuditReport:
    """Run the job."""
    source = settings.pop("source", None)
    return audit(PipelineSession(spark, "jvm", ""), AuditSettings(source, **settings), print)


def archive(spark: SparkSession, records: DataFrame, directory: Path) -> str:
    """Write an archive of records, and return its directory."""
    timed = records.withColumn(TIME_COLUMN, time_ms_of_connector())
    with_date(timed).write.mode("append").partitionBy("topic", "date").parquet(str(directory))
    return str(directory)


def test_an_archive_is_audited_against_its_topic(formats: BothFormats, tmp_path: Path) -> None:
    topic = formats.topic(3)
    formats.feed(topic, [*numbers(0, 50), None, None], 0, start_ms=1_764_000_000_000)
    formats.feed(topic, numbers(0, 20), 1, start_ms=1_764_000_100_000)
    source = TopicsToRead(formats.bootstrap, (topic,))
    records = formats.frame("kafka", **source.connector_options()).cache()
    lake = archive(formats.spark, records.where("partition = 0 and offset < 40"), tmp_path / "lake")
    archive(formats.spark, records.where("partition = 1"), tmp_path / "lake")
    page = tmp_path / "audit.html"
    report = run(formats.spark, source=source, archive=lake, topics=(topic,), page=str(page))
    compared = [[each[name] for name in (*KINDS, "log_end")] for each in report.figures["comparisons"]]
    assert compared == [[40, 0, 12, 0, 0, 52], [20, 0, 0, 0, 0, 20], [0, 0, 0, 0, 0, 0]]
    assert (report.losses, report.exit_code) == ([], 0)
    one, two = report.figures["sides"]
    assert [one["topics"][0]["records"], two["topics"][0]["records"]] == [72, 60]
    assert one["topics"][0]["partitions"][0]["null_values"] == 2
    assert one["topics"][0]["partitions"][0]["header_bytes"] == 13 * len(b"hemptyh") + 3 + 2 * 10
    assert "The archive is complete" in page.read_text()
    assert msgspec.json.decode(report.json())["cluster_id"]

    archive(formats.spark, records.where("partition = 0 and offset in (3, 51)"), tmp_path / "lake")
    report = run(formats.spark, source=source, archive=lake, topics=(topic,), page=str(page))
    assert report.losses == [
        f"{topic}-0: 11 records of the topic missing in the archive, from offset 40 on",
        f"{topic}-0: 1 record of the archive double",
    ]
    assert report.exit_code == 3
    assert "11 records of the topic missing" in page.read_text()
    assert f"  {topic}-0" in report.text()


def test_one_side_is_audited_alone(formats: BothFormats, tmp_path: Path) -> None:
    topic = formats.topic(1)
    formats.feed(topic, numbers(0, 7))
    source = TopicsToRead(formats.bootstrap, (topic,))
    report = run(formats.spark, source=source)
    assert [each["side"] for each in report.figures["sides"]] == ["topic"]
    lake = archive(formats.spark, formats.frame("kafka", **source.connector_options()), tmp_path / "lake")
    report = run(formats.spark, archive=lake)
    (side,) = report.figures["sides"]
    assert (side["side"], side["topics"][0]["records"], report.figures["comparisons"]) == ("archive", 7, [])
    with pytest.raises(PipelineError, match="its directory does not exist"):
        run(formats.spark, archive=lake, page=str(tmp_path / "none" / "page.html"))
    with pytest.raises(PipelineError, match="no topic missing in cluster"):
        run(formats.spark, source=TopicsToRead(formats.bootstrap, ("missing",)))
