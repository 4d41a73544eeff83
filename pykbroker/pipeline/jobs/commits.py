"""The commits of an archive of Parquet files. A batch appears as a whole, and once, after any crash.

1. The files of a batch are written to a directory of the run inside the archive, which readers of the bare directory
   skip. They are durable before the commit begins.
2. The commit appears under the name of a pending one, in one step. From then on the batch counts as written.
3. The files of the batch are renamed into the archive. After a crash the next run completes that.
4. The commit gets its final name.
5. Commits of many batches are folded into one summary. A commit that the summary contains is ignored, and deleted.

A commit names the files of its batch and what they have, so that the archive is proven by its commits alone. A merge of
small files changes the names, and is folded into the summary too.

A file system of Hadoop has no lock for a run. Two runs at a time write the files of a batch twice there, and the first
one to create the commit decides: the other one fails, so that the batch appears once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeVar
from uuid import uuid4

import msgspec

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.errors import PipelineError, StateConflict
from pykbroker.pipeline.jobs.archived_files import (
    ArchivedFile,
    FileChange,
    OffsetRange,
    add,
    changed,
    summed_contents,
    topic_of,
)
from pykbroker.pipeline.jobs.file_lists import CHANGES, LEFT, LISTS, FileLists, parsed
from pykbroker.pipeline.jobs.skipped import SkippedRange, merged
from pykbroker.pipeline.spark_offsets import Ends, by_partition, merged_ends
from pykbroker.pipeline.storage import Storage, StoredFile, taken

OWN = "_pykbroker/"
"""The directory of the job's own files. Spark and pyarrow skip it, and it has no Parquet file for others."""
CHECKPOINT = f"{OWN}checkpoint"
"""The default place of the checkpoint."""
COMMITS = f"{OWN}commits"
STAGING = f"{OWN}staging"
RUN = re.compile("run-[0-9a-f]{8}")
"""The directories that runs have given their names in the staging directory. Nothing else there is deleted."""
STAGING_OF_BEFORE = ".staging"
"""The suffix of the directory beside the archive in which earlier versions staged the files of a batch."""
BATCH_OF_BEFORE = re.compile("batch-[0-9]+-[0-9a-f]{8}")
"""The directory of a batch in it."""
BATCH_FILE = re.compile(r"topic=[^/]+/date=[^/]+/batch-([0-9]+)-[^/]*\.parquet")
"""A file of a batch by its path in the archive."""
OWNER = f"{OWN}archive.json"
SUMMARY = f"{OWN}summary.json"
PENDING = ".json.pending"
DONE = ".json"
COMMIT = re.compile(rf"{COMMITS}/([0-9]{{10,}})\.json(\.pending)?")
"""The name of a commit, with the number of its batch. Other files there are not the job's own."""
COMMITS_MAX = 1000
"""The number of commits from which they are folded."""
READ_ATTEMPTS = 5
"""The number of attempts to read all commits while a run replaces them."""
Result = TypeVar("Result")
BatchSpan = tuple[int, int]
"""The first and the last one of consecutive batches."""


