"""The commits of an archive of Parquet files. A batch appears as a whole, and once, after any crash.

1. The files of a batch are written to a directory of the run inside the archive, which readers of the bare directory
   skip. They are durable before the commit begins.
2. The commit appears under the name of a pending one, in one step. From then on the batch counts as written.
3. Its files are renamed into the archive. After a crash the next run completes that.
4. The commit gets its final name.
5. Commits of many batches are folded into one summary. A commit that the summary contains is ignored, and deleted.

A file system of Hadoop has no lock for a run. Two runs at a time write the files of a batch twice there, and the first
one to create the commit decides: the other one fails, so that the batch appears once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from uuid import uuid4

import msgspec

from pykbroker.pipeline.errors import StateConflict
from pykbroker.pipeline.jobs.skipped import SkippedRange, merged
from pykbroker.pipeline.spark_offsets import Ends
from pykbroker.pipeline.storage import Storage, taken

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
OWNER = f"{OWN}archive.json"
SUMMARY = f"{OWN}summary.json"
PENDING = ".json.pending"
DONE = ".json"
COMMITS_MAX = 1000
"""The number of commits from which they are folded."""


class ArchivedRange(msgspec.Struct, frozen=True):
    """The records of one partition in a batch: the first and the last offset, and their number."""

    topic: str
    partition: int
    first: int
    last: int
    count: int


class ArchiveCommit(msgspec.Struct, frozen=True):
    """A batch of an archive, or the sum of all batches up to this one.

    `files` maps the names of staged files to those in the archive. A name that does not begin with STAGING is one in
    the directory STAGING_OF_BEFORE. `ends` are the offsets up to which the batch has read, which may be behind its last
    records. `skipped` are offsets that were deleted before that.
    """

    batch: int
    files: dict[str, str]
    ranges: list[ArchivedRange]
    ends: Ends = {}
    skipped: list[SkippedRange] = []


class ArchiveOwner(msgspec.Struct, frozen=True):
    """The run whose checkpoint has the offsets of an archive."""

    run_id: str


class ArchiveCommits:
    """The commits of one archive."""

    def __init__(self, archive: Storage) -> None:
        self._archive = archive
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

    def open(self, run_id: str, *, is_new: bool) -> None:
        """Take the archive for a run, and complete its last commit.

        Raise StateConflict if it belongs to another run, or if it is gone and the run is not new.
        """
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
        else:
            self._archive.write(OWNER, msgspec.json.encode(ArchiveOwner(run_id)))
        for name in self._names(PENDING):
            commit = decoded(self._archive, name, ArchiveCommit)
            if self.committed(commit.batch) is None:
                self._complete(commit)
            else:
                self._archive.delete(name)
        self._archive.delete_leftovers(STAGING, RUN)

    def committed(self, batch: int) -> ArchiveCommit | None:
        """Return the commit of a batch, or that of all batches up to it, or None if it is not written."""
        name = f"{COMMITS}/{batch:010d}{DONE}"
        if self._archive.exists(name):
            return decoded(self._archive, name, ArchiveCommit)  # type: ignore[no-any-return]
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
        """Return all commits, the first one first. The first one may be the sum of many."""
        names = [*self._names(DONE), *self._names(PENDING)]
        found = sorted((decoded(self._archive, each, ArchiveCommit) for each in names), key=lambda each: each.batch)
        summary = self._summary()
        return found if summary is None else [summary, *(each for each in found if each.batch > summary.batch)]

    def fold(self, commits_max: int = COMMITS_MAX) -> None:
        """Replace the commits by their sum if there are more than `commits_max`."""
        names = self._names(DONE)
        if len(names) <= commits_max:
            return
        self._archive.write(SUMMARY, msgspec.json.encode(summed(self.all())))
        for name in names:
            self._archive.delete(name)

    def close(self) -> None:
        """Delete the files that this run has staged and not committed."""
        self._archive.delete(self.staging)
        self._archive.delete_empty(STAGING)

    def _complete(self, commit: ArchiveCommit) -> None:
        for staged, target in commit.files.items():
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
        staging = self._archive.sibling(STAGING_OF_BEFORE)
        for name in names:
            if BATCH_OF_BEFORE.fullmatch(name):
                staging.delete(name)
        if names:
            staging.delete_empty()

    def _summary(self) -> ArchiveCommit | None:
        return decoded(self._archive, SUMMARY, ArchiveCommit) if self._archive.exists(SUMMARY) else None

    def _names(self, suffix: str) -> list[str]:
        return [file.path for file in self._archive.files(COMMITS) if file.path.endswith(suffix)]


def decoded(storage: Storage, name: str, type_: Any) -> Any:
    """Return the content of a JSON file. Raise StateConflict if it is damaged."""
    try:
        return msgspec.json.decode(storage.read(name), type=type_)
    except msgspec.MsgspecError as error:
        raise StateConflict(f"{storage.directory}/{name} is damaged: {error}") from None


def summed(commits: Iterable[ArchiveCommit]) -> ArchiveCommit:
    """Return the sum of commits. Of each topic, the last one that has read it has the ends."""
    last = ArchiveCommit(-1, {}, [])
    ends: Ends = {}
    skipped: list[SkippedRange] = []
    ranges: dict[tuple[str, int], ArchivedRange] = {}
    for last in commits:
        skipped = merged(skipped, last.skipped)
        ends = {**ends, **last.ends}
        for each in last.ranges:
            key = each.topic, each.partition
            old = ranges.get(key, ArchivedRange(*key, each.first, each.last, 0))
            first, end = min(old.first, each.first), max(old.last, each.last)
            ranges[key] = ArchivedRange(*key, first, end, old.count + each.count)
    return ArchiveCommit(last.batch, {}, [ranges[key] for key in sorted(ranges)], ends, skipped)


def require_same_ends(batch: int, written: Ends, planned: Ends, place: str) -> None:
    """Raise StateConflict if Spark repeats a batch that is written with other offsets than before.

    The records behind the old ones would be left out. That happens if the checkpoint is older than the archive. An
    archive also has the ends of topics that no batch reads any more.
    """
    if {topic: written.get(topic) for topic in planned} != planned:
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
