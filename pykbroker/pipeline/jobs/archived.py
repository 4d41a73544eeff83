"""An archive as a DataFrame, whichever format it has, and what it says about itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.jobs.archived_files import TOPIC, ArchivedFile, add, damages, topic_of
from pykbroker.pipeline.jobs.commits import (
    CHECKPOINT,
    READ_ATTEMPTS,
    STAGING,
    ArchiveCommits,
    ArchivedRange,
    BatchSpan,
    archived_ends,
)
from pykbroker.pipeline.jobs.iceberg import is_directory, require_columns, table_name
from pykbroker.pipeline.jobs.skipped import SkippedRange
from pykbroker.pipeline.jobs.table_batches import history, loaded, skipped_of
from pykbroker.pipeline.jobs.table_sums import claimed_ranges
from pykbroker.pipeline.report import Say
from pykbroker.pipeline.schema import ARCHIVE, with_times
from pykbroker.pipeline.spark_errors import is_of_spark
from pykbroker.pipeline.state import MANIFEST, read_manifest
from pykbroker.pipeline.storage import Storage, literal, storage_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Result = TypeVar("Result")
SETTLING_S, SETTLING_ATTEMPTS = 0.5, 6
"""The seconds between two looks at an archive, and the looks in a row that find other commits than the one before."""
STILL_LOOKS = 20
"""The looks after which a batch that is half there is one of a killed run: none of its files has moved for 10 s."""
LOOKS_MAX = 1200
"""The looks at an archive of which a running job commits one batch after the other: 10 minutes."""


class ArchiveClaims(NamedTuple):
    """The claims of an archive about itself: the offsets up to which it has read, and what its commits prove.

    `has_sums` is false for a table of before, which does not count by partition. `is_pending`: a killed run has left a
    batch half. `skipped` are offsets that were deleted before they were archived. `ranges` has the sum of all batches
    of each partition, whose checksum is None if the batches of an earlier version have some of its records. `proven`
    has the sum of the batches with checksums alone. Their records have higher offsets than the others.

    `files` has the files that the commits name by their paths in the archive, or None for a format that names files
    itself, and for a directory that no job has made. The files in `pending` may not be there yet. `unproven` are the
    batches of an earlier version, which do not name their files. `batches` has the ranges of each batch, as far as
    commits are not folded.
    """

    ends: Mapping[TopicPartition, int]
    has_sums: bool = False
    is_pending: bool = False
    skipped: Sequence[SkippedRange] = ()
    ranges: Mapping[TopicPartition, ArchivedRange] = {}
    files: Mapping[str, ArchivedFile] | None = None
    pending: AbstractSet[str] = frozenset()
    unproven: Sequence[BatchSpan] = ()
    proven: Mapping[TopicPartition, ArchivedRange] = {}
    batches: Sequence[ArchivedRange] = ()


class ArchivedRecords(NamedTuple):
    """The records of an archive, and the claims that were read before them.

    The records of Parquet files are those of the files that the claims name, and of unnamed ones only if the claims
    have unproven batches. `damages` has a sentence for each named file that is missing or has another size. A missing
    one is left out.
    """

    claims: ArchiveClaims
    records: DataFrame
    damages: Sequence[str] = ()


class ArchiveReader(NamedTuple):
    """The claims of an archive and the damages of its files, with what reads the records that it had then.

    `is_replaced`: files with the records are gone, since others have these records now.
    """

    claims: ArchiveClaims
    damages: Sequence[str]
    records: Callable[[], DataFrame]
    is_replaced: Callable[[], bool] = lambda: False


class ArchiveSelection(Protocol):
    """The part of a job's settings that names an archive, and the topics of it that the job reads, or none for all."""

    @property
    def archive(self) -> str: ...
    @property
    def format(self) -> str: ...
    @property
    def topics(self) -> tuple[str, ...]: ...


def with_archive(
    spark: SparkSession, settings: ArchiveSelection, job: str, use: Callable[[ArchivedRecords], Result], say: Say
) -> Result:
    """Return what a function makes of the records of an archive, of all topics or of some.

    Half-written batches and damages are in the records. A running `archive` may merge files before Spark has read them.
    The function then runs again, and a line of the job says so. Raise PipelineError if there is no archive.
    """
    place, topics = settings.archive, settings.topics
    for attempt in range(1, READ_ATTEMPTS + 1):
        reader = _reader(spark, place, settings.format, topics)
        try:
            return use(ArchivedRecords(reader.claims, _of_topics(reader.records(), topics), reader.damages))
        except Exception:
            if attempt == READ_ATTEMPTS or not _is_replaced(reader):
                raise
            say(f"{job}: files of {place} were replaced meanwhile: it is read again")
    raise AssertionError("the last attempt has a result or an error")


