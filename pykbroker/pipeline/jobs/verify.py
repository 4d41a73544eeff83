"""The job `verify`: it proves that an archive and a topic have the same records.

1. Both sides are reduced to buckets of offsets with a count and a checksum. Only buckets that differ are compared
   record by record.
2. The topic is read in its own isolation level, so that transaction markers and aborted records explain themselves:
   neither side has them.
3. Below the start of a log, where retention has deleted records, the archive's own commits are the judge.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.cluster import LogEnds, PipelineCluster, named, require_topics
from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.jobs.archived import ArchivedSpan, archived_spans, read_archive
from pykbroker.pipeline.jobs.commits import ArchiveCommits, archived_counts
from pykbroker.pipeline.reading import TopicsToRead, read_records
from pykbroker.pipeline.report import JobReport, Say
from pykbroker.pipeline.session import PipelineSession
from pykbroker.pipeline.storage import storage_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

JOB = "verify"
BUCKET_OFFSETS = 10_000
EXAMPLES_MAX = 5
"""The offsets that a sentence about a loss names."""
CONTENT = ("key", "value", "headers", "timestamp", "timestampType")


class VerifySettings(msgspec.Struct, frozen=True):
    """The settings of the job."""

    source: TopicsToRead
    archive: str
    format: str = "parquet"


class Finding(NamedTuple):
    """A record that both sides do not have once and alike. `archived` and `stored` are its numbers on either side."""

    topic: str
    partition: int
    offset: int
    archived: int
    stored: int


def buckets(records: DataFrame) -> DataFrame:
    """Return a count and a checksum for every bucket of offsets of each partition."""
    from pyspark.sql import functions as f

    bucket = f.floor(f.col("offset") / BUCKET_OFFSETS).alias("bucket")
    return records.groupBy("topic", "partition", bucket).agg(
        f.count("*").alias("count"),
        f.bit_xor(checksum("offset")).alias("checksum"),
        f.min("offset").alias("first"),
        f.max("offset").alias("last"),
    )


def checksum(*more: str) -> Column:
    """Return the checksum of a record's content and of some more columns."""
    from pyspark.sql import functions as f

    return f.xxhash64(*more, *CONTENT)


def differing_buckets(archived: DataFrame, stored: DataFrame) -> DataFrame:
    """Return the buckets that differ, as topic, partition and bucket."""
    from pyspark.sql import functions as f

    key = ["topic", "partition", "bucket"]
    one, two = buckets(archived).alias("one"), buckets(stored).alias("two")
    same = f.col("one.count").eqNullSafe(f.col("two.count")) & f.col("one.checksum").eqNullSafe(f.col("two.checksum"))
    return one.join(two, key, "full").where(~same).select(*key)


def differing_records(archived: DataFrame, stored: DataFrame) -> DataFrame:
    """Return the records that the sides do not have once and alike, with their numbers on either side.

    A record whose content differs counts on both sides, as 1 and -1.
    """
    from pyspark.sql import functions as f

    key = ["topic", "partition", "offset"]

    def reduced(side: DataFrame, name: str) -> DataFrame:
        return side.groupBy(*key).agg(f.count("*").alias(name), f.bit_xor(checksum()).alias(f"{name}_sum"))

    both = reduced(archived, "archived").join(reduced(stored, "stored"), key, "full")
    is_same = f.col("archived_sum").eqNullSafe(f.col("stored_sum"))
    counts = both.withColumns(
        {
            "archived": f.coalesce("archived", f.lit(0)),
            "stored": f.when(f.col("stored").isNull(), 0).when((f.col("archived") == 1) & ~is_same, -1).otherwise(1),
        }
    )
    return counts.where("archived != 1 or stored != 1").select(*key, "archived", "stored")


def verify(session: PipelineSession, settings: VerifySettings, say: Say) -> JobReport:
    """Run the job. The report has a loss for each kind of difference in a partition."""
    begun = time.monotonic()
    source = settings.source
    cluster = PipelineCluster(source.bootstrap, committed_only=source.committed_only)
    facts = cluster.facts(named(source.topics))
    require_topics(facts, source.topics)
    ends = cluster.ends(facts)
    archived = read_archive(session.spark, settings.archive, settings.format, source.topics)
    spans = archived_spans(archived)
    losses = [] if settings.format == "iceberg" else _commit_losses(session, settings, spans)
    say(f"verify: {sum(each.records for each in spans.values()):,} archived records in {len(spans)} partitions")
    compared = comparable(spans, ends)
    findings = _findings(session, settings, archived, compared) if compared else []
    compacted = cluster.compacted(source.topics)
    losses += explained(findings, compacted)
    figures = {
        "records": sum(each.records for each in spans.values()),
        "partitions": len(spans),
        "not_archived_yet": sum(
            max(0, end - (spans[key].last + 1 if key in spans else ends.first[key])) for key, end in ends.next.items()
        ),
        "deleted_by_retention": sum(max(0, ends.first[key] - each.first) for key, each in spans.items()),
        "compacted": sum(1 for each in findings if not each.stored and each.archived == 1 and each.topic in compacted),
    }
    return JobReport(JOB, figures, losses, time.monotonic() - begun)


