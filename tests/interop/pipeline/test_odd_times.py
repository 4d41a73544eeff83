"""Timestamps of all 64 bits in the jobs: none, before 1970, in other units than ms, and outside every calendar."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow.parquet as pq
import trio

from pykbroker.pipeline.decoding.plan import DecodePlan
from pykbroker.pipeline.jobs.archived import ArchivedRecords, with_archive
from pykbroker.pipeline.jobs.audit import AuditSettings, audit
from pykbroker.pipeline.jobs.compact import CompactSettings, compact
from pykbroker.pipeline.jobs.decode import DecodeSettings, decode
from pykbroker.pipeline.jobs.replay import ReplaySettings, replay
from pykbroker.pipeline.jobs.verify import VerifySettings
from pykbroker.pipeline.report import ExitCode
from pykbroker.pipeline.session import PipelineSession, with_data_source
from pykbroker.pipeline.times import CONNECTOR_EXACT_MS, DAY_MS, DAYS_END_MS, FIRST_DAY_MS, date_of, timestamp_of
from pykbroker.producer import Producer
from tests.interop.pipeline.archive_jobs import Archives, running, wait_until
from tests.interop.pipeline.archived_rows import SCHEMA, topic_content, write_archive
from tests.interop.pipeline.both_formats import BothFormats
from tests.interop.pipeline.marks import spark_marks

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOW_MS = 1_764_000_000_000
MICROS_MS, NANOS_MS = NOW_MS * 1000, NOW_MS * 1_000_000
SPARK_MS_MAX = (2**63 - 1) // 1000
TIMES_MS = [
    NOW_MS,
    -1,
    0,
    -2,
    NOW_MS // 1000,
    MICROS_MS,
    NANOS_MS,
    SPARK_MS_MAX,
    SPARK_MS_MAX + 1,
    2**63 - 1,
    -(2**63),
    FIRST_DAY_MS - 1,
    FIRST_DAY_MS,
    DAYS_END_MS - 1,
    DAYS_END_MS,
    CONNECTOR_EXACT_MS - 1,
    CONNECTOR_EXACT_MS,
    -12_219_292_800_001,  # the last day of the Julian calendar
]
EVERY_TIME = {"message_timestamp_after_max_ms": str(2**63 - 1), "message_timestamp_before_max_ms": str(2**63 - 1)}
IDS = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
TEN_DAYS_IN_APIA = 1_324_857_600_000  # 2011-12-26. Apia had no 2011-12-30.

pytestmark = spark_marks()


def day_of(time_ms: int) -> str | None:
    """Return the day of a time in UTC, None outside the years 1 to 9999."""
    try:
        return f"{EPOCH + timedelta(milliseconds=time_ms):%Y-%m-%d}".rjust(10, "0")
    except OverflowError:
        return None


def produce(bootstrap: str, topic: str, times_ms: list[int]) -> None:
    """Produce a record with each time. Every second value is JSON with its index. All of them have one key."""

    async def send() -> None:
        async with Producer(bootstrap_servers=bootstrap) as producer:
            for at, time_ms in enumerate(times_ms):
                sent = await producer.send(topic, b'{"id": %d}' % at if at % 2 else b"bad", b"k", timestamp=time_ms)
                assert (await sent).offset == at

    trio.run(send)


def stored(archives: Archives, target: str) -> list[tuple[int, int, str | None, bool]]:
    """Return offset, time, day and whether there is a timestamp, as pyarrow reads them."""
    table = archives._dataset(target).to_table(columns=["offset", "timestamp_ms", "date", "timestamp"])
    columns = [table.column(name) for name in ("offset", "timestamp_ms", "date")]
    has_time = table.column("timestamp").is_valid()
    return sorted(zip(*(each.to_pylist() for each in (*columns, has_time)), strict=True))


def test_every_time_goes_through_all_jobs(formats: BothFormats, archives: Archives) -> None:
    topic = formats.topic(1, **EVERY_TIME)
    produce(formats.bootstrap, topic, TIMES_MS)
    source = archives.source(topic, maxOffsetsPerTrigger=10)
    expected = [(at, ms, day_of(ms), day_of(ms) is not None) for at, ms in enumerate(TIMES_MS)]

    report = archives.archive(source, "lake")
    assert (report.figures["records"], report.figures["batches"]) == (len(TIMES_MS), 2)
    assert stored(archives, "lake") == expected
    assert "that --connector jvm cannot hold" in "\n".join(archives.lines)
    python = with_data_source(archives.session, archives.lines.append)
    tables = Archives(formats.spark, formats.bootstrap, archives.directory)
    tables.session = python

    def verified() -> None:
        found = archives.verify(archives.source(topic), "lake")
        assert (found.losses, found.figures["records"]) == ([], len(TIMES_MS))

    def replayed() -> None:
        tables.archive(tables.source(topic), "tables/odd", format="iceberg")
        assert tables.verify(tables.source(topic), "tables/odd", "iceberg").losses == []
        copy = formats.topic(1, **EVERY_TIME)
        settings = ReplaySettings(tables.path("tables/odd"), formats.bootstrap, "iceberg", target=copy)
        written = replay(python, settings, print)
        assert (written.exit_code, written.figures["records"]) == (ExitCode.DONE, len(TIMES_MS))
        assert [each.timestamp for each in topic_content(formats.bootstrap, copy)] == TIMES_MS

    def audited() -> None:
        page = archives.directory / "audit.html"
        settings = AuditSettings(archives.source(topic), archives.path("lake"), topics=(topic,), page=str(page))
        found = audit(python, settings, print)
        (partition,) = found.figures["sides"][1]["topics"][0]["partitions"]
        assert (found.losses, partition["low_ms"], partition["high_ms"]) == ([], -(2**63), 2**63 - 1)
        assert partition["undated"] == 1 + sum(day is None for _, _, day, _ in expected)
        assert "without a timestamp of the years 1 to 9999" in page.read_text()

    def compacted() -> None:
        compact(archives.session, CompactSettings(archives.path("lake"), archives.path("state")), print)
        (latest,) = archives.spark.read.parquet(archives.path("state")).select("offset", "timestamp_ms").collect()
        assert tuple(latest) == (len(TIMES_MS) - 1, TIMES_MS[-1])

    formats.at_once(lambda job: job(), [replayed, audited, verified, compacted])


def test_every_time_goes_through_streams_and_decodings(formats: BothFormats, archives: Archives) -> None:
    topic, letters = formats.topic(1, **EVERY_TIME), formats.topic(1, **EVERY_TIME)
    produce(formats.bootstrap, topic, TIMES_MS)
    with running(archives, archives.source(topic), "lake") as ended:
        wait_until(lambda: archives.files("lake") != [] and archives.count("lake") == len(TIMES_MS))
    assert ended().losses == []
    assert stored(archives, "lake") == [(at, ms, day_of(ms), day_of(ms) is not None) for at, ms in enumerate(TIMES_MS)]

    typed = DecodeSettings(archives.source(topic), archives.path("typed"), DecodePlan("json", IDS), letters)
    report = decode(PipelineSession(formats.spark, "jvm", ""), typed, archives.lines.append)
    assert (report.losses, report.figures["good"]) == ([], len(TIMES_MS) // 2)
    good = [(at, ms, day_of(ms), day_of(ms) is not None) for at, ms in enumerate(TIMES_MS) if at % 2]
    assert stored(archives, "typed") == good
    assert [each.timestamp for each in topic_content(formats.bootstrap, letters)] == TIMES_MS[::2]


def test_the_times_of_an_archive_of_before_come_from_its_timestamps(archives: Archives) -> None:
    """The files of earlier versions have no column for the time as Kafka has it."""
    times = [0, -1, -1001, NOW_MS, NOW_MS + 1, CONNECTOR_EXACT_MS, -12_219_292_800_001, FIRST_DAY_MS]
    rows = [(b"k", b"v", "orders", 0, at, EPOCH + timedelta(milliseconds=ms), 0, None) for at, ms in enumerate(times)]
    write_archive(archives.directory / "lake", rows)
    assert {tuple(pq.read_schema(file).names) for file in archives.files("lake")} == {
        tuple(name for name in SCHEMA.names if name != "topic")
    }

    def read(found: ArchivedRecords) -> list[tuple[Any, ...]]:
        time_ms = found.records["timestamp_ms"]
        return [
            tuple(row) for row in found.records.select("offset", time_ms, date_of(time_ms)).orderBy("offset").collect()
        ]

    found = with_archive(archives.spark, VerifySettings(None, archives.path("lake")), "verify", read, print)
    assert found == [(at, ms, day_of(ms)) for at, ms in enumerate(times)]
    compact(archives.session, CompactSettings(archives.path("lake"), archives.path("state")), print)
    (latest,) = archives.spark.read.parquet(archives.path("state")).select("offset", "timestamp_ms").collect()
    assert tuple(latest) == (len(times) - 1, times[-1])


def test_days_are_those_of_utc_in_every_zone(archives: Archives) -> None:
    spark = archives.spark.newSession()
    spark.conf.set("spark.sql.session.timeZone", "Pacific/Apia")
    edges = [
        edge + step for edge in (FIRST_DAY_MS, DAYS_END_MS, -DAY_MS, 0, 2**63 - 2, 1 - 2**63) for step in (-1, 0, 1)
    ]
    times = [
        *edges,
        *range(FIRST_DAY_MS, DAYS_END_MS, DAY_MS * 997 + 1),
        *range(TEN_DAYS_IN_APIA, TEN_DAYS_IN_APIA + 10 * DAY_MS, DAY_MS),
    ]
    from pyspark.sql import functions as f

    rows = spark.createDataFrame([(ms,) for ms in times], "ms bigint")
    micros = f.unix_micros(timestamp_of(f.col("ms")))
    found = rows.select("ms", date_of(f.col("ms")), micros).collect()
    assert [tuple(row) for row in found] == [
        (ms, day_of(ms), None if day_of(ms) is None else ms * 1000) for ms in times
    ]