def _is_replaced(reader: ArchiveReader) -> bool:
    """Whether files that a reader was to read are replaced. Its own error says more than one about this question."""
    try:
        return reader.is_replaced()
    except Exception as error:
        if isinstance(error, PipelineError) or is_of_spark(error):
            return False
        raise


def require_settled(found: ArchivedRecords, place: str) -> None:
    """Raise PipelineError for a batch that stays half there, and for a file that is missing or has another size.

    A job that took the half of a batch would count records as missing, or pass those whose file appears later.
    """
    if found.claims.is_pending:
        raise half_written(place)
    if found.damages:
        more = f", and {len(found.damages) - 1} more files are damaged" if len(found.damages) > 1 else ""
        raise PipelineError(f"the archive {place} is damaged: {found.damages[0]}{more}. Restore it, or archive anew")


def half_written(place: str) -> PipelineError:
    """Return the error about an archive of which a batch is half there."""
    return PipelineError(
        f"{place} has a batch that is half written: run `pykbroker pipeline archive` again, to complete it"
    )


def _reader(spark: SparkSession, place: str, format_: str, topics: tuple[str, ...]) -> ArchiveReader:
    if format_ == "iceberg":
        return _table_reader(spark, place)
    return _directory_reader(spark, storage_of(spark, place), topics)


def _table_reader(spark: SparkSession, place: str) -> ArchiveReader:
    """Return the claims and the records of one snapshot. A batch that is archived meanwhile is in a later one."""
    name = table_name(spark, place)
    if not spark.catalog.tableExists(name):
        raise PipelineError(f"no table {name} at {place}")
    table = loaded(spark, name)
    snapshot = table.currentSnapshot()
    claims = _table_claims(spark, name, table)
    require_columns(spark.table(name), name)
    if snapshot is None:
        return ArchiveReader(claims, (), lambda: spark.table(name).where("false"))
    number = snapshot.snapshotId()
    return ArchiveReader(
        claims,
        (),
        lambda: spark.read.option("versionAsOf", number).table(name),
        lambda: loaded(spark, name).snapshot(number) is None,
    )


def _directory_reader(spark: SparkSession, archive: Storage, topics: tuple[str, ...]) -> ArchiveReader:
    if not archive.exists():
        raise PipelineError(f"no archive at {archive.directory}")
    claims = claims_of(archive)
    if claims.files is None:
        reader = spark.read.schema(ARCHIVE).option("pathGlobFilter", "*.parquet")
        return ArchiveReader(claims, (), lambda: reader.parquet(literal(archive.directory)))
    claims, found = settled_files(archive, claims, topics)
    return ArchiveReader(
        claims,
        found.damages,
        partial(_read_files, spark, archive, found.paths),
        partial(are_replaced, archive, found.paths),
    )


def are_replaced(archive: Storage, paths: Collection[str]) -> bool:
    """Whether some of an archive's files are gone, and no commit names them any more. Damaged files are named."""
    gone = set(paths) - {each.path for each in archive.files()}
    return bool(gone) and not gone <= (claims_of(archive).files or {}).keys()


class FoundFiles(NamedTuple):
    """The paths of an archive's files that are there, and a sentence for each one that is missing or has changed."""

    paths: Sequence[str]
    damages: Sequence[str]


def settled_files(
    archive: Storage, claims: ArchiveClaims, topics: Collection[str] = ()
) -> tuple[ArchiveClaims, FoundFiles]:
    """Return claims and the files with their records, looked up again while a run commits a batch or merges files.

    Files are listed after the claims are read. Otherwise the files of a batch that is committed in between would be
    missing. A batch that is half there is waited for as long as its run is at work, which moves staged files. Raise
    PipelineError if damages may be those of a run that replaces files again and again.
    """
    unsettled, still, before = 0, 0, None
    for look in range(LOOKS_MAX):
        if look:
            time.sleep(SETTLING_S)
            claims = claims_of(archive)
        found = look_up(archive, claims, topics)
        is_settled = (not found.damages and not claims.unproven) or claims_of(archive) == claims
        if is_settled and not claims.is_pending:
            return claims, found
        now = claims, archive.files(STAGING)
        still, before = still + 1 if now == before else 0, now
        if is_settled and still == STILL_LOOKS:
            return claims, found
        unsettled = 0 if is_settled else unsettled + 1
        if unsettled == SETTLING_ATTEMPTS:
            break
    raise PipelineError(
        f"{archive.directory} changes faster than it is read: try again, or stop the run of `pykbroker pipeline "
        "archive` first"
    )


