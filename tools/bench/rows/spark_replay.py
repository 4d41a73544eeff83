"""Parquet files to a topic by Spark: its own kafka format, and the transactions of `pykbroker pipeline replay`."""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from pykbroker.pipeline.jobs.replay import ReplaySettings, replay
from pykbroker.pipeline.session import PipelineSession
from tools.bench.row import Figure, Row, Stage, Topic
from tools.bench.rows.spark import session

RECORDS, PARTITIONS = 1_000_000, 4
ARCHIVED = (
    "cast(null as binary) key",
    "cast(concat(repeat('x', 90), lpad(cast(id as string), 10, '0')) as binary) value",
    f"cast(id % {PARTITIONS} as int) partition",
    f"id div {PARTITIONS} offset",
    "timestamp_millis(1763971200000 + id div 1000) timestamp",
    "0 timestampType",
    "cast(null as array<struct<key:string,value:binary>>) headers",
    "'bench' topic",
    "'2025-11-24' date",
)
"""The columns of an archive with values of 100 bytes, and a new timestamp every 1000 records."""
TURNS = 2
"""The writes of both kinds, by turns, after a first one each."""


@functools.cache
def archive() -> str:
    """Write the archive of all brokers once, and return its directory, which the process leaves behind."""
    place = Path(tempfile.mkdtemp(prefix="bench-archive-")) / "archive"
    records = session().range(0, RECORDS, 1, PARTITIONS).selectExpr(*ARCHIVED)
    records.write.partitionBy("topic", "date").parquet(str(place))
    return str(place)


def write_s(stage: Stage) -> float:
    """Return the seconds of Spark's kafka format, whose writes are not transactional."""
    source = session().read.parquet(archive())
    with Topic(stage.broker, PARTITIONS) as topic:
        begun = time.perf_counter()
        writer = source.select("value", "partition").write.format("kafka")
        writer.option("kafka.bootstrap.servers", stage.broker.bootstrap).option("topic", topic.name).save()
        return time.perf_counter() - begun


def replay_s(stage: Stage) -> float:
    """Return the seconds of a replay, with the look-ups before and after it."""
    with Topic(stage.broker, PARTITIONS) as topic:
        settings = ReplaySettings(archive(), stage.broker.bootstrap, target=topic.name)
        report = replay(PipelineSession(session(), "jvm", ""), settings, lambda line: None)
    if report.losses:
        raise RuntimeError(report.losses[0])
    return report.seconds


def write(stage: Stage) -> Mapping[str, float] | None:
    """Return the rates of both ways in k records/s, and the ratio of a replay to the write just before it."""
    if not stage.peer.spark:
        return None
    archive()
    turns = [(write_s(stage), replay_s(stage)) for _ in range(TURNS + 1)][1:]
    return {
        "plain": RECORDS / 1000 / median(plain for plain, _ in turns),
        "replay": RECORDS / 1000 / median(replayed for _, replayed in turns),
        "ratio": median(plain / replayed for plain, replayed in turns),
    }


ROWS = (
    Row(
        "Spark, 1 M records of 100 B from Parquet to a topic",
        {
            "plain": Figure("format kafka, k records/s", more_is_better=True, digits=0),
            "replay": Figure("replay in transactions, k records/s", more_is_better=True, digits=0),
            "ratio": Figure("replay over format kafka", more_is_better=True),
        },
        write,
    ),
)
