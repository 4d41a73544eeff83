"""The job `replay`: the records of an archive back to topics, each once, in the order of their partitions."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.bounds import between, condition, parse_bound
from pykbroker.pipeline.cluster import ClusterFacts, PipelineCluster, named, require_topics
from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.jobs.archived import ArchivedRecords, require_settled, with_archive
from pykbroker.pipeline.jobs.commits import OWNER, ArchivedRange, ArchiveOwner, decoded
from pykbroker.pipeline.jobs.differences import range_columns, ranges_by_partition
from pykbroker.pipeline.jobs.iceberg import is_directory, table_name, table_run
from pykbroker.pipeline.jobs.shortfalls import Claimed, has_checksums, require_claimed, require_newer
from pykbroker.pipeline.quantities import counted
from pykbroker.pipeline.report import JobReport, Say
from pykbroker.pipeline.session import PipelineSession
from pykbroker.pipeline.source.client_options import job_producer, security_of
from pykbroker.pipeline.spark_errors import explained
from pykbroker.pipeline.storage import LocalStorage, storage_of
from pykbroker.pipeline.writing.batch_rows import limit_batches
from pykbroker.pipeline.writing.pace import WritePace
from pykbroker.pipeline.writing.placement import placed, with_source
from pykbroker.pipeline.writing.position import PositionPlace, SourcePosition
from pykbroker.pipeline.writing.task import WritePlan, write_records
from pykbroker.pipeline.writing.writer import WriteTarget, read_positions, read_settled_positions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JOB = "replay"
TOPIC = "{topic}"
"""The place of the source topic's name in the name of a target."""
PartitionBy = Literal["partition", "key"]


class ReplaySettings(msgspec.Struct, frozen=True):
    """The settings of the job.

    `target` is the name of the target topic, in which `{topic}` stands for that of the source. `renamed` has further
    names. `start` and `end` are bounds as in `parse_bound`. `rate` is in records a second. `options` are settings of
    the producer with the prefix `kafka.`.
    """

    archive: str
    bootstrap: str
    format: Literal["parquet", "iceberg"] = "parquet"
    topics: tuple[str, ...] = ()
    target: str = ""
    renamed: Mapping[str, str] = {}
    partition_by: PartitionBy = "partition"
    job: str = ""
    start: str = ""
    end: str = ""
    rate: float | None = None
    options: Mapping[str, str] = {}


def replay(session: PipelineSession, settings: ReplaySettings, say: Say) -> JobReport:
    """Run the job. Raise PipelineError for a mistake that the user can correct, and if a task fails."""
    begun, starts = time.monotonic(), dict[TopicPartition, SourcePosition]()
    spark = session.spark.newSession()
    report = with_archive(spark, settings, JOB, lambda archived: _replayed(spark, settings, archived, starts, say), say)
    report.seconds = time.monotonic() - begun
    return report


def _replayed(
    spark: SparkSession,
    settings: ReplaySettings,
    archived: ArchivedRecords,
    starts: dict[TopicPartition, SourcePosition],
    say: Say,
) -> JobReport:
    """Write what is not written yet. It may be repeated: `starts` keeps the positions at which the job has begun."""
    require_settled(archived, settings.archive)
    spans = read_spans(archived, settings)
    records = between(archived.records, parse_bound(settings.start), parse_bound(settings.end))
    topics = target_topics(settings, {key.topic for key in spans})
    cluster = PipelineCluster(settings.bootstrap, security_of(settings.options))
    facts = cluster.facts(named(topics.values()))
    require_topics(facts, topics.values())
    _check_targets(cluster, spans, topics, facts, settings, say)
    job = settings.job or job_name(settings, archive_place(spark, settings))
    sources = sorted(spans)
    identity = archive_identity(spark, settings)
    targets = [write_target(job, identity, key, topics[key.topic], facts, settings) for key in sources]
    now = read_positions(cluster, targets)
    before = [starts.setdefault(key, position) for key, position in zip(sources, now, strict=True)]
    say(f"replay: job {job}: {_progress(spans, sources, before)}")
    plan = WritePlan(
        job_producer(settings.options, settings.bootstrap),
        tuple(targets),
        WritePace(rate_of_task(spark, settings, len(sources))),
    )
    rest = unwritten(records, sources, before)
    if any(each.offset for each in before):
        spans = ranges_by_partition(rest)
    limit_batches(spark, records)
    if spans:
        with explained():
            write_records(placed(rest, len(sources)), plan)
    after = read_settled_positions(cluster, targets)
    figures = {
        "job_name": job,
        "records": sum(each.records for each in after) - sum(each.records for each in before),
        "written_before": sum(each.records for each in before),
        "partitions": len(sources),
        "targets": sorted(set(topics.values())),
    }
    expected = {key: each.count for key, each in spans.items()}
    return JobReport(JOB, figures, losses(expected, sources, before, after))