def comparable(spans: Mapping[TopicPartition, ArchivedSpan], ends: LogEnds) -> dict[TopicPartition, tuple[int, int]]:
    """Return the offsets that both sides should have: from the start of the log to behind the last archived record."""
    if unknown := sorted(str(each) for each in spans if each not in ends.next):
        raise PipelineError(f"the archive has {', '.join(unknown)}, which the cluster lacks")
    found = {key: (ends.first[key], min(each.last + 1, ends.next[key])) for key, each in spans.items()}
    return {key: (first, end) for key, (first, end) in found.items() if first < end}


def _findings(
    session: PipelineSession,
    settings: VerifySettings,
    archived: DataFrame,
    compared: Mapping[TopicPartition, tuple[int, int]],
) -> list[Finding]:
    """Return the records that differ between the sides."""
    stored = read_records(session, assigned(settings.source, compared), **_offsets(compared))
    archived = within(archived, compared)
    different = [tuple(row) for row in differing_buckets(archived, stored).collect()]
    if not different:
        return []
    parts = [one_bucket(*each) for each in different]
    condition = " or ".join(parts)
    rows = differing_records(archived.where(condition), stored.where(condition)).collect()
    return [Finding(*row) for row in sorted(rows)]


def one_bucket(topic: str, partition: int, bucket: int) -> str:
    """Return the SQL condition of one bucket."""
    return one_range(topic, partition, bucket * BUCKET_OFFSETS, (bucket + 1) * BUCKET_OFFSETS)


def one_range(topic: str, partition: int, first: int, end: int) -> str:
    """Return the SQL condition of a range of offsets."""
    return f"(topic = '{topic}' and partition = {partition} and offset >= {first} and offset < {end})"


def within(records: DataFrame, compared: Mapping[TopicPartition, tuple[int, int]]) -> DataFrame:
    """Return the records in these ranges of offsets."""
    return records.where(" or ".join(one_range(*key, *limits) for key, limits in compared.items()))


def assigned(source: TopicsToRead, partitions: Iterable[TopicPartition]) -> TopicsToRead:
    """Return the same source, restricted to some partitions."""
    assign: dict[str, list[int]] = {}
    for key in partitions:
        assign.setdefault(key.topic, []).append(key.partition)
    text = msgspec.json.encode({topic: sorted(indexes) for topic, indexes in assign.items()}).decode()
    return msgspec.structs.replace(source, topics=(), pattern="", options={**source.options, "assign": text})


def _offsets(compared: Mapping[TopicPartition, tuple[int, int]]) -> dict[str, str]:
    starts: dict[str, dict[str, int]] = {}
    stops: dict[str, dict[str, int]] = {}
    for key, (first, end) in compared.items():
        starts.setdefault(key.topic, {})[str(key.partition)] = first
        stops.setdefault(key.topic, {})[str(key.partition)] = end
    return {
        "startingOffsets": msgspec.json.encode(starts).decode(),
        "endingOffsets": msgspec.json.encode(stops).decode(),
    }


def explained(findings: Iterable[Finding], compacted: frozenset[str]) -> list[str]:
    """Return a sentence for each kind of unexplained difference of a partition."""
    kinds: dict[tuple[str, int, str], list[int]] = {}
    for each in findings:
        if each.archived == 1 and not each.stored and each.topic in compacted:
            continue
        kinds.setdefault((each.topic, each.partition, kind_of(each)), []).append(each.offset)
    return [
        f"{topic}-{partition}: {len(offsets):,} records {kind}, from offset {offsets[0]} on"
        for (topic, partition, kind), offsets in sorted(kinds.items())
    ]


def kind_of(finding: Finding) -> str:
    """Return what is wrong with a record."""
    if not finding.archived:
        return "are missing in the archive"
    if finding.archived > 1:
        return "are in the archive more than once"
    return "are in the archive alone" if not finding.stored else "differ from those of the topic"


def _commit_losses(
    session: PipelineSession, settings: VerifySettings, spans: Mapping[TopicPartition, ArchivedSpan]
) -> list[str]:
    """Compare an archive with its own commits, which count records that the topic no longer has."""
    storage = storage_of(session.spark, settings.archive)
    counts = archived_counts(ArchiveCommits(storage, storage.sibling(".staging")).all())
    topics = settings.source.topics
    wanted = {key: count for key, count in counts.items() if not topics or key[0] in topics}
    found = {(key.topic, key.partition): each.records for key, each in spans.items()}
    return [
        f"{topic}-{partition}: the archive's files have {found.get((topic, partition), 0):,} records, and its commits "
        f"{wanted.get((topic, partition), 0):,}"
        for topic, partition in sorted(wanted.keys() | found.keys())
        if found.get((topic, partition), 0) != wanted.get((topic, partition), 0)
    ]
