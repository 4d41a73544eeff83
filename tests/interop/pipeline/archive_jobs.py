"""Archives in a temporary directory, and what readers of the bare directory see in them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.jobs.archive import ArchiveSettings, archive
from pykbroker.pipeline.jobs.verify import VerifySettings, verify
from pykbroker.pipeline.reading import TopicsToRead
from pykbroker.pipeline.report import JobReport
from pykbroker.pipeline.session import PipelineSession
from tests.interop.pipeline.both_formats import PATIENCE_S, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class Archives:
    """The jobs `archive` and `verify` between a broker and a directory. `lines` are the lines of their progress."""

    def __init__(self, spark: SparkSession, bootstrap: str, directory: Path) -> None:
        self.spark, self.bootstrap, self.directory = spark, bootstrap, directory
        self.session = PipelineSession(spark, "jvm", "")
        self.lines: list[str] = []

    def source(self, *topics: str, pattern: str = "", committed_only: bool = True, **options: Any) -> TopicsToRead:
        """Return the topics to read. Names of options have underscores for dots."""
        named = {key.replace("_", "."): str(value) for key, value in options.items()}
        return TopicsToRead(self.bootstrap, topics, pattern, named, committed_only=committed_only)

    def archive(self, source: TopicsToRead, target: str, **settings: Any) -> JobReport:
        """Run the job `archive` into a directory below this one."""
        return archive(self.session, ArchiveSettings(source, self.path(target), **settings), self.lines.append)

    def verify(self, source: TopicsToRead, target: str, format_: str = "parquet") -> JobReport:
        """Run the job `verify`."""
        return verify(self.session, VerifySettings(source, self.path(target), format_), self.lines.append)

    def prove(self, target: str, format_: str = "parquet", *topics: str) -> JobReport:
        """Run the job `verify` without brokers."""
        return verify(self.session, VerifySettings(None, self.path(target), format_, topics), self.lines.append)

    def path(self, target: str) -> str:
        """Return the path of an archive."""
        return str(self.directory / target)

    def files(self, target: str) -> list[Path]:
        """Return the Parquet files of an archive, sorted."""
        return sorted((self.directory / target).rglob("*.parquet"))

    def count(self, target: str) -> int:
        """Return the number of rows of an archive, from the footers of its files."""
        return int(self._dataset(target).count_rows())

    def rows(self, target: str) -> list[Row]:
        """Return the rows of an archive as pyarrow reads them, in the form of Spark's rows, sorted."""
        table = self._dataset(target).to_table()
        rows = [
            (
                row["key"],
                row["value"],
                row["topic"],
                row["partition"],
                row["offset"],
                row["timestamp"].astimezone().replace(tzinfo=None),
                row["timestampType"],
                row["headers"] and [(each["key"], each["value"]) for each in row["headers"]],
            )
            for row in table.to_pylist()
        ]
        return sorted(rows, key=lambda row: row[2:5])

    def positions_by_duckdb(self, target: str) -> list[tuple[str, int, int]]:
        """Return topic, partition and offset of the rows of an archive as DuckDB reads them, sorted."""
        query = """
            SELECT topic, partition, "offset"
            FROM read_parquet(?, hive_partitioning = true)
            ORDER BY ALL
        """
        with duckdb.connect() as database:
            return database.execute(query, [f"{self.directory / target}/topic=*/*/*.parquet"]).fetchall()

    def _dataset(self, target: str) -> ds.Dataset:
        return ds.dataset(self.directory / target, format="parquet", partitioning=PARTITIONING)


@contextmanager
def running(archives: Archives, *arguments: Any, **settings: Any) -> Iterator[Callable[[], Any]]:
    """Run the job in a thread until its query is stopped. The yielded function waits for its report or its error."""
    result: list[Any] = []

    def run() -> None:
        try:
            result.append(archives.archive(*arguments, every_s=0.2, **settings))
        except PipelineError as error:
            result.append(error)

    def ended() -> Any:
        thread.join(PATIENCE_S * 2)
        return result[0]

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield ended
    finally:
        for query in archives.spark.streams.active:
            wait_until(partial(is_between_batches, query))
            query.stop()  # in the middle of a batch it would be an error of the batch
        thread.join(PATIENCE_S)


def is_between_batches(query: StreamingQuery) -> bool:
    """Whether a query has ended or waits for its next batch."""
    return not (query.isActive and query.status["isTriggerActive"])


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + PATIENCE_S * 2
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


PARTITIONING = ds.partitioning(pa.schema([("topic", pa.string()), ("date", pa.string())]), flavor="hive")


def edit(path: Path, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    """Change the rows of a Parquet file."""
    table = pq.read_table(path, partitioning=None)
    rows = change(table.to_pylist())
    for row in rows:
        row["headers"] = row["headers"] and [{"key": each["key"], "value": each["value"]} for each in row["headers"]]
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
