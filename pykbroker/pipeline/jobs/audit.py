"""The job `audit`: what topics, an archive or both have in each partition, as a report and as a page."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import unquote, urlparse

import msgspec

from pykbroker.pipeline.audit import measures
from pykbroker.pipeline.audit.comparing import OPEN_SEGMENT, comparisons, settled
from pykbroker.pipeline.audit.findings import AuditFindings, Measured, PartitionComparison, Side
from pykbroker.pipeline.audit.profiles import side_profile, strips
from pykbroker.pipeline.audit.remarks import losses, remarks
from pykbroker.pipeline.audit.text import audit_lines, figures
from pykbroker.pipeline.cluster import ClusterFacts, LogEnds, named, require_topics
from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.jobs.archived import ArchivedRecords, half_written, with_archive
from pykbroker.pipeline.jobs.commits import ArchivedRange
from pykbroker.pipeline.jobs.shortfalls import shortfalls
from pykbroker.pipeline.jobs.skipped import never_archived, skipped_losses
from pykbroker.pipeline.quantities import counted
from pykbroker.pipeline.reading import TopicsToRead, read_records
from pykbroker.pipeline.report import JobReport, Say
from pykbroker.pipeline.session import PipelineSession, retried_by_data_source
from pykbroker.pipeline.source.offset_json import offsets_text
from pykbroker.pipeline.spark_errors import tolerating_end
from pykbroker.pipeline.storage import storage_of, write_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JOB = "audit"


class AuditSettings(msgspec.Struct, frozen=True):
    """The settings of the job: topics of a cluster, an archive, or both.

    `page` is the path of the page, if any: on this machine, or a URI of another file system.

    Without a source, `topics` may restrict the archive to some topics.
    """

    source: TopicsToRead | None
    archive: str = ""
    format: Literal["parquet", "iceberg"] = "parquet"
    topics: tuple[str, ...] = ()
    page: str = ""


class AuditedSide(NamedTuple):
    """One side of an audit: its records, and the address or the directory that has them."""

    side: Side
    place: str
    records: DataFrame


class AuditReport(JobReport):
    """The report of an audit, whose text has a line for each partition."""

    lines: list[str] = []

    def text(self) -> str:
        """Return the report for a person."""
        lines = [f"{self.job}: {'LOSS' if self.losses else 'done'} in {self.seconds:.1f} s", *self.lines]
        return "\n".join([*lines, *(f"  lost: {each}" for each in self.losses)])


def audit(session: PipelineSession, settings: AuditSettings, say: Say) -> AuditReport:
    """Run the job. Raise PipelineError for a mistake that the user can correct."""
    begun = time.monotonic()
    if settings.page:
        require_directory(settings.page)
        page_drawer()
    report = retried_by_data_source(
        session, lambda session: _audited(session, settings, say), lambda line: say(f"audit: {line}")
    )
    report.seconds = time.monotonic() - begun
    return report


def _audited(session: PipelineSession, settings: AuditSettings, say: Say) -> AuditReport:
    now_ms, source = time.time_ns() // 1_000_000, settings.source
    # The archive may be growing. It lacks what the logs had lost before its claims were read, and the brokers know all
    # of its partitions afterwards.
    before = None if source is None else _topics(source)

    def measured(archived: ArchivedRecords | None = None) -> AuditFindings:
        sides, ends, cluster_id = list[AuditedSide](), None, ""
        if source is not None:
            facts, ends = _topics(source)
            offsets = counted(sum(ends.next[key] - ends.first[key] for key in ends.next), "offset")
            say(f"audit: {offsets} in {counted(len(ends.next), 'partition')} of {source.bootstrap}")
            records = read_records(session, source, endingOffsets=offsets_text(ends.next))  # both sides count the same
            sides, cluster_id = [AuditedSide("topic", source.bootstrap, records)], facts.cluster_id
        if archived is None:
            return found(session.spark, sides, ends, cluster_id, now_ms)
        sides.append(AuditedSide("archive", settings.archive, archived.records))
        lost = claimed_losses(archived, settings, before and before[1])
        return compared_with_claims(found(session.spark, sides, ends, cluster_id, now_ms, lost), archived, settings)

    findings = with_archive(session.spark, settings, JOB, measured, say) if settings.archive else measured()
    if settings.page:
        say(f"audit: the page is {write_page(session.spark, settings.page, findings)}")
    lines = audit_lines(findings)
    return AuditReport(JOB, figures(findings), findings.losses, lines=lines)


def claimed_losses(archived: ArchivedRecords, settings: AuditSettings, ends: LogEnds | None) -> list[str]:
    """Return what an archive and its files lack, and what the logs had deleted before the archive had it.

    Raise PipelineError for a batch that is half there.
    """
    claims = archived.claims
    if claims.is_pending:
        raise half_written(settings.archive)
    topics = {key.topic for key in claims.ends}
    outrun = never_archived(claims.ends, ends.first, topics) if ends else []
    return [*skipped_losses([*claims.skipped, *outrun], settings.topics), *archived.damages]


def compared_with_claims(findings: AuditFindings, archived: ArchivedRecords, settings: AuditSettings) -> AuditFindings:
    """Add a loss for each partition of which the archive has other records than its commits claim."""
    ranges = [
        ArchivedRange(each.partition, each.first_offset, each.last_offset, each.records, topic=topic.topic)
        for side in findings.sides
        if side.side == "archive"
        for topic in side.topics
        for each in topic.partitions
        if each.records
    ]
    lost = shortfalls(archived.claims.ranges, ranges, settings.topics)
    return msgspec.structs.replace(findings, losses=[*findings.losses, *lost])


def _topics(source: TopicsToRead) -> tuple[ClusterFacts, LogEnds]:
    cluster = source.cluster()
    facts = cluster.facts(named(source.topics))
    require_topics(facts, source.topics)
    return facts, cluster.ends(facts)


def found(
    spark: SparkSession,
    sides: Sequence[AuditedSide],
    ends: LogEnds | None,
    cluster_id: str,
    now_ms: int,
    lost: Iterable[str] = (),
) -> AuditFindings:
    """Return the findings about the records of each side. `lost` are the losses that the archive itself claims."""
    from pyspark.storagelevel import StorageLevel

    frames = [measures.measured(each.records, each.side) for each in sides]
    if sides[0].side == "topic":  # reading a topic again takes longer than reading rows of a cache, unlike an archive
        frames[0] = frames[0].persist(StorageLevel.MEMORY_AND_DISK)
    rows = reduce(lambda one, two: one.unionAll(two), frames)
    counts = measures.key_counts(rows)  # a cache would have a task for each partition of the shuffle
    try:
        collected = {
            "segments": _collected(measures.segments(rows)),
            "timeline": _collected(measures.timeline(rows)),
            "top_keys": _collected(measures.top_keys(counts)),
            "key_frequencies": _collected(measures.key_frequencies(counts)),
            "value_sizes": _collected(measures.value_sizes(rows)),
        }
        covered = strips(_collected(measures.coverage(rows)))
        compared = _compared(spark, rows, collected["segments"], ends) if ends is not None and len(sides) > 1 else []
    finally:
        with tolerating_end():  # an error of the block says more
            frames[0].unpersist()
    profiles = [side_profile(each.side, each.place, collected) for each in sides]
    sentences = remarks(profiles, compared), [*losses(profiles, compared), *lost]
    return AuditFindings(now_ms, cluster_id, profiles, compared, covered, *sentences)


def _compared(
    spark: SparkSession, rows: DataFrame, segments: Iterable[Measured], ends: LogEnds
) -> list[PartitionComparison]:
    alike, different = settled(segments)
    if different:
        places = spark.createDataFrame([tuple(each) for each in different], OPEN_SEGMENT)
        alike += _collected(measures.compared(rows, places))
    return comparisons(alike, ends)


def local_page(page: str) -> Path | None:
    """Return the path of a page on this machine, or None if it is on another file system."""
    if page.startswith("file:"):
        return Path(unquote(urlparse(page).path))
    return None if "://" in page else Path(page).absolute()


def require_directory(page: str) -> None:
    """Raise PipelineError if a page has no directory on this machine. Other file systems make it."""
    path = local_page(page)
    if path is not None and not path.parent.is_dir():
        raise PipelineError(f"{page} cannot be written: its directory does not exist")


def page_drawer() -> Callable[[AuditFindings], str]:
    """Return `audit_page`. Raise PipelineError if a package that draws the page is missing."""
    try:
        from pykbroker.pipeline.audit.page import audit_page
    except ModuleNotFoundError as error:
        raise PipelineError(f"the page needs the package {error.name}: pip install 'pykbroker[spark]'") from None
    return audit_page


def write_page(spark: SparkSession, page: str, findings: AuditFindings) -> str:
    """Write the page, and return its URI. Raise PipelineError if it cannot be written."""
    text, path = page_drawer()(findings), local_page(page)
    if path is None:
        directory, _, name = page.rpartition("/")
        storage_of(spark, directory).write(name, text.encode())
        return page
    write_file(path, text.encode())
    return path.as_uri()


def _collected(rows: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in rows.collect()]
