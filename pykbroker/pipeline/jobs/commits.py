"""The commits of an archive of Parquet files. A batch appears as a whole, and once, after any crash.

1. The files of a batch are written outside the archive, so that no reader of the bare directory sees them.
2. The commit appears under the name of a pending one, in one step. From then on the batch counts as written.
3. Its files are renamed into the archive. After a crash the next run completes that.
4. The commit gets its final name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from pykbroker.pipeline.errors import StateConflict
from pykbroker.pipeline.storage import Storage

OWN = "_pykbroker/"
"""The directory of the job's own files. Spark and pyarrow skip it, and it has no Parquet file for others."""
COMMITS = f"{OWN}commits"
OWNER = f"{OWN}archive.json"
PENDING = ".json.pending"
DONE = ".json"


class ArchivedRange(msgspec.Struct, frozen=True):
    """The records of one partition in a batch: the first and the last offset, and their number."""

    topic: str
    partition: int
    first: int
    last: int
    count: int


class ArchiveCommit(msgspec.Struct, frozen=True):
    """A batch of an archive. `files` maps the names in the staging directory to those in the archive."""

    batch: int
    files: dict[str, str]
    ranges: list[ArchivedRange]


class ArchiveOwner(msgspec.Struct, frozen=True):
    """The run whose checkpoint has the offsets of an archive."""

    run_id: str


class ArchiveCommits:
    """The commits of one archive."""

    def __init__(self, archive: Storage, staging: Storage) -> None:
        self._archive, self._staging = archive, staging

    def open(self, run_id: str) -> None:
        """Take the archive for a run, and complete its last commit. Raise StateConflict if it belongs to another."""
        if self._archive.exists(OWNER):
            owner = decoded(self._archive, OWNER, ArchiveOwner)
            if owner.run_id != run_id:
                raise StateConflict(
                    f"{self._archive.directory} was written by a run with another checkpoint: a new one would begin "
                    "at its first record again. Give the old one with --checkpoint, or choose another directory"
                )
        elif any(not file.path.startswith(OWN) for file in self._archive.files()):
            text = f"{self._archive.directory} has files that are no archive: choose an empty directory"
            raise StateConflict(text)
        else:
            self._archive.write(OWNER, msgspec.json.encode(ArchiveOwner(run_id)))
        for name in self._names(PENDING):
            self._complete(decoded(self._archive, name, ArchiveCommit))
        self._staging.delete()

    def is_committed(self, batch: int) -> bool:
        """Whether a batch is written."""
        return self._archive.exists(f"{COMMITS}/{batch:010d}{DONE}")

    def commit(self, commit: ArchiveCommit) -> None:
        """Commit a batch whose files are staged, and move them into the archive."""
        self._archive.write(f"{COMMITS}/{commit.batch:010d}{PENDING}", msgspec.json.encode(commit))
        self._complete(commit)

    def all(self) -> list[ArchiveCommit]:
        """Return all commits, the first one first."""
        names = [*self._names(DONE), *self._names(PENDING)]
        return sorted((decoded(self._archive, each, ArchiveCommit) for each in names), key=lambda each: each.batch)

    def _complete(self, commit: ArchiveCommit) -> None:
        for staged, target in commit.files.items():
            if self._staging.exists(staged):
                self._archive.take(self._staging, staged, target)
        name = f"{COMMITS}/{commit.batch:010d}"
        self._archive.rename(name + PENDING, name + DONE)

    def _names(self, suffix: str) -> list[str]:
        return [file.path for file in self._archive.files(COMMITS) if file.path.endswith(suffix)]


def decoded(storage: Storage, name: str, type_: Any) -> Any:
    """Return the content of a JSON file. Raise StateConflict if it is damaged."""
    try:
        return msgspec.json.decode(storage.read(name), type=type_)
    except msgspec.MsgspecError as error:
        raise StateConflict(f"{storage.directory}/{name} is damaged: {error}") from None


def archived_counts(commits: Iterable[ArchiveCommit]) -> dict[tuple[str, int], int]:
    """Return the number of committed records by topic and partition."""
    found: dict[tuple[str, int], int] = {}
    for commit in commits:
        for each in commit.ranges:
            key = each.topic, each.partition
            found[key] = found.get(key, 0) + each.count
    return found