class ArchivedRange(OffsetRange, frozen=True, array_like=False, kw_only=True):
    """The records of one partition in a batch, or in many of them."""

    topic: str

    @classmethod
    def of(cls, topic: str, *numbers: Any) -> Self:
        """Return the range of a row with a topic, a partition, and the other numbers in their order."""
        return cls(*numbers, topic=topic)

    @property
    def key(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class ArchiveCommit(msgspec.Struct, frozen=True, omit_defaults=True):
    """A batch of an archive, or the sum of all batches up to this one.

    `contents` has the files of a batch by their paths in the archive. They were staged in the directory `staged`. Those
    of a sum are in the list with the name `listed`.

    `ends` are the offsets up to which the batch has read, which may be behind its last records. `skipped` are offsets
    that were deleted before that. `unproven` are the batches of earlier versions in a sum, which are without contents.
    A sum has two ranges of a partition to which such batches and later ones have added records.

    `files` maps the names of staged files of an earlier version to those in the archive. A name that does not begin
    with STAGING is one in the directory STAGING_OF_BEFORE.
    """

    batch: int
    files: dict[str, str]
    ranges: list[ArchivedRange]
    ends: Ends = {}
    skipped: list[SkippedRange] = []
    staged: str = ""
    contents: dict[str, ArchivedFile] = {}
    listed: str = ""
    unproven: list[BatchSpan] = []

    def moves(self) -> dict[str, str]:
        """Return the names of the files of a batch in the archive by those in the staging directory."""
        return self.files | {
            f"{self.staged}/{path.replace(f'/batch-{self.batch}-', '/part-', 1)}": path for path in self.contents
        }


class ArchiveState(NamedTuple):
    """The sum of all commits, and the files that they name. Files in `pending` may not be there yet.

    `batches` has the ranges of each commit, of which the first one may be the sum of many.
    """

    total: ArchiveCommit
    files: dict[str, ArchivedFile]
    pending: frozenset[str]
    is_pending: bool
    batches: list[ArchivedRange]


class ArchiveOwner(msgspec.Struct, frozen=True):
    """The run whose checkpoint has the offsets of an archive."""

    run_id: str


class ArchiveCommits:
    """The commits of one archive."""

    def __init__(self, archive: Storage) -> None:
        self._archive, self._lists = archive, FileLists(archive)
        self.staging = f"{STAGING}/run-{uuid4().hex[:8]}"
        """The directory of this run's files before they are committed, relative to the archive."""

    def is_archive(self) -> bool:
        """Whether a run has taken the directory."""
        return self._archive.exists(OWNER)

    def is_pending(self) -> bool:
        """Whether a run was killed while it committed a batch, or is committing one now."""
        return bool(self._names(PENDING))

    def require_archive(self) -> None:
        """Raise StateConflict if the directory has files, but is no archive."""
        if not self.is_archive() and any(not each.path.startswith(OWN) for each in self._archive.files()):
            raise StateConflict(f"{self._archive.directory} has files that are no archive: choose an empty directory")

    def require_run(self, run_id: str, *, is_new: bool) -> None:
        """Raise StateConflict if the archive belongs to another run, or if it is gone and the run is not new."""
        if self.is_archive():
            owner = decoded(self._archive, OWNER, ArchiveOwner)
            if owner.run_id != run_id:
                raise StateConflict(
                    f"{self._archive.directory} was written by a run with another checkpoint: a new one would begin "
                    "at its first record again. Give the old one with --checkpoint, or choose another directory"
                )
        elif not is_new:
            raise StateConflict(
                f"{self._archive.directory} is empty, but the checkpoint has the offsets of an archive there: restore "
                "the archive, or delete the checkpoint too to begin at the first record again"
            )

    def open(self, run_id: str, *, is_new: bool) -> None:
        """Take the archive for a run, and complete its last commit and its last merge.

        Raise StateConflict as `require_run` does, and if commits or files of batches are lost.
        """
        self.require_run(run_id, is_new=is_new)
        if not self.is_archive():
            self._archive.create(OWNER, msgspec.json.encode(ArchiveOwner(run_id)))
        for name in self._names(PENDING):
            commit = self._commit(name)
            if self.committed(commit.batch) is None:
                self._complete(commit)
            else:
                self._archive.delete(name)
        self._require_commits()
        if self._lists.changes():
            self.fold()
        for directory in (OWN.rstrip("/"), COMMITS, LISTS, CHANGES):
            self._archive.delete_leftovers(directory, LEFT)
        self._archive.delete_leftovers(STAGING, RUN)

    def committed(self, batch: int) -> ArchiveCommit | None:
        """Return the commit of a batch, or that of all batches up to it, or None if it is not written."""
        name = f"{COMMITS}/{batch:010d}{DONE}"
        if self._archive.exists(name):
            return self._commit(name)
        summary = self._summary()
        return summary if summary is not None and batch <= summary.batch else None

    def commit(self, commit: ArchiveCommit) -> None:
        """Commit a batch whose files are staged and durable, and move them into the archive.

        Raise StateConflict if another run has committed it.
        """
        name = f"{COMMITS}/{commit.batch:010d}{PENDING}"
        self._archive.create(name, msgspec.json.encode(commit))
        if self.committed(commit.batch) is not None:
            self._archive.delete(name)
            raise taken(f"{self._archive.directory}/{COMMITS}/{commit.batch:010d}{DONE}")
        self._complete(commit)

    def all(self) -> list[ArchiveCommit]:
        """Return all commits, the first one first. The first one may be the sum of many.

        Raise StateConflict if a batch before the last one has no commit.
        """
        return self._settled(lambda: self._all(self._names(DONE, PENDING)))

    def read(self) -> ArchiveState:
        """Return what all commits say together. Raise StateConflict if a batch before the last one has no commit."""
        return self._settled(self._read)

    def _settled(self, read: Callable[[], Result]) -> Result:
        """Return what a function reads, also while a run adds commits and folds them."""
        for _ in range(READ_ATTEMPTS - 1):
            before = self._version()
            try:
                return read()
            except PipelineError:
                if self._version() == before:
                    raise
        return read()

    def replace_files(self, change: FileChange, exchange: Callable[[], bool]) -> bool:
        """Record a change of the archive's files, and make it. Return False if the file system cannot make it."""
        name = self._lists.begin(change)
        if not exchange():
            self._lists.delete(name)
            return False
        return True

    def fold(self, commits_max: int = COMMITS_MAX) -> None:
        """Replace the commits by their sum if there are more than `commits_max`, or if their files have changed.

        A commit that is pending is one of another run, which may still have to move its files.
        """
        names, changes = self._names(DONE), self._lists.changes()
        if len(names) <= commits_max and not changes:
            return
        commits, before = self._all(names), self._summary()
        if not commits:
            raise StateConflict(
                f"{self._archive.directory}/{CHANGES} has a merge of files, but there is no commit: restore {SUMMARY} "
                f"and {COMMITS}, or archive into a new directory"
            )
        total = summed(commits)
        listed = self._lists.write(total.batch, self._files(commits, changes.values()))
        self._archive.write(SUMMARY, msgspec.json.encode(msgspec.structs.replace(total, listed=listed)))
        for name in [*names, *changes]:
            self._archive.delete(name)
        if before is not None:
            self._lists.delete_old(before.batch, listed)

    def close(self) -> None:
        """Delete the files that this run has staged and not committed."""
        self._archive.delete(self.staging)
        self._archive.delete_empty(STAGING)

    def _require_commits(self) -> None:
        """Raise StateConflict if there are files of a later batch than any commit: it would be written twice.

        The files are listed first, since another run writes the commit before it moves them.
        """
        batches = {file.path: match for file in self._archive.files() if (match := BATCH_FILE.fullmatch(file.path))}
        last = max((each.batch for each in self.all()), default=-1)
        for path, match in batches.items():
            if int(match[1]) > last:
                raise StateConflict(
                    f"{self._archive.directory}/{path} is a file of batch {match[1]}, of which the archive has no "
                    f"commit: restore {self._archive.directory}/{COMMITS}, or archive into a new directory"
                )

    def _complete(self, commit: ArchiveCommit) -> None:
        for staged, target in commit.moves().items():
            self._move(commit.batch, staged, target)
        name = f"{COMMITS}/{commit.batch:010d}"
        self._archive.rename(name + PENDING, name + DONE)
        self._delete_staging_of_before(commit)

    def _move(self, batch: int, staged: str, target: str) -> None:
        """Move a staged file into the archive, unless a run before a crash has done so.

        A store of objects, such as s3a, renames a file by a copy, which appears as a whole, and a deletion. Raise
        StateConflict if the file is in neither place: its records are lost.
        """
        archive = self._archive
        source = archive if staged.startswith(f"{STAGING}/") else archive.sibling(STAGING_OF_BEFORE)
        if not source.exists(staged):
            if not archive.exists(target):
                raise StateConflict(
                    f"batch {batch} is committed, but its file {archive.directory}/{target} is gone, and so is "
                    f"{source.directory}/{staged}: restore one of them, or archive into a new directory"
                )
        elif not archive.exists(target):
            archive.take(source, staged, target)
        elif archive.size(target) == source.size(staged):
            source.delete(staged)
        else:
            raise StateConflict(f"{archive.directory}/{target} exists, but is no copy of the staged file")

    def _delete_staging_of_before(self, commit: ArchiveCommit) -> None:
        """Delete the directory that the commit of an earlier version names, and the one around it if it is empty."""
        names = {name.partition("/")[0] for name in commit.files if not name.startswith(f"{STAGING}/")}
        if not names:
            return
        staging = self._archive.sibling(STAGING_OF_BEFORE)
        for name in names:
            if BATCH_OF_BEFORE.fullmatch(name):
                staging.delete(name)
        staging.delete_empty()

    def _version(self) -> Sequence[StoredFile]:
        """Return a value that changes whenever a run commits, merges or folds."""
        return [file for directory in (COMMITS, LISTS, CHANGES) for file in self._archive.files(directory)]

    def _read(self) -> ArchiveState:
        """Read the summary last: a fold that happens meanwhile loses no commit then, and no change."""
        names, changes = self._names(DONE, PENDING), self._lists.changes()
        commits = self._all(names)
        files = self._files(commits, changes.values())
        half = [each for each in commits if f"{COMMITS}/{each.batch:010d}{PENDING}" in names]
        pending = frozenset(path for each in half for path in each.moves().values())
        batches = [found for each in commits for found in each.ranges]
        return ArchiveState(summed(commits), files, pending, bool(half), batches)

    def _all(self, names: Iterable[str]) -> list[ArchiveCommit]:
        """Return the summary and the commits of later batches. Spark numbers batches without a gap."""
        found = sorted((self._commit(each) for each in names), key=lambda each: each.batch)
        summary = self._summary()
        done = -1 if summary is None else summary.batch
        later = [each for each in found if each.batch > done]
        for batch, each in enumerate(later, done + 1):
            if each.batch != batch:
                other = f", or {SUMMARY}" if summary is None else ""
                raise StateConflict(
                    f"{self._archive.directory}/{COMMITS} has no commit of batch {batch}, but later ones: restore "
                    f"{batch:010d}{DONE} and the files of the batch{other}, or archive into a new directory"
                )
        return later if summary is None else [summary, *later]

    def _commit(self, name: str) -> ArchiveCommit:
        """Return a commit. Raise StateConflict if it is damaged, or that of another batch than its name says."""
        found: ArchiveCommit = decoded(self._archive, name, ArchiveCommit)
        match = COMMIT.fullmatch(name)
        assert match is not None, "names are listed by this pattern"
        if int(match[1]) != found.batch:
            raise StateConflict(
                f"{self._archive.directory}/{name} is the commit of batch {found.batch}: restore that of batch "
                f"{int(match[1])}, or archive into a new directory"
            )
        return found

    def _files(self, commits: Iterable[ArchiveCommit], changes: Iterable[FileChange]) -> dict[str, ArchivedFile]:
        files: dict[str, ArchivedFile] = {}
        for each in commits:
            files |= self._lists.read(each.listed) | each.contents
        return changed(files, (each for each in changes if self._lists.has_happened(each)))

    def _summary(self) -> ArchiveCommit | None:
        """Return the sum of folded commits. That of an earlier version says nothing about contents."""
        if not self._archive.exists(SUMMARY):
            return None
        found: ArchiveCommit = decoded(self._archive, SUMMARY, ArchiveCommit)
        if found.ranges and not found.listed and not found.unproven:
            return msgspec.structs.replace(found, unproven=[(0, found.batch)])
        return found

    def _names(self, *suffixes: str) -> list[str]:
        """Return the names of commits, each once: a commit is renamed while names are listed."""
        listed = [file.path for file in self._archive.files(COMMITS) if COMMIT.fullmatch(file.path)]
        found = [each for each in listed if each.endswith(suffixes)]
        return [each for each in found if each.removesuffix(PENDING) + DONE not in found or each.endswith(DONE)]


def decoded(storage: Storage, name: str, type_: Any) -> Any:
    """Return the content of a JSON file. Raise StateConflict if it is damaged."""
    return parsed(storage, name, storage.read(name), type_)


def ranges_of(files: Mapping[str, ArchivedFile]) -> list[ArchivedRange]:
    """Return what files have of each partition, sorted."""
    by_topic: dict[str, list[ArchivedFile]] = {}
    for path, file in files.items():
        by_topic.setdefault(topic_of(path), []).append(file)
    return [
        ArchivedRange(each.partition, each.first, each.last, each.count, each.checksum, topic=topic)
        for topic, found in sorted(by_topic.items())
        for each in summed_contents(found)
    ]


def summed(commits: Iterable[ArchiveCommit]) -> ArchiveCommit:
    """Return the sum of commits without their files."""
    last = ArchiveCommit(-1, {}, [])
    ends: list[Ends] = []
    skipped: list[SkippedRange] = []
    unproven: list[BatchSpan] = []
    ranges: list[ArchivedRange] = []
    for last in commits:
        skipped = merged(skipped, last.skipped)
        ends.append(last.ends)
        for batches in unproven_batches(last):
            begun = unproven.pop()[0] if unproven and unproven[-1][1] + 1 == batches[0] else batches[0]
            unproven.append((begun, batches[1]))
        ranges += last.ranges
    return ArchiveCommit(last.batch, {}, summed_ranges(ranges), merged_ends(ends), skipped, unproven=unproven)


def summed_ranges(ranges: Iterable[ArchivedRange]) -> list[ArchivedRange]:
    """Return the sums of ranges by partition, sorted. Ranges without checksums are summed apart, and come first.

    If a range without a checksum follows others, as after a return to an earlier version, it takes theirs.
    """
    sums: dict[TopicPartition, ArchivedRange] = {}
    without: dict[TopicPartition, ArchivedRange] = {}
    for each in ranges:
        key = each.key
        if each.checksum is None:
            before = sums.pop(key, None)
            add(without, key, each if before is None else before.plus(each))
        else:
            add(sums, key, each)
    return [found[key] for key in sorted(sums.keys() | without.keys()) for found in (without, sums) if key in found]


def archived_ends(ends: Ends, ranges: Iterable[ArchivedRange]) -> dict[TopicPartition, int]:
    """Return the offset up to which batches have read each partition, from their merged ends and the sums of ranges.

    Merged ends of an earlier version lack the partitions that the last batch of their topic did not read.
    """
    found = by_partition(ends)
    for each in ranges:
        found[each.key] = max(found.get(each.key, 0), each.last + 1)
    return found


def unproven_note(unproven: Iterable[BatchSpan]) -> str:
    """Return a sentence about the batches of an earlier version, or nothing without any."""
    spans = ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in unproven)
    return spans and (
        f"the batches of an earlier version ({spans}) are proven by the numbers of their records alone, and files "
        "without a commit are taken for theirs"
    )


