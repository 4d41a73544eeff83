"""The job `decode`: the values of topics as typed columns in Parquet files, and bad records in a dead-letter topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.cluster import named, require_topics
from pykbroker.pipeline.decoding.columns import ERROR, FIELDS, KEPT, decode_batches
from pykbroker.pipeline.decoding.plan import DecodePlan, decoding
from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.jobs.archive import FILE_BYTES_MIN, ArchiveJob, ArchiveSettings
from pykbroker.pipeline.jobs.dead_letters import DeadLetters
from pykbroker.pipeline.jobs.parquet import ParquetFiles
from pykbroker.pipeline.jobs.skipped import Check
from pykbroker.pipeline.reading import TopicsToRead
from pykbroker.pipeline.report import JobReport, Say
from pykbroker.pipeline.schema import HEADERS
from pykbroker.pipeline.session import PipelineSession
from pykbroker.pipeline.source.client_options import job_producer
from pykbroker.pipeline.spark_defaults import prefer
from pykbroker.pipeline.spark_errors import explained, tolerating_end
from pykbroker.pipeline.spark_offsets import Ends
from pykbroker.pipeline.storage import Storage
from pykbroker.pipeline.writing.batch_rows import ROWS_KEY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

JOB = "decode"
BATCH_ROWS = 1000
"""The rows of the Arrow batches of a decoding. Batches of 10,000 large records would take much memory."""


class DecodeSettings(msgspec.Struct, frozen=True):
    """The settings of the job. Without `every_s` it stops when it has everything that the topics have at its start.

    Without a topic for `dead_letters`, a bad record stops the job. `producer` has options `kafka.*` of the producer of
    dead letters.
    """

    source: TopicsToRead
    target: str
    plan: DecodePlan
    dead_letters: str = ""
    checkpoint: str = ""
    every_s: float | None = None
    is_moved: bool = False
    """Whether the target was moved to its place with its checkpoint since the last run."""
    producer: Mapping[str, str] = {}


def decode(session: PipelineSession, settings: DecodeSettings, say: Say) -> JobReport:
    """Run the job. Raise PipelineError for a mistake that the user can correct, and if the query fails."""
    decoding(settings.plan)
    letters = _dead_letters(settings)
    sinks: list[DecodedFiles] = []

    def sink(target: Storage) -> DecodedFiles:
        sinks.append(DecodedFiles(session.spark, target, settings.plan, letters, say))
        return sinks[0]

    archiving = ArchiveSettings(
        settings.source,
        settings.target,
        checkpoint=settings.checkpoint,
        every_s=settings.every_s,
        fixed=fixed_options(settings),
        is_moved=settings.is_moved,
    )
    job = ArchiveJob(session, archiving, say, JOB, sink)
    return job.report(
        lambda: {
            "records": job.records,
            "good": sinks[0].good,
            "bad": sinks[0].bad,
            "batches": job.batches,
            "target": settings.target,
            "dead_letters": settings.dead_letters or "none",
        },
        lambda: sinks[0].losses,
    )


def fixed_options(settings: DecodeSettings) -> dict[str, str]:
    """Return the options that decide about each record, and therefore may not change between a batch and its repeat."""
    plan = settings.plan
    return {
        "decoding": f"{plan.format}{'+framing' if plan.framing else ''}",
        "reader_schema": fingerprint(plan.reader),
        "writer_schema": fingerprint(plan.writer),
        "dead_letters": settings.dead_letters,
    }


def fingerprint(schema: str) -> str:
    """Return a text that differs for schemas that differ, and is empty for none."""
    if not schema:
        return ""
    plain = msgspec.json.encode(msgspec.json.decode(schema), order="sorted")
    return sha256(plain).hexdigest()[:16]


def _dead_letters(settings: DecodeSettings) -> DeadLetters | None:
    """Return the dead-letter topic. Raise PipelineError if it is missing, or one of the topics that are read."""
    topic, source = settings.dead_letters, settings.source
    if not topic:
        return None
    if topic in source.topics:
        raise PipelineError(f"{topic} cannot have its own dead letters: name another topic with --dead-letters")
    require_topics(source.cluster().facts(named([topic])), [topic])
    return DeadLetters(topic, job_producer(settings.producer, source.bootstrap))


def decoded(records: DataFrame, plan: DecodePlan) -> DataFrame:
    """Return records with two more columns: `fields` with the decoded value, and `error` with why a value is bad."""
    from pyspark.sql import functions as f

    # Lists that are null are slow in Arrow, see `placed`.
    kept = records.withColumn("headers", f.coalesce("headers", f.lit([]).cast(HEADERS))).select(*KEPT)
    return kept.mapInArrow(partial(decode_batches, plan), decoded_schema(kept, plan))


def decoded_schema(records: DataFrame, plan: DecodePlan) -> StructType:
    """Return the columns of decoded records."""
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StringType, StructType

    fields = from_arrow_type(decoding(plan).type.arrow, prefer_timestamp_ntz=True)
    columns = StructType(list(records.schema.fields))
    return columns.add(FIELDS, fields).add(ERROR, StringType())


def good(records: DataFrame) -> DataFrame:
    """Return the decoded records that are not bad, with their fields in the column `value`."""
    from pyspark.sql import functions as f

    columns = [f.col(FIELDS).alias("value") if name == "value" else f.col(name) for name in KEPT]
    return records.where(f.col(ERROR).isNull()).select(*columns)


class RecordCount(NamedTuple):
    """The numbers of all records and of the bad ones of a partition, and offset and reason of the first bad one."""

    topic: str
    partition: int
    records: int
    bad: int
    first: tuple[int, str] | None


def record_counts(decoded: DataFrame) -> list[RecordCount]:
    """Return the numbers of decoded records, by partition."""
    from pyspark.sql import functions as f

    first = f.min(f.when(f.col(ERROR).isNotNull(), f.struct("offset", ERROR)))
    found = decoded.groupBy("topic", "partition").agg(f.count("*"), f.count(ERROR), first).collect()
    return sorted((RecordCount(*row) for row in found), key=lambda each: each[:2])


class DecodedFiles(ParquetFiles):
    """Parquet files of decoded records.

    `good` counts the records in the files, `bad` those that were not decoded, and `losses` has a sentence for each
    batch in which both are not all records that were read.

    The dead letters of a batch are written before the batch is committed, so that its repeat after a crash finds some
    of them written and skips these.
    """

    columns = ""

    def __init__(
        self, spark: SparkSession, target: Storage, plan: DecodePlan, letters: DeadLetters | None, say: Say
    ) -> None:
        super().__init__(spark, target, FILE_BYTES_MIN, say)
        self._plan, self._letters, self._job = plan, letters, ""
        self.good = self.bad = 0
        self.losses: list[str] = []

    def open(self, run_id: str, *, is_new: bool) -> None:
        """Take the directory for a run, whose dead letters have a group of its own."""
        super().open(run_id, is_new=is_new)
        self._job = f"pykbroker-decode-{run_id}"

    def write(self, records: DataFrame, batch: int, ends: Ends, check: Check) -> int:
        """Write the dead letters and then the files of a batch. Return the number of records that were read."""
        prefer(records.sparkSession, ROWS_KEY, str(BATCH_ROWS))
        with explained():
            every = decoded(records, self._plan).persist()
            try:
                counts = record_counts(every)
                self._write_dead_letters(every, [each for each in counts if each.bad], check)
                written = super().write(good(every), batch, ends, check)
            finally:
                with tolerating_end():  # an error of the block says more
                    every.unpersist()
        read, bad = sum(each.records for each in counts), sum(each.bad for each in counts)
        self.good, self.bad = self.good + written, self.bad + bad
        if written + bad != read:
            self.losses.append(f"batch {batch}: {read:,} records were read, {written:,} are good and {bad:,} are bad")
        return read

    def _write_dead_letters(self, every: DataFrame, counts: Sequence[RecordCount], check: Check) -> None:
        """Write the bad records of a batch, of which `counts` has the partitions."""
        from pyspark.sql import functions as f

        if not counts:
            return
        if self._letters is None:
            topic, partition, *_, first = counts[0]
            assert first is not None, "a partition with bad records has a first one"
            raise PipelineError(
                f"{topic}-{partition}: the record at offset {first[0]} cannot be decoded: {first[1]}. Name a topic for "
                "such records with --dead-letters"
            )
        check({})
        sources = [TopicPartition(each.topic, each.partition) for each in counts]
        self._letters.write(every.where(f.col(ERROR).isNotNull()), sources, self._job)
