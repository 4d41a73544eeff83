"""Jobs in processes on a topic that grows, what their targets have, and a broker that a test kills and starts again."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.dataset as ds
import pyarrow.parquet as pq

from pykbroker.pipeline.jobs.iceberg import table_name
from tests.interop.pipeline.archived_rows import Archived, topic_content
from tests.interop.pipeline.both_formats import BothFormats
from tests.interop.pipeline.job_process import JobProcess, with_jars_of
from tests.unit.pipeline.decoding.test_columns import record
from tools.bench.peers import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 2
BATCH_RECORDS = 500
KEYS = 3_000
"""The number of keys of the archive that is compacted."""
KILLED_S_MAX = 6.0
"""The longest time between the start of a session, or the first line of progress, and a kill."""
FINISH_S_MAX = 600
BAD_EVERY = 10
TIME_MS = 1_763_971_200_000
KEPT = {"retention_ms": "-1"}
"""The configs of a topic whose records have timestamps of a past year."""
SCHEMA = json.dumps(record(("id", "long")))
Record = tuple[int, int, bytes]
"""The partition, the offset and the value of a record."""


class Node:
    """A broker that a test kills and starts again on its port and its directory."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @property
    def bootstrap(self) -> str:
        return self._broker.bootstrap

    def kill(self) -> None:
        self._broker.child.kill()

    def start(self) -> None:
        self._broker = self._broker.restart()


class GrowingTopic:
    """A topic, and the records that it was given. Every tenth one is no JSON."""

    def __init__(self, formats: BothFormats) -> None:
        self.formats, self.topic = formats, formats.topic(PARTITIONS, **KEPT)
        self.records: Counter[Record] = Counter()

    def grow(self, count: int) -> None:
        """Add records."""
        begin = self.records.total() // PARTITIONS
        offsets = range(begin, begin + count // PARTITIONS)
        for partition in range(PARTITIONS):
            self.formats.feed(self.topic, list(map(value_at, offsets)), partition, TIME_MS)
            self.records.update((partition, offset, value_at(offset).encode()) for offset in offsets)


def value_at(offset: int) -> str:
    """Return the value of the record with an offset."""
    return json.dumps({"id": offset}) if offset % BAD_EVERY else f"no JSON: {offset}"


class Job(NamedTuple):
    """A job with its options, and a function that returns what its target has."""

    name: str
    options: Sequence[str]
    found: Callable[[], Counter[Record]]


def archive_of_files(topic: GrowingTopic, directory: Path) -> Job:
    """Return the archive of a topic as files."""
    target = directory / "lake"

    def found() -> Counter[Record]:
        return Counter((each["partition"], each["offset"], each["value"]) for each in rows_of(target))

    return Job("archive", (*of_topic(topic), "--to", str(target)), found)


def archive_of_table(topic: GrowingTopic, directory: Path) -> Job:
    """Return the archive of a topic as an Iceberg table."""
    target, spark = str(directory / "tables" / "lake"), topic.formats.spark

    def found() -> Counter[Record]:
        name = table_name(spark, target)
        if not spark.catalog.tableExists(name):
            return Counter()
        spark.sql(f"REFRESH TABLE {name}")
        rows = spark.table(name).select("partition", "offset", "value").collect()
        return Counter((each[0], each[1], bytes(each[2])) for each in rows)

    return Job("archive", (*of_topic(topic), "--to", target, "--format", "iceberg"), found)


def decoded_topic(topic: GrowingTopic, directory: Path) -> Job:
    """Return the decoding of a topic. Its target has the values of the columns and of the dead letters."""
    target, letters, schema = directory / "typed", topic.formats.topic(1, **KEPT), directory / "schema.avsc"
    schema.write_text(SCHEMA)

    def found() -> Counter[Record]:
        rows = [(each["partition"], each["offset"], json.dumps(each["value"]).encode()) for each in rows_of(target)]
        dead = topic_content(topic.formats.bootstrap, letters)
        places = [{name.rpartition(".")[2]: value for name, value in each.headers} for each in dead]
        bad = [
            (int(place["partition"]), int(place["offset"]), each.value or b"")
            for place, each in zip(places, dead, strict=True)
        ]
        return Counter([*rows, *bad])

    words = ("--to", str(target), "--format", "json", "--schema", str(schema), "--dead-letters", letters)
    return Job("decode", (*of_topic(topic), *words), found)


def of_topic(topic: GrowingTopic) -> tuple[str, ...]:
    """Return the options that name a topic, whose batches are small."""
    small = ("--kafka", f"maxOffsetsPerTrigger={BATCH_RECORDS}")
    return ("--bootstrap", topic.formats.bootstrap, "--topics", topic.topic, *small)


def rows_of(directory: Path) -> list[dict[str, Any]]:
    """Return the rows of a bare directory, as pyarrow sees them."""
    if next(directory.glob("topic=*/*/*.parquet"), None) is None:
        return []
    return list(ds.dataset(directory, format="parquet", partitioning="hive").to_table().to_pylist())


def with_key(row: Archived) -> Archived:
    """Return a row of an archive with a key that occurs in several rounds. Some rows are tombstones."""
    return (b"key-%d" % (row[4] % KEYS), *row[1:])


def state_of(target: Path) -> dict[bytes, bytes]:
    """Return the state that pyarrow reads from the bare directory, or none."""
    if not target.exists():
        return {}
    rows = pq.read_table(target).to_pylist()
    found = {row["key"]: row["value"] for row in rows}
    assert len(found) == len(rows)
    return found


class Runs:
    """Processes of jobs, one after another, which take the jars of a session."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._jars, self._directory, self._dice = with_jars_of(spark), directory, Random("kills of jobs")
        self.kills = 0
        self.exit_codes: Counter[int] = Counter()
        """The numbers of runs that have ended by themselves."""

    def begin(self, name: str, *options: str) -> JobProcess:
        """Start a job."""
        return JobProcess(self._directory, name, *options, *self._jars)

    def start(self, name: str, *options: str) -> JobProcess:
        """Start a job, and wait until its session opens."""
        scratch = self._directory / uuid.uuid4().hex
        process = self.begin(name, *options, "--spark", f"spark.local.dir={scratch}")
        try:
            process.wait_until(lambda: next(scratch.glob("blockmgr-*"), None) is not None, FINISH_S_MAX)
        except BaseException:
            process.kill()
            raise
        return process

    def kill_one(self, name: str, *options: str) -> None:
        """Run a job, and kill it at a random moment, three times of four after its first line, unless it has ended."""
        process = self.start(name, *options)
        try:
            if self._dice.random() < 0.75:
                process.wait_until(lambda: bool(process.lines()), FINISH_S_MAX)
            ended = process.ended(self._dice.uniform(0, KILLED_S_MAX))
        finally:
            process.kill()
        if ended is None:
            self.kills += 1
        else:
            self.exit_codes[ended[0]] += 1

    def finish(self, name: str, *options: str) -> str:
        """Run a job to its end, which is no error, and return its report."""
        process = self.begin(name, *options)
        try:
            ended = process.ended(FINISH_S_MAX)
        finally:
            process.kill()
        assert ended is not None
        assert ended[0] == 0, process.lines()
        return ended[1]
