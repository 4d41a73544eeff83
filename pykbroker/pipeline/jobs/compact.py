"""The job `compact`: the latest value of each key of an archive, in a directory or table that is replaced in one step.

1. Within a partition, the record with the highest offset is the latest one of its key, as in Kafka's log cleaner.
2. A key that has records in several partitions, as after a change of their number, has the latest of these by
   timestamp, and by offset if timestamps are equal.
3. A key whose latest record has no value (a tombstone) disappears.
4. Records without a key have no latest value. They are refused, or left out and counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol
from urllib.parse import urlparse

import msgspec

from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.jobs.archived import ArchivedRecords, require_settled, with_archive
from pykbroker.pipeline.jobs.commits import ArchivedRange
from pykbroker.pipeline.jobs.differences import range_columns
from pykbroker.pipeline.jobs.iceberg import is_directory
from pykbroker.pipeline.jobs.shortfalls import has_checksums, require_claimed, require_newer
from pykbroker.pipeline.jobs.state_directory import StateDirectory
from pykbroker.pipeline.jobs.state_owner import StateOwner
from pykbroker.pipeline.jobs.state_table import StateTable
from pykbroker.pipeline.report import JobReport, Say
from pykbroker.pipeline.session import PipelineSession
from pykbroker.pipeline.storage import LocalStorage, real_path, storage_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

JOB = "compact"
STATE_COLUMNS = (
    "topic",
    "key",
    "value",
    "headers",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "timestamp_ms",
)
"""The columns of a state: those of the latest record of each key."""


class CompactSettings(msgspec.Struct, frozen=True):
    """The settings of the job. Without topics it takes all topics of the archive."""

    archive: str
    target: str
    format: Literal["parquet", "iceberg"] = "parquet"
    target_format: Literal["parquet", "iceberg"] = "parquet"
    topics: tuple[str, ...] = ()
    null_keys: Literal["refuse", "drop"] = "refuse"


class State(Protocol):
    """The target of the job."""

    def open(self) -> None:
        """Take the target for this run. Raise StateConflict if it belongs to something else."""

    def replace(self, records: DataFrame) -> int:
        """Replace the content of the target by these records in one step. Return their number.

        If that has failed, it may be called again.
        """

    def close(self) -> None:
        """Release the target."""


class TopicCount(NamedTuple):
    """The number of records of a topic in an archive, and of those without a key."""

    topic: str
    records: int
    null_keys: int


def latest_by_key(records: DataFrame) -> DataFrame:
    """Return the latest record of each key of a topic, tombstones included. Records without a key are left out."""
    from pyspark.sql import functions as f

    content = f.struct("offset", "timestamp", "timestampType", "timestamp_ms", "value", "headers")
    keyed = records.where("key is not null").groupBy("topic", "key", "partition")
    last = keyed.agg(f.max_by(content, f.col("offset")).alias("last"))
    order = f.struct("last.timestamp_ms", "last.offset", "partition")
    latest = last.groupBy("topic", "key").agg(f.max_by(f.struct("partition", "last"), order).alias("latest"))
    return latest.select("topic", "key", "latest.partition", "latest.last.*").select(*STATE_COLUMNS)


def living(latest: DataFrame) -> DataFrame:
    """Return the records that are no tombstones, sorted by key within each file."""
    return latest.where("value is not null").sortWithinPartitions("topic", "key")


class PartitionCount(NamedTuple):
    """The records that were read of a partition, and the number of those without a key."""

    found: ArchivedRange
    null_keys: int


def counted(records: DataFrame, *, has_checksum: bool) -> list[PartitionCount]:
    """Return the counts of all partitions, with a checksum of their records if it is to be compared."""
    from pyspark.sql import functions as f

    every = *range_columns(has_checksum=has_checksum), f.count_if(f.col("key").isNull())
    rows = records.groupBy("topic", "partition").agg(*every).collect()
    return [PartitionCount(ArchivedRange.of(*row[:-1]), row[-1]) for row in rows]


def by_topic(counts: Iterable[PartitionCount]) -> list[TopicCount]:
    """Return the sums of each topic, sorted."""
    found: dict[str, TopicCount] = {}
    for each in counts:
        topic = each.found.topic
        old = found.get(topic, TopicCount(topic, 0, 0))
        found[topic] = TopicCount(topic, old.records + each.found.count, old.null_keys + each.null_keys)
    return sorted(found.values())


def compact(session: PipelineSession, settings: CompactSettings, say: Say) -> JobReport:
    """Run the job. Raise PipelineError for a mistake that the user can correct."""
    begun = time.monotonic()
    require_apart(settings.archive, settings.target)
    state = _state(session, settings)
    with closed_after(state.close):
        state.open()
        figures = with_archive(
            session.spark, settings, JOB, lambda archived: _compacted(archived, state, settings, say), say
        )
    say(f"compact: {settings.target} has {figures['keys']:,} keys")
    return JobReport(JOB, figures, [], time.monotonic() - begun)


def _compacted(archived: ArchivedRecords, state: State, settings: CompactSettings, say: Say) -> dict[str, Any]:
    """Replace the state by that of an archive, and return the figures. It may be repeated."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    require_settled(archived, settings.archive)
    claimed, records = archived.claims.ranges, archived.records
    counts = counted(records, has_checksum=has_checksums(claimed))
    require_claimed(claimed, [each.found for each in counts], settings.archive, settings.topics)
    require_newer(archived.claims, records, settings.archive, settings.topics)
    topics = by_topic(counts)
    require_content(topics, settings)
    say(f"compact: {sum(each.records for each in topics):,} archived records of {len(topics)} topics")
    ends = Observation()
    latest = latest_by_key(records).observe(ends, f.count_if(f.col("value").isNull()).alias("tombstones"))
    keys = state.replace(living(latest))
    return {
        "records": sum(each.records for each in topics),
        "keys": keys,
        "tombstones": ends.get["tombstones"],
        "null_keys": sum(each.null_keys for each in topics),
        "topics": {each.topic: each.records for each in topics},
        "target": settings.target,
    }


