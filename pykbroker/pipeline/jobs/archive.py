"""The job `archive`: topics to Parquet files or to an Iceberg table, each record once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from pykbroker.pipeline.cluster import ClusterFacts, PipelineCluster, matching, named, require_topics
from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.jobs.commits import ArchiveCommit, ArchiveCommits, ArchivedRange
from pykbroker.pipeline.jobs.iceberg import IcebergTable
from pykbroker.pipeline.jobs.small_files import merge_small_files
from pykbroker.pipeline.reading import TopicsToRead, stream_records
from pykbroker.pipeline.report import JobReport, Say
from pykbroker.pipeline.schema import IDENTITY, with_date
from pykbroker.pipeline.session import PipelineSession
from pykbroker.pipeline.state import RunManifest, begin_run, require_same_topics
from pykbroker.pipeline.storage import Storage, storage_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

JOB = "archive"
PARTITIONED_BY = ("topic", "date")
CHECKPOINT = "_pykbroker/checkpoint"
POLL_S = 1


class ArchiveSettings(msgspec.Struct, frozen=True):
    """The settings of the job. Without `every_s` it stops when it has everything that the topics have at its start."""

    source: TopicsToRead
    target: str
    format: Literal["parquet", "iceberg"] = "parquet"
    checkpoint: str = ""
    every_s: float | None = None
    file_bytes_min: int = 16 << 20
    """The size below which Parquet files of a day are merged, 0 for never."""


class Sink(Protocol):
    """The target of an archive."""

    def open(self, run_id: str) -> None:
        """Take the target for a run. Raise StateConflict if it belongs to another."""

    def is_committed(self, batch: int) -> bool:
        """Whether a batch is written."""

    def write(self, records: DataFrame, batch: int, check: Callable[[], None]) -> int:
        """Write a batch in one step, after a last check. Return the number of records."""

    def finish(self) -> None:
        """Tidy up after the last batch."""


def archive(session: PipelineSession, settings: ArchiveSettings, say: Say) -> JobReport:
    """Run the job. Raise PipelineError for a mistake that the user can correct, and if the query fails."""
    begun = time.monotonic()
    job = ArchiveJob(session, settings, say)
    try:
        job.run()
    except KeyboardInterrupt:
        say("archive: interrupted; the next run continues")
    figures = {"records": job.records, "batches": job.batches, "target": settings.target}
    return JobReport(JOB, figures, [], time.monotonic() - begun)


class ArchiveJob:
    """A run of the job."""

    def __init__(self, session: PipelineSession, settings: ArchiveSettings, say: Say) -> None:
        self._session, self._settings, self._say = session, settings, say
        source = settings.source
        self._cluster = PipelineCluster(source.bootstrap, committed_only=source.committed_only)
        self._wanted = matching(source.pattern) if source.pattern else named(source.topics)
        self._target = storage_of(session.spark, settings.target)
        self._checkpoint = _checkpoint(session, settings, self._target)
        self._manifest: RunManifest | None = None
        self.records = self.batches = 0
        self._failure: BaseException | None = None
        if settings.format == "iceberg":
            self._sink: Sink = IcebergTable(session.spark, self._target.directory)
        else:
            self._sink = ParquetSink(session, self._target, settings.file_bytes_min, say)

    def run(self) -> None:
        """Archive until the end of the topics, or for ever."""
        facts = self._facts()
        require_topics(facts, self._settings.source.topics)
        if not facts.topic_ids:
            raise PipelineError(f"no topic of cluster {facts.cluster_id} matches {self._settings.source.pattern!r}")
        options = {"format": self._settings.format, "target": self._target.directory}
        self._manifest = begin_run(self._checkpoint, JOB, facts, options)
        self._sink.open(self._manifest.run_id)
        query = self._start()
        try:
            while not query.awaitTermination(POLL_S):
                pass
        except Exception as error:
            raise self._explained(error) from error
        finally:
            query.stop()
        self._sink.finish()

    def _facts(self) -> ClusterFacts:
        return self._cluster.facts(self._wanted)

    def _start(self) -> StreamingQuery:
        records = stream_records(self._session, self._settings.source)
        every = self._settings.every_s
        trigger: dict[str, Any] = {"availableNow": True} if every is None else {"processingTime": f"{every} seconds"}
        writer = records.writeStream.foreachBatch(self._write).trigger(**trigger)
        return writer.option("checkpointLocation", f"{self._checkpoint.directory}/spark").start()

    def _write(self, records: DataFrame, batch: int) -> None:
        """Write one batch. Spark repeats the last one after a crash, with the same records."""
        try:
            if self._sink.is_committed(batch):
                return
            begun = time.monotonic()
            count = self._sink.write(with_date(records), batch, self._check_topics)
        except BaseException as error:
            self._failure = error
            raise
        self.records, self.batches = self.records + count, self.batches + 1
        self._say(f"archive: batch {batch}: {count:,} records in {time.monotonic() - begun:.1f} s")

    def _check_topics(self) -> None:
        """Raise StateConflict if a topic was created again while the batch was read."""
        assert self._manifest is not None, "a query runs after its manifest is written"
        require_same_topics(self._manifest.topic_ids, self._facts().topic_ids, self._checkpoint.directory)

    def _explained(self, error: Exception) -> PipelineError:
        """Return the error of a query as a sentence."""
        if isinstance(self._failure, PipelineError):
            return self._failure
        lines = [line for line in str(error).splitlines() if line.strip()]
        return PipelineError(f"the query stopped: {lines[0] if lines else type(error).__name__}")


def _checkpoint(session: PipelineSession, settings: ArchiveSettings, target: Storage) -> Storage:
    """Return the storage of the checkpoint: inside an archive of files, and beside a table, whose files are its own."""
    if settings.checkpoint:
        return storage_of(session.spark, settings.checkpoint)
    if settings.format == "iceberg":
        return target.sibling(".checkpoint")
    return storage_of(session.spark, f"{target.directory}/{CHECKPOINT}")


class ParquetSink:
    """An archive of Parquet files, in a directory for each topic and day."""

    def __init__(self, session: PipelineSession, target: Storage, file_bytes_min: int, say: Say) -> None:
        self._spark, self._target, self._say = session.spark, target, say
        self._staging, self._file_bytes_min = target.sibling(".staging"), file_bytes_min
        self._commits = ArchiveCommits(target, self._staging)

    def open(self, run_id: str) -> None:
        self._commits.open(run_id)

    def is_committed(self, batch: int) -> bool:
        return self._commits.is_committed(batch)

    def write(self, records: DataFrame, batch: int, check: Callable[[], None]) -> int:
        directory = f"batch-{batch}"
        self._staging.delete(directory)
        path = f"{self._staging.directory}/{directory}"
        sorted_ = records.sortWithinPartitions("topic", "date", "partition", "offset")
        sorted_.write.partitionBy(*PARTITIONED_BY).parquet(path)
        files = [file.path for file in self._staging.files(directory) if file.path.endswith(".parquet")]
        ranges = self._ranges(path) if files else []
        check()
        targets = {name: name.removeprefix(f"{directory}/").replace("part-", f"batch-{batch}-", 1) for name in files}
        self._commits.commit(ArchiveCommit(batch, targets, ranges))
        self._staging.delete(directory)
        return sum(each.count for each in ranges)

    def _ranges(self, path: str) -> list[ArchivedRange]:
        """Return what a batch has of each partition. Only two columns of its files are read."""
        from pyspark.sql import functions as f

        rows = self._spark.read.schema("topic string, partition int, offset bigint").parquet(path)
        found = rows.groupBy(*IDENTITY[:2]).agg(f.min("offset"), f.max("offset"), f.count("*"))
        return [ArchivedRange(*row) for row in sorted(found.collect())]

    def finish(self) -> None:
        if self._file_bytes_min:
            merge_small_files(self._spark, self._target, self._staging, self._file_bytes_min, self._say)
        self._staging.delete()