def read_spans(archived: ArchivedRecords, settings: ReplaySettings) -> dict[TopicPartition, ArchivedRange]:
    """Return the range of each partition that lies between the bounds.

    Raise PipelineError if the archive lacks what it claims to have.
    """
    claimed, records = archived.claims.ranges, archived.records
    if not claimed:
        return ranges_by_partition(between(records, parse_bound(settings.start), parse_bound(settings.end)))
    spans = claimed_spans(claimed, span_rows(records, settings, has_checksum=has_checksums(claimed)), settings)
    require_newer(archived.claims, records, settings.archive, settings.topics)
    return spans


def span_rows(records: DataFrame, settings: ReplaySettings, *, has_checksum: bool) -> list[tuple[Any, ...]]:
    """Return the range of each partition, and the first offset, the last one and the number between the bounds.

    One scan counts and sums all records, since a claim is about all of a partition.
    """
    from pyspark.sql import functions as f

    start, end = parse_bound(settings.start), parse_bound(settings.end)
    inside = f.expr(f"({condition(start, is_end=False)}) and ({condition(end, is_end=True)})")
    offset = f.when(inside, f.col("offset"))
    every = *range_columns(has_checksum=has_checksum), f.min(offset), f.max(offset), f.count(offset)
    return [tuple(row) for row in records.groupBy("topic", "partition").agg(*every).collect()]


def claimed_spans(
    claimed: Claimed, rows: Iterable[tuple[Any, ...]], settings: ReplaySettings
) -> dict[TopicPartition, ArchivedRange]:
    """Return the range of each partition that lies between the bounds. Raise PipelineError if the records of all
    partitions are not as claimed.

    Each row has the range of a partition, and the first offset, the last one and the number between the bounds.
    """
    ranges = {ArchivedRange.of(*row[:6]): ArchivedRange.of(*row[:2], *row[6:]) for row in rows}
    require_claimed(claimed, ranges, settings.archive, settings.topics)
    return {each.key: span for each, span in ranges.items() if span.count}


# ---- what is written where


def target_topics(settings: ReplaySettings, archived: Collection[str]) -> dict[str, str]:
    """Return the target of each topic. Raise PipelineError for a topic that the archive lacks or that has no target."""
    if missing := sorted({*settings.topics, *settings.renamed} - set(archived)):
        raise PipelineError(f"{settings.archive} has no records of {', '.join(missing)} between the bounds")
    found: dict[str, str] = {}
    for topic in sorted(archived):
        target = settings.renamed.get(topic, settings.target.replace(TOPIC, topic))
        if not target:
            raise PipelineError(f"{topic} has no target: give one with --to or --rename {topic}=TARGET")
        if other := [source for source, name in found.items() if name == target]:
            raise PipelineError(
                f"{other[0]} and {topic} would both go to {target}, where the order of their records is lost: replay "
                "each with a command and a --job of its own, or give a name with {topic} to --to"
            )
        found[topic] = target
    return found


def job_name(settings: ReplaySettings, place: str) -> str:
    """Return the default name of a job, which is the same for the same archive at `place` and the same targets."""
    parts = [place, settings.format, settings.target, *map("=".join, sorted(settings.renamed.items()))]
    return f"pykbroker-replay-{sha256(chr(0).join(parts).encode()).hexdigest()[:10]}"


def archive_place(spark: SparkSession, settings: ReplaySettings) -> str:
    """Return the place of an archive in one spelling: the path without links, the full URI, or the table's name."""
    if settings.format == "iceberg" and not is_directory(settings.archive):
        return settings.archive
    storage = storage_of(spark, settings.archive)
    return os.path.realpath(storage.directory) if isinstance(storage, LocalStorage) else storage.directory