@contextmanager
def closed_after(close: Callable[[], None]) -> Iterator[None]:
    """Close a state at the end of the block. The error of the block is raised even if the state cannot be closed.

    The tasks of an interrupted write still create files while the state deletes them.
    """
    try:
        yield
    except BaseException:
        with suppress(PipelineError):
            close()
        raise
    close()


def _state(session: PipelineSession, settings: CompactSettings) -> State:
    is_table = settings.format == "iceberg" and not is_directory(settings.archive)
    archive = None if is_table else storage_of(session.spark, settings.archive)
    place = archive.directory if isinstance(archive, LocalStorage) else settings.archive
    owner = StateOwner(JOB, place, settings.format, sorted(settings.topics))
    if settings.target_format == "iceberg":
        return StateTable(session.spark, settings.target, owner)
    return StateDirectory(session.spark, storage_of(session.spark, settings.target), owner)


def require_apart(archive: str, target: str) -> None:
    """Raise PipelineError if the target is the archive, or if one of them lies inside the other."""
    places = (real_path(each) for each in (archive, target))
    one, two = (PurePosixPath(each if each.startswith("/") else urlparse(each).path) for each in places)
    if one == two or one in two.parents or two in one.parents:
        raise PipelineError(f"{target} and the archive {archive} overlap: choose a directory beside the archive")


def require_content(topics: list[TopicCount], settings: CompactSettings) -> None:
    """Raise PipelineError if a topic has no records, or if there are records without a key that may not be dropped."""
    missing = sorted(set(settings.topics) - {each.topic for each in topics})
    if missing or not topics:
        raise PipelineError(f"{settings.archive} has no records{' of topic ' * bool(missing)}{', '.join(missing)}")
    for each in topics:
        if each.null_keys and settings.null_keys == "refuse":
            raise PipelineError(
                f"topic {each.topic} has {each.null_keys:,} records without a key, which have no latest value: leave "
                "them out with --null-keys drop"
            )
