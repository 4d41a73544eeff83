"""Timestamps of all 64 bits in the jobs: none, before 1970, in other units than ms, and outside every calendar."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import trio

from pykbroker.pipeline.jobs.audit import AuditSettings, audit
from pykbroker.pipeline.jobs.compact import CompactSettings, compact
from pykbroker.pipeline.jobs.replay import ReplaySettings, replay
from pykbroker.pipeline.report import ExitCode
from pykbroker.pipeline.session import with_data_source
from pykbroker.pipeline.times import CONNECTOR_EXACT_MS, DAY_MS, DAYS_END_MS, FIRST_DAY_MS, date_of, timestamp_of
from pykbroker.producer import Producer
from tests.interop.pipeline.archive_jobs import Archives
from tests.interop.pipeline.archived_rows import topic_content
from tests.interop.pipeline.both_formats import BothFormats

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
TEN_DAYS_IN_APIA = 1_324_857_600_000  # 2011-12-26. Apia had no 2011-12-30.

pytestmark = [
    pytest.mark.timeout(120, func_only=True),  # the session is prepared before the first test
    pytest.mark.filterwarnings("ignore"),  # the Java version and jars of pyspark
]


def day_of(time_ms: int) -> str | None:
    """Return the day of a time in UTC, None outside the years 1 to 9999."""
    try:
        return f"{EPOCH + timedelta(milliseconds=time_ms):%Y-%m-%d}".rjust(10, "0")
    except OverflowError:
        return None


def produce(bootstrap: str, topic: str, times_ms: list[int]) -> None:
    """Produce a record with each time, whose value is its index. All of them have one key."""

    async def send() -> None:
        async with Producer(bootstrap_servers=bootstrap) as producer:
            for at, time_ms in enumerate(times_ms):
                sent = await producer.send(topic, b"%d" % at, b"k", timestamp=time_ms)
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
    verified = archives.verify(archives.source(topic), "lake")
    assert (verified.losses, verified.figures["records"]) == ([], len(TIMES_MS))

    archives.session = with_data_source(archives.session, archives.lines.append)
    archives.archive(archives.source(topic), "tables/odd", format="iceberg")
    assert archives.verify(archives.source(topic), "tables/odd", "iceberg").losses == []

    page = archives.directory / "audit.html"
    found = audit(
        archives.session,
        AuditSettings(archives.source(topic), archives.path("lake"), topics=(topic,), page=str(page)),
        print,
    )
    (partition,) = found.figures["sides"][1]["topics"][0]["partitions"]
    assert (found.losses, partition["low_ms"], partition["high_ms"]) == ([], -(2**63), 2**63 - 1)
    assert partition["undated"] == 1 + sum(day is None for _, _, day, _ in expected)
    assert "without a timestamp of the years 1 to 9999" in page.read_text()

    compact(archives.session, CompactSettings(archives.path("lake"), archives.path("state")), print)
    (latest,) = archives.spark.read.parquet(archives.path("state")).select("offset", "timestamp_ms").collect()
    assert tuple(latest) == (len(TIMES_MS) - 1, TIMES_MS[-1])

    copy = formats.topic(1, **EVERY_TIME)
    written = replay(
        archives.session, ReplaySettings(archives.path("tables/odd"), formats.bootstrap, "iceberg", target=copy), print
    )
    assert (written.exit_code, written.figures["records"]) == (ExitCode.DONE, len(TIMES_MS))
    assert [each.timestamp for each in topic_content(formats.bootstrap, copy)] == TIMES_MS


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
