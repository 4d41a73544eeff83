"""Spark with default options in a warm session: a small batch read, and a micro-batch of one row."""

from __future__ import annotations

import functools
import time
import uuid
from collections.abc import Mapping
from statistics import median
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from tools import spark_session
from tools.bench import volume
from tools.bench.row import Figure, Row, Stage, Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_READ = 1_000
MICRO_BATCHES = 10


@functools.cache
def session() -> SparkSession:
    """Return the session that all rows and brokers share."""
    spark_session.fetch()
    return spark_session.open_session()


def _rows(stage: Stage, topic: Topic) -> DataFrame:
    reader = session().read.format("kafka").option("kafka.bootstrap.servers", stage.broker.bootstrap)
    return reader.option("subscribe", topic.name).load()


def read(stage: Stage) -> Mapping[str, float] | None:
    """Return the seconds to collect the rows of four partitions, in the second of two reads."""
    if not stage.peer.spark:
        return None
    with Topic(stage.broker) as topic:
        volume.produce(stage.broker, topic, ROWS_READ, bytes(100), spread=True)
        for _ in range(2):
            begun = time.perf_counter()
            rows = _rows(stage, topic).select("value").collect()
            seconds = time.perf_counter() - begun
    if len(rows) != ROWS_READ:
        raise RuntimeError(f"{len(rows)} of {ROWS_READ} rows were read")
    return {"seconds": seconds}


def micro_batch(stage: Stage, kind: str = "kafka") -> Mapping[str, float] | None:
    """Return the median time that Spark reports for a trigger with one new row, read by a format."""
    if not stage.peer.spark:
        return None
    with Topic(stage.broker) as topic:
        producer = Producer({"bootstrap.servers": stage.broker.bootstrap, "linger.ms": 0})
        stream = session().readStream.format(kind).option("kafka.bootstrap.servers", stage.broker.bootstrap)
        name = f"bench_{uuid.uuid4().hex[:8]}"
        rows = stream.option("subscribe", topic.name).option("startingOffsets", "earliest").load()
        query = rows.writeStream.format("noop").queryName(name).start()
        try:
            for _ in range(MICRO_BATCHES + 2):
                producer.produce(topic.name, b"row")
                producer.flush(10)
                query.processAllAvailable()
            progress = [step for step in query.recentProgress if step["numInputRows"] == 1][2:]
        finally:
            query.stop()
    return {
        "trigger": median(step["durationMs"]["triggerExecution"] for step in progress),
        "add": median(step["durationMs"]["addBatch"] for step in progress),
    }


ROWS = (
    Row("Spark, read 1,000 rows of 4 partitions", {"seconds": Figure("s")}, read),
    Row(
        "Spark, micro-batch of one row",
        {"trigger": Figure("ms", digits=0), "add": Figure("addBatch ms", digits=0)},
        micro_batch,
    ),
)