def unproven_batches(commit: ArchiveCommit) -> list[BatchSpan]:
    """Return the batches of a commit, or of the sum of many, that have records and do not name their files."""
    is_unproven = commit.ranges and not commit.contents and not commit.listed and not commit.unproven
    return [(commit.batch, commit.batch)] if is_unproven else commit.unproven


def require_same_ends(batch: int, written: Ends, planned: Ends, place: str, previous: Ends | None = None) -> None:
    """Raise StateConflict if Spark repeats a batch that is written with other offsets than before.

    The records behind the old ones would be left out. That happens if the checkpoint is older than the archive. An
    archive also has the ends of partitions that no batch reads any more. It may lack those of which the batch reads
    nothing behind the `previous` ends.
    """
    before, now = by_partition(previous or {}) | by_partition(written), by_partition(planned)
    if any(before.get(key) != end for key, end in now.items()):
        raise StateConflict(
            f"batch {batch} of {place} ends at {written}, and the checkpoint says {planned}: the checkpoint is damaged "
            "or older than the archive. Restore both to the same time, or archive into a new directory"
        )


def older_than_checkpoint(place: str, batch: int) -> StateConflict:
    """Return the error about an archive that lacks a batch which the checkpoint counts as written."""
    return StateConflict(
        f"{place} lacks batch {batch}, which the checkpoint has: the archive is older than the checkpoint, and the "
        "records between them would be left out. Restore both to the same time, or archive into a new directory"
    )
