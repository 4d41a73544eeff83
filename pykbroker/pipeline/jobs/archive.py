"""The job `archive`: topics to Parquet files or to an Iceberg table, each record once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.cluster import ClusterFacts, LogEnds, matching, named, require_topics
from pykbroker.pipeline.errors import PipelineError, RecordsLost, StateConflict
from pykbroker.pipeline.jobs.commits import CHECKPOINT, OWN, require_same_ends
from pykbroker.pipeline.jobs.iceberg import IcebergTable, is_directory, require_location
from pykbroker.pipeline.jobs.lost_records import changed_topics, lost_offsets
from pykbroker.pipeline.jobs.parquet import ParquetFiles
from pykbroker.pipeline.jobs.skipped import Check, SkippedRange, before_records, skipped_losses, skipped_ranges
from pykbroker.pipeline.reading import TopicsToRead, read_planned, stream_records
from pykbroker.pipeline.report import JobReport, Say
from pykbroker.pipeline.schema import with_date
from pykbroker.pipeline.session import PipelineSession, continued, retried_by_data_source
from pykbroker.pipeline.spark_checkpoint import begin_partitions, begun_anew, keep_partitions, mend, require_whole
from pykbroker.pipeline.spark_errors import explained, is_loss, loss_reason, sentence, tolerating_end
from pykbroker.pipeline.spark_offsets import (
    SPARK,
    Ends,
    by_partition,
    has_offsets,
    is_done,
    last_done,
    last_planned,
    left_batch,
    missing_ends,
    planned_ends,
    planned_starts,
    reached,
)
from pykbroker.pipeline.state import (
    CONNECTOR,
    MANIFEST,
    TARGET,
    RunManifest,
    note_run,
    planned_run,
    read_manifest,
    remember_topics,
)
from pykbroker.pipeline.storage import Storage, storage_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

JOB = "archive"
LOCK = "lock"
POLL_S = 1
LEFT_POLL_S = 0.1
ONE_BATCH = "365 days"
"""The interval of a query that stops after its first batch."""
IDLE_RUNS_MAX = 3
"""The runs of a query in a row that read nothing, although the ends of the topics are not reached."""
HIDDEN_MAX = 3
"""The batches of a run from which brokers with old metadata may hide a partition, before Spark is right: it is lost."""
AWAY_S_MAX = 600
"""The longest time for which brokers may be away during a run."""
FILE_BYTES_MIN = 16 << 20
"""The size below which files of a day are merged."""
TIDY_BATCHES = 100
"""The number of batches after which a run that does not end merges small files."""


class ArchiveSettings(msgspec.Struct, frozen=True):
    """The settings of the job. Without `every_s` it stops when it has everything that the topics have at its start."""

    source: TopicsToRead
    target: str
    format: Literal["parquet", "iceberg"] = "parquet"
    checkpoint: str = ""
    every_s: float | None = None
    file_bytes_min: int = FILE_BYTES_MIN
    """The size below which files of a day are merged, 0 for never."""
    is_moved: bool = False
    """Whether the target was moved to its place with its checkpoint since the last run."""
    fixed: Mapping[str, str] = {}
    """Further options that may not change over the runs of a checkpoint."""


class PlanChanged(PipelineError):
    """The plan of a batch has other begins now than the query knows, which has to start again."""


class Sink(Protocol):
    """The target of an archive."""

    def require_archive(self) -> None:
        """Raise StateConflict if the target has something that is no archive. Nothing is written yet."""

    def require_run(self, run_id: str, *, is_new: bool) -> None:
        """Raise StateConflict if the target belongs to another run, or is gone. Nothing is written yet."""

    def open(self, run_id: str, *, is_new: bool) -> None:
        """Take the target for a run, and complete what a crash has interrupted."""

    def require_batch(self, batch: int, planned: Callable[[int], Ends]) -> None:
        """Raise StateConflict if the target lacks a batch that the checkpoint counts as written.

        `planned` returns the ends of a batch as the checkpoint has them.
        """

    def archived(self) -> Mapping[TopicPartition, int]:
        """Return the offset up to which batches have read each partition."""

    def committed(self, batch: int, planned: Callable[[int], Ends]) -> Ends | None:
        """Return the ends of a batch, or None if it is not written."""

    def noted(self, batch: int) -> Ends | None:
        """Return the ends that the target itself has noted of a batch, or of all batches up to a later one, or None."""

    def write(self, records: DataFrame, batch: int, ends: Ends, check: Check) -> int:
        """Write a batch in one step, with what a last check returns. Return the number of records."""

    def tidy(self) -> None:
        """Merge small files."""

    def close(self) -> None:
        """Delete what this run has staged and not committed."""


def archive(session: PipelineSession, settings: ArchiveSettings, say: Say) -> JobReport:
    """Run the job. Raise PipelineError for a mistake that the user can correct, and if the query fails."""
    job = ArchiveJob(session, settings, say)
    return job.report(lambda: {"records": job.records, "batches": job.batches, "target": settings.target})


class ArchiveJob:
    """A run of the job, or of another one that writes batches of topics to a sink of its own."""

    def __init__(
        self,
        session: PipelineSession,
        settings: ArchiveSettings,
        say: Say,
        job: str = JOB,
        sink: Callable[[Storage], Sink] | None = None,
    ) -> None:
        self._session, self._settings, self._say, self._job = session, settings, say, job
        source = settings.source
        self._cluster = source.cluster()
        self._wanted = matching(source.pattern) if source.pattern else named(source.topics)
        self._target, self._checkpoint = places(session, settings)
        self._manifest: RunManifest | None = None
        self.records = self.batches = 0
        self.skipped: list[SkippedRange] = []
        given = {name.lower(): value.lower() for name, value in source.options.items()}
        self._may_skip = given.get("failondataloss") == "false"
        self._failure: BaseException | None = None
        self._is_ending = False
        self._hidden = Counter[TopicPartition]()
        self._sink: Sink
        if sink is not None and self._target is not None:
            self._sink = sink(self._target)
        elif self._target is None:
            self._sink = IcebergTable(session.spark, settings.target, settings.file_bytes_min, say)
        elif settings.format == "iceberg":
            self._sink = IcebergTable(session.spark, self._target.directory, settings.file_bytes_min, say)
        else:
            self._sink = ParquetFiles(session.spark, self._target, settings.file_bytes_min, say)

    def report(self, figures: Callable[[], dict[str, Any]], found: Callable[[], list[str]] = list) -> JobReport:
        """Run, and return the report with figures and further losses. An error after a loss is one of the figures.

        Raise PipelineError for an error without a loss.
        """
        begun, lost, error, is_interrupted = time.monotonic(), list[str](), dict[str, str](), False
        try:
            with explained():
                self.run()
        except KeyboardInterrupt:
            self._say(f"{self._job}: interrupted; the next run continues")
            is_interrupted = self._settings.every_s is None
        except RecordsLost as loss:
            lost = [str(loss)]
        except PipelineError as failure:
            if not self.skipped and not found():
                raise
            self._say(f"{self._job}: {failure}")
            error = {"error": str(failure)}
        losses = [*skipped_losses(self.skipped), *lost, *found()]
        return JobReport(self._job, figures() | error, losses, time.monotonic() - begun, is_interrupted)

    def run(self) -> None:
        """Archive until the end of the topics, or for ever."""
        facts = self._cluster.facts(self._wanted)
        require_topics(facts, self._settings.source.topics)
        if not facts.topic_ids:
            raise PipelineError(f"no topic of cluster {facts.cluster_id} matches {self._settings.source.pattern!r}")
        self._sink.require_archive()
        with self._target_lock(), self._checkpoint.lock(LOCK):
            found = self._earlier(facts.cluster_id)
            if self._settings.is_moved:
                self._require_moved(found)
            if found is not None:
                self._session = continued(self._session, found.options.get(CONNECTOR, ""), self._say)
            options, is_new = self._fixed_options(), not has_offsets(self._checkpoint)
            is_moved = self._settings.is_moved
            self._manifest = planned_run(self._checkpoint, self._job, facts, options, is_moved=is_moved)
            self._sink.require_run(self._manifest.run_id, is_new=is_new)
            if found is None:
                note_run(self._checkpoint, self._manifest)  # before the target names the run
            self._sink.open(self._manifest.run_id, is_new=is_new)
            self._check_files(self._manifest.options.get(CONNECTOR, ""), facts.topic_ids.keys())
            self._check_left_out()
            if (done := last_done(self._checkpoint)) is not None:
                self._sink.require_batch(done, self._planned)
            note_run(self._checkpoint, self._manifest)
            self._archive(facts)
            self._sink.tidy()
            self._sink.close()

    def _target_lock(self) -> AbstractContextManager[None]:
        """Keep other runs out of an archive of files, whatever checkpoint they have, also before it has an owner.

        A table has one commit at a time.
        """
        if self._target is None or self._settings.format == "iceberg":
            return nullcontext()
        return self._target.lock(f"{OWN}{LOCK}")

    def _earlier(self, cluster_id: str) -> RunManifest | None:
        """Return the manifest of an earlier run of the job with the cluster, or None without one."""
        found = read_manifest(self._checkpoint) if self._checkpoint.exists(MANIFEST) else None
        return found if found is not None and (found.job, found.cluster_id) == (self._job, cluster_id) else None

    def _require_moved(self, found: RunManifest | None) -> None:
        """Raise PipelineError if the target cannot have been moved, or if its checkpoint is not there."""
        if found is None:
            raise PipelineError(
                f"{self._checkpoint.directory} has no checkpoint of this job and cluster: move that of the target, "
                "too, or name it with --checkpoint"
            )
        if self._settings.format == "iceberg" and self._target is not None:
            require_location(self._session.spark, self._target.directory)

    def _check_files(self, connector: str, topics: AbstractSet[str]) -> None:
        """Mend damaged files of Spark's checkpoint. Raise StateConflict for one that the target cannot mend."""
        for line in mend(self._checkpoint, connector, self._sink.noted, topics):
            self._say(f"{self._job}: {self._checkpoint.directory}/{line}")
        require_whole(self._checkpoint, connector)

    def _check_left_out(self) -> None:
        """Raise StateConflict if a topic of the last batch is left out, unless the run may skip records.

        A batch that a failed run has left counts together with the one that it follows.
        """
        before = {key.topic for key in reached(self._checkpoint)} | (last_planned(self._checkpoint) or {}).keys()
        if left_out := sorted(topic for topic in before if not self._wanted(topic)):
            text = f"topic {', '.join(left_out)} was archived before, and is left out now"
            if not self._may_skip:
                advice = "give --kafka failOnDataLoss=false, until a run has new records. What is archived stays"
                raise StateConflict(f"{text}: to go on without it, {advice}")
            self._say(f"{self._job}: {text}")

    def _fixed_options(self) -> dict[str, str]:
        settings = self._settings
        return {
            "format": settings.format,
            TARGET: settings.target if self._target is None else self._target.directory,
            "records": "committed" if settings.source.committed_only else "uncommitted",
            CONNECTOR: self._session.connector,
            **settings.fixed,
        }

    def _archive(self, facts: ClusterFacts) -> None:
        """Archive until the present ends of the topics, or for ever.

        A partition that does not begin where Spark would begin it stops a query, which starts again then.
        """
        ends = self._cluster.ends(facts)
        self._begin(ends.first)
        while True:
            try:
                if self._settings.every_s is None:
                    self._reach(ends)
                else:
                    self._run_query({"processingTime": f"{self._settings.every_s} seconds"})
            except PlanChanged:
                continue
            except RecordsLost as loss:
                if not self._begin(self._starts(loss), is_lost=True):
                    raise
            else:
                return

    def _starts(self, loss: RecordsLost) -> Mapping[TopicPartition, int]:
        """Return the starts of the logs. Raise the loss that Spark has found if the brokers do not answer."""
        planned = {*reached(self._checkpoint), *begun_anew(self._checkpoint)}
        try:
            return self._with_hidden(self._cluster.ends(self._cluster.facts(self._wanted)).first, planned)
        except PipelineError:
            raise loss from None

    def _with_hidden(
        self, starts: Mapping[TopicPartition, int], planned: AbstractSet[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        """Return starts with those of planned partitions that a broker with old metadata has hidden from this job."""
        hidden = planned - starts.keys()
        return {**starts, **self._cluster.first_offsets(hidden)} if hidden else starts

    def _begin(self, starts: Mapping[TopicPartition, int], *, is_lost: bool = False) -> bool:
        """Note the start of each partition that the next batch would begin at another offset. Return whether any is.

        `starts` are those of existing logs. `is_lost`: Spark takes records of the batch for lost ones.
        """
        if self._may_skip:
            starts = self._with_hidden(starts, begun_anew(self._checkpoint))
        existing = [key for key in starts if self._hidden[key] < HIDDEN_MAX]
        kept = keep_partitions(self._checkpoint, existing)
        self._hidden.update(kept.keys())
        for key, offset in sorted(kept.items()):
            self._say(f"{self._job}: {key} is not in the plan of the next batch, and stays at offset {offset} there")
        resumed, new = begin_partitions(
            self._checkpoint, starts, self._sink.archived, may_skip=self._may_skip, is_lost=is_lost
        )
        for key, offset in sorted(resumed.items()):
            self._say(f"{self._job}: {key} goes on at offset {offset}, up to which it was archived before")
        for key, offset in sorted(new.items()):
            if offset:
                self._say(f"{self._job}: {key} is new, and begins at offset {offset}, where its log begins")
        return bool(kept or resumed or new)

    def _reach(self, ends: LogEnds) -> None:
        """Archive until the ends of the logs. Raise PipelineError if Spark stops before them again and again.

        Spark 4.0 and 4.1 end a query of the connector "python" after a batch that a crash has left.
        """
        wanted, idle = ends.next, 0
        while True:
            self._finish_left()
            self._begin(ends.first)
            before = reached(self._checkpoint)
            self._run_query({"availableNow": True})
            now = before | reached(self._checkpoint)  # the last batch lacks a partition that old metadata hides
            if not (missing := missing_ends(now, wanted)):
                return
            if self._may_skip:
                wanted = self._cut(wanted)
            idle = idle + 1 if now == before else 0
            if idle == IDLE_RUNS_MAX:
                raise PipelineError(
                    f"Spark has stopped before the ends that the topics had at the start of the run: "
                    f"{'; '.join(missing)}. Start the job again"
                )

    def _finish_left(self) -> None:
        """Finish the batch that an earlier run has left.

        The trigger AvailableNow refuses to repeat it if partitions have come or gone since (SPARK-53560).
        """
        while (left := left_batch(self._checkpoint)) is not None:
            self._run_query({"processingTime": ONE_BATCH}, left)
            if not is_done(self._checkpoint, left):
                raise PipelineError(f"Spark has stopped before batch {left} was done: start the job again")

    def _cut(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return ends without what the topics have lost meanwhile."""
        now = self._cluster.ends(self._cluster.facts(self._wanted)).next
        return {key: min(end, now[key]) for key, end in ends.items() if key in now}

    def _run_query(self, trigger: Mapping[str, Any], last: int | None = None) -> None:
        """Run a query until it ends, or until the batch `last` is done."""
        self._failure, self._is_ending = None, False
        query = self._start(trigger)
        try:
            poll_s: Any = POLL_S if last is None else LEFT_POLL_S  # a fraction of a second is allowed
            while not query.awaitTermination(poll_s):
                if last is not None and is_done(self._checkpoint, last):
                    break
            if self._failure is not None:  # Spark ends a query without an error if it fails itself with a long one
                raise self._failure
        except Exception as error:
            raise self._explained(error) from error
        finally:
            self._is_ending = True
            with tolerating_end():
                query.stop()

    def _start(self, trigger: Mapping[str, Any]) -> StreamingQuery:
        records = stream_records(self._session, self._settings.source)
        writer = records.writeStream.foreachBatch(self._write).trigger(**trigger)
        return writer.option("checkpointLocation", f"{self._checkpoint.directory}/{SPARK}").start()

    def _write(self, records: DataFrame, batch: int) -> None:
        """Write one batch. Spark repeats the last one after a crash, with the same records."""
        try:
            self._write_once(records, batch)
        except BaseException as error:
            self._failure = error
            raise

    def _write_once(self, records: DataFrame, batch: int) -> None:
        begun = time.monotonic()
        ends = self._planned(batch)
        before = planned_ends(self._checkpoint, batch - 1, or_start=True) if batch else ends
        new = by_partition(ends).keys() - by_partition(before).keys()
        if new:
            self._begin_new(batch, new)
        written = self._sink.committed(batch, self._planned)
        if written is not None:
            require_same_ends(batch, written, ends, self._settings.target, before if batch else {})
            self._say(f"{self._job}: batch {batch} is written already")
            return
        skipped = self._check(batch, ends, {})
        if new and not self._may_skip:  # Spark has found that new topics begin at 0
            self._begin(dict.fromkeys(new, 0))  # what they lose from now on is a loss
        self._checkpoint.sync(f"{SPARK}/offsets/{batch}")  # a repeat with other ends would be refused

        def check(firsts: Mapping[TopicPartition, int]) -> list[SkippedRange]:
            nonlocal skipped
            found = self._check(batch, ends, firsts)
            skipped = found or skipped
            return found

        count = self._written(records, batch, ends, check)
        self.skipped += skipped
        for loss in skipped_losses(skipped):
            self._say(f"{self._job}: {loss}")
        self.records, self.batches = self.records + count, self.batches + 1
        self._say(f"{self._job}: batch {batch}: {count:,} records in {time.monotonic() - begun:.1f} s")
        if self.batches % TIDY_BATCHES == 0:
            self._sink.tidy()

    def _begin_new(self, batch: int, new: AbstractSet[TopicPartition]) -> None:
        """Raise PlanChanged if partitions that are new in a batch begin elsewhere than where Spark begins them.

        An earlier batch has read them: their topic was left out, or a broker with old metadata has hidden them from the
        batch before. A query that may skip records may have left them out.
        """
        starts = self._sink.archived()
        if self._may_skip:
            facts = self._cluster.facts(self._wanted, AWAY_S_MAX, lambda: self._is_ending)
            starts = self._cluster.ends(facts).first
        if self._begin({key: starts[key] for key in new if key in starts}):
            raise PlanChanged(f"batch {batch} has new begins of {', '.join(map(str, sorted(new)))}")

    def _written(self, records: DataFrame, batch: int, ends: Ends, check: Check) -> int:
        """Write the records of a batch, or the same ones as the data source `pykbroker` reads them."""

        def write(session: PipelineSession) -> int:
            found = records
            if session.connector != self._session.connector:
                starts = planned_starts(self._checkpoint, batch)
                found = read_planned(session, self._settings.source, starts, ends)
            return self._sink.write(with_date(found), batch, ends, check)

        of_batch = self._session._replace(spark=records.sparkSession)
        return retried_by_data_source(of_batch, write, lambda line: self._say(f"{self._job}: batch {batch}: {line}"))

    def _planned(self, batch: int) -> Ends:
        """Return the ends of a batch as Spark has planned them."""
        return planned_ends(self._checkpoint, batch)

    def _check(self, batch: int, ends: Ends, firsts: Mapping[TopicPartition, int]) -> list[SkippedRange]:
        """Raise StateConflict if a topic was created again, and remember the ids of new topics.

        A batch is checked before and after its records are read, so that all of them are of the remembered topics.
        Return the offsets that it skips, of which none is behind the first records that it has read.
        """
        assert self._manifest is not None, "a query runs after its manifest is written"
        facts = self._cluster.facts(self._wanted, AWAY_S_MAX, lambda: self._is_ending)
        self._manifest = remember_topics(self._checkpoint, self._manifest, facts.topic_ids)
        if not self._may_skip:
            return []
        found = skipped_ranges(planned_starts(self._checkpoint, batch), ends, self._cluster.ends(facts).first)
        return before_records(found, firsts)

    def _explained(self, error: Exception) -> PipelineError:
        """Return the error of a query as a sentence."""
        failure = self._failure or error
        cause = failure.__cause__ if isinstance(failure, PipelineError) else failure
        is_lost = cause is not None and is_loss(cause)
        if isinstance(failure, PipelineError) and not is_lost:
            return failure
        trouble = self._trouble_of_topics(is_lost=is_lost)
        if cause is not None and is_lost:
            advice = "if that is known, go on with the rest by --kafka failOnDataLoss=false"
            return RecordsLost(f"{trouble or loss_reason(cause)}; {advice}")
        return PipelineError(trouble or sentence(failure))

    def _trouble_of_topics(self, *, is_lost: bool) -> str:
        """Return what has happened to the topics of a query that has failed, or nothing."""
        assert self._manifest is not None, "a query runs after its manifest is written"
        try:
            facts = self._cluster.facts(self._wanted, POLL_S)
            changed = changed_topics(self._manifest.topic_ids, facts, self._settings.source.topics)
            if changed or not is_lost:
                return changed
            return "; ".join(lost_offsets(reached(self._checkpoint), self._cluster.ends(facts)))
        except PipelineError as error:
            return "" if is_lost else str(error)  # Spark has found the loss


def places(session: PipelineSession, settings: ArchiveSettings) -> tuple[Storage | None, Storage]:
    """Return the storage of the target, None for a table of a catalog, and that of the checkpoint.

    A checkpoint lies inside an archive of files, and beside a table, whose directory belongs to the table alone.
    """
    spark, is_table = session.spark, settings.format == "iceberg"
    given = storage_of(spark, settings.checkpoint) if settings.checkpoint else None
    if is_table and not is_directory(settings.target):
        if given is None:
            raise PipelineError(f"{settings.target} is a table of a catalog: name a directory with --checkpoint")
        return None, given
    target = storage_of(spark, settings.target)
    beside = target.sibling(".checkpoint") if is_table else storage_of(spark, f"{target.directory}/{CHECKPOINT}")
    return target, given or beside