def look_up(archive: Storage, claims: ArchiveClaims, topics: Collection[str] = ()) -> FoundFiles:
    """Return the files with the records that an archive claims to have of all topics or of some."""
    claimed = {path: file for path, file in (claims.files or {}).items() if not topics or topic_of(path) in topics}
    wanted = topics or ({topic_of(path) for path in claimed} | {key.topic for key in claims.ranges})
    listed = [file for topic in sorted(wanted) for file in archive.files(f"{TOPIC}{topic}")]
    is_named = claimed if not claims.unproven else {file.path for file in listed if file.path.endswith(".parquet")}
    required = {path: file for path, file in claimed.items() if path not in claims.pending}
    return FoundFiles([file.path for file in listed if file.path in is_named], damages(required, listed))


def unnamed_files(archive: Storage, before: ArchiveClaims, topics: Collection[str] = ()) -> list[str]:
    """Return a sentence for each Parquet file that no commit names, though readers of the bare directory see it.

    A commit names a file before it appears, so that claims that are read behind the listing name it.
    """
    if before.files is None or before.unproven:
        return []
    listed = [file.path for file in archive.files() if file.path.startswith(TOPIC) and file.path.endswith(".parquet")]
    known = before.files.keys() | before.pending
    if all(path in known for path in listed):
        return []
    now = claims_of(archive)
    known = known | (now.files or {}).keys() | now.pending
    unnamed = [path for path in listed if path not in known and (not topics or topic_of(path) in topics)]
    return [f"{archive.directory}/{path} is named by no commit" for path in unnamed if archive.exists(path)]


def _read_files(spark: SparkSession, archive: Storage, paths: Sequence[str]) -> DataFrame:
    if not paths:
        return spark.createDataFrame([], ARCHIVE)
    reader = spark.read.schema(ARCHIVE).option("basePath", archive.directory)
    return reader.parquet(*(literal(f"{archive.directory}/{path}") for path in paths))


def _of_topics(records: DataFrame, topics: tuple[str, ...]) -> DataFrame:
    from pyspark.sql import functions as f

    found = records.where(f.col("topic").isin(*topics)) if topics else records
    return with_times(found)


def read_claims(spark: SparkSession, place: str, format_: str) -> ArchiveClaims:
    """Return what an archive says about itself. Nothing if no job has written it."""
    if format_ == "iceberg":
        name = table_name(spark, place)
        return _table_claims(spark, name, loaded(spark, name))
    return claims_of(storage_of(spark, place))


def _table_claims(spark: SparkSession, name: str, table: Any) -> ArchiveClaims:
    """Return what a table says about itself. It has its sums alone in place of batches."""
    last, skipped = history(table).last, skipped_of(table)
    if last is None:
        return ArchiveClaims({}, skipped=skipped)
    found = claimed_ranges(spark, name, table, last.batch, last.ends)
    claims = ArchiveClaims(archived_ends(last.ends, found or ()), skipped=skipped)
    return claims if found is None else _with_ranges(claims._replace(batches=found), found)


def claims_of(archive: Storage) -> ArchiveClaims:
    """Return what an archive of Parquet files says about itself. Nothing if no job has written it."""
    commits = ArchiveCommits(archive)
    if not commits.is_archive():
        return ArchiveClaims({})
    state = commits.read()
    total = state.total
    claims = ArchiveClaims(
        archived_ends(total.ends, total.ranges),
        is_pending=state.is_pending,
        skipped=total.skipped,
        files=state.files,
        pending=state.pending,
        unproven=tuple(total.unproven),
        batches=state.batches,
    )
    return _with_ranges(claims, total.ranges)


def _with_ranges(claims: ArchiveClaims, sums: Iterable[ArchivedRange]) -> ArchiveClaims:
    """Return claims with the sums of all batches, of which a partition may have two."""
    ranges: dict[TopicPartition, ArchivedRange] = {}
    proven: dict[TopicPartition, ArchivedRange] = {}
    for each in sums:
        add(ranges, each.key, each)
        if each.checksum is not None:
            proven[each.key] = each
    return claims._replace(has_sums=True, ranges=ranges, proven=proven)


def archive_directory(spark: SparkSession, place: str, format_: str) -> str:
    """Return the directory of an archive, or its URI. Its files lie below it."""
    if format_ == "iceberg":
        found: str = loaded(spark, table_name(spark, place)).location()
        return found
    return storage_of(spark, place).directory


def read_topic_ids(spark: SparkSession, place: str, format_: str) -> Mapping[str, str]:
    """Return the ids of the topics of an archive. Nothing if its checkpoint is not at the default place."""
    if format_ == "iceberg" and not is_directory(place):
        return {}
    storage = storage_of(spark, place)
    if format_ == "iceberg":
        checkpoint = storage.sibling(".checkpoint")
    else:
        checkpoint = storage_of(spark, f"{storage.directory}/{CHECKPOINT}")
    return read_manifest(checkpoint).topic_ids if checkpoint.exists(MANIFEST) else {}
