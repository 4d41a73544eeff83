"""The format `pykbroker` beside Spark's format `kafka`: batch reads of a million rows, and a micro-batch of one row."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from statistics import median

from pykbroker.pipeline.source.registration import register
from pykbroker.producer.settings import producer_settings
from pykbroker.producer.threaded import ThreadedProducer
from tools.bench.row import Figure, Row, Stage, Topic
from tools.bench.rows.spark import micro_batch, session

ROWS_READ = 1_000_000
ROWS_AT_ONCE = 50_000
READS = 3
PYTHON, JVM = "pykbroker", "kafka"
LARGE_POLLS = {"kafka.max.poll.records": "10000"}
HEADERS = (("trace", b"0123456789abcdef"), ("kind", b"order"))


def fill(stage: Stage, topic: Topic, codec: str, *, has_headers: bool) -> None:
    """Write values of 100 bytes, of which 20 are unlike all others, to all partitions in batches of 256 KiB."""
    settings = {"bootstrap_servers": stage.broker.bootstrap, "compression_type": codec, "batch_size": 1 << 18}
    producer = ThreadedProducer("bench", producer_settings(settings))
    headers = [HEADERS] * ROWS_AT_ONCE if has_headers else None
    for start in range(0, ROWS_READ, ROWS_AT_ONCE):
        values = [b"%020d" % row + bytes(80) for row in range(start, start + ROWS_AT_ONCE)]
        partition = start // ROWS_AT_ONCE % topic.partitions
        producer.send_many(topic.name, values, None, headers, partition=partition)
    producer.close()


def read_s(stage: Stage, topic: Topic, kind: str, *, has_headers: bool, options: Mapping[str, str]) -> float:
    """Return the seconds in which Spark reads all rows with all columns."""
    reader = session().read.format(kind).option("kafka.bootstrap.servers", stage.broker.bootstrap)
    rows = reader.options(subscribe=topic.name, includeHeaders=str(has_headers).lower(), **options).load()
    begun = time.perf_counter()
    rows.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begun


def read(stage: Stage, codec: str, *, has_headers: bool) -> Mapping[str, float] | None:
    """Return the rates of both formats in k rows/s, in reads by turns after a first one each, and their ratios."""
    if not stage.peer.spark:
        return None
    register(session())
    ways: dict[str, tuple[str, Mapping[str, str]]] = {
        "python": (PYTHON, {}),
        "jvm": (JVM, {}),
        "large": (JVM, LARGE_POLLS),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    with Topic(stage.broker) as topic:
        fill(stage, topic, codec, has_headers=has_headers)
        for _ in range(READS + 1):
            for name, (kind, options) in ways.items():
                times[name].append(read_s(stage, topic, kind, has_headers=has_headers, options=options))
    rates = {name: ROWS_READ / 1000 / median(found[1:]) for name, found in times.items()}
    ratios = {
        f"over_{name}": median(other / ours for ours, other in zip(times["python"][1:], times[name][1:], strict=True))
        for name in ("jvm", "large")
    }
    return rates | ratios


def micro_batch_of_source(stage: Stage) -> Mapping[str, float] | None:
    """Return the median time that Spark reports for a trigger with one new row."""
    register(session())
    return micro_batch(stage, PYTHON)


FIGURES = {
    "python": Figure("format pykbroker, k rows/s", more_is_better=True, digits=0),
    "jvm": Figure("format kafka, k rows/s", more_is_better=True, digits=0),
    "large": Figure("format kafka, max.poll.records=10000, k rows/s", more_is_better=True, digits=0),
    "over_jvm": Figure("pykbroker over kafka", more_is_better=True),
    "over_large": Figure("pykbroker over kafka, max.poll.records=10000", more_is_better=True),
}

ROWS = (
    Row("Spark, read 1 M rows of 100 B", FIGURES, functools.partial(read, codec="none", has_headers=False)),
    Row("Spark, read 1 M rows of 100 B, lz4, headers", FIGURES, functools.partial(read, codec="lz4", has_headers=True)),
    Row(
        "Spark, micro-batch of one row, format pykbroker",
        {"trigger": Figure("ms", digits=0), "add": Figure("addBatch ms", digits=0)},
        micro_batch_of_source,
    ),
)