def archive_identity(spark: SparkSession, settings: ReplaySettings) -> str:
    """Return the random id of the run that has made an archive, or the archive's place if no job has made it."""
    if settings.format == "iceberg":
        run_id = table_run(spark, table_name(spark, settings.archive))
    else:
        storage = storage_of(spark, settings.archive)
        owner: ArchiveOwner | None = decoded(storage, OWNER, ArchiveOwner) if storage.exists(OWNER) else None
        run_id = owner.run_id if owner else ""
    return run_id or archive_place(spark, settings)


def write_target(
    job: str, archive: str, source: TopicPartition, topic: str, facts: ClusterFacts, settings: ReplaySettings
) -> WriteTarget:
    """Return the target of a source partition.

    The position in the source is committed under the target's partition of the same number, since the source may not
    exist in the cluster. With a partition by key that number may not exist either, so that each partition has a group
    of its own.
    """
    topic_facts = {
        "archive": archive,
        "source": str(source),
        "topic_id": facts.topic_ids[topic],
        "from": settings.start,
        "until": settings.end,
        "partition_by": settings.partition_by,
    }
    name = f"{job}-{source.topic}-{source.partition}"
    if settings.partition_by == "key":
        place = PositionPlace(f"{job}.{source.partition}", topic, 0)
        return WriteTarget(str(source), name, topic, None, place, topic_facts)
    place = PositionPlace(job, topic, source.partition)
    return WriteTarget(str(source), name, topic, source.partition, place, topic_facts)


def partitions_lacking(
    sources: Collection[TopicPartition], topics: Mapping[str, str], facts: ClusterFacts
) -> dict[str, int]:
    """Return the targets that have fewer partitions than their sources, with the number that they need."""
    needed: dict[str, int] = {}
    for topic, partition in sources:
        needed[topics[topic]] = max(needed.get(topics[topic], 0), partition + 1)
    return {target: count for target, count in needed.items() if facts.partitions[target] < count}


def _check_targets(
    cluster: PipelineCluster,
    spans: Mapping[TopicPartition, ArchivedRange],
    topics: Mapping[str, str],
    facts: ClusterFacts,
    settings: ReplaySettings,
    say: Say,
) -> None:
    lacking = partitions_lacking(spans, topics, facts) if settings.partition_by == "partition" else {}
    for target, count in lacking.items():
        raise PipelineError(
            f"topic {target} has {facts.partitions[target]} partitions, and the archive {count}: add partitions to it, "
            "or give --partition-by key, which keeps the order of records with the same key only"
        )
    for target in sorted(cluster.appends_own_time(topics.values())):
        say(f"replay: {target} has message.timestamp.type=LogAppendTime, so records get the time of their replay")


# ---- the records


def unwritten(records: DataFrame, sources: Sequence[TopicPartition], positions: Sequence[SourcePosition]) -> DataFrame:
    """Return the records from some positions on, with the index of their source."""
    from pyspark.sql import functions as f

    numbered = with_source(records, list(sources))
    if not any(each.offset for each in positions):
        return numbered
    starts = f.array(*[f.lit(each.offset).cast("bigint") for each in positions])
    return numbered.where(f.col("offset") >= f.get(starts, f.col("source")))


def rate_of_task(spark: SparkSession, settings: ReplaySettings, tasks: int) -> float | None:
    """Return the rate of each of the tasks that run at a time."""
    if settings.rate is None:
        return None
    return settings.rate / max(1, min(tasks, spark.sparkContext.defaultParallelism))


# ---- the report


def _progress(
    spans: Mapping[TopicPartition, ArchivedRange], sources: Sequence[TopicPartition], before: Sequence[SourcePosition]
) -> str:
    records, written = sum(spans[key].count for key in sources), sum(each.records for each in before)
    what = f"{counted(records, 'record')} in {counted(len(sources), 'partition')}"
    return f"{what}, {written:,} written before" if written else what


def losses(
    expected: Mapping[TopicPartition, int],
    sources: Sequence[TopicPartition],
    before: Sequence[SourcePosition],
    after: Sequence[SourcePosition],
) -> list[str]:
    """Return a sentence for each source partition of which a run has not written every expected record once."""
    written = [last.records - first.records for first, last in zip(before, after, strict=True)]
    return [
        f"{key}: the archive had {expected.get(key, 0):,} records to write, and {count:,} are written, up to offset "
        f"{position.offset}"
        for key, count, position in zip(sources, written, after, strict=True)
        if count != expected.get(key, 0)
    ]
