"""The names of an archive's files beyond its commits: those that a summary of commits has, and changes by merges.

1. The files of a summary are in a list beside it, which readers read and the job does not. The summary names its
   list, so that both are replaced in one step.
2. A change is written before the files of a day are exchanged, and deleted when a new list has it. In between, the
   files themselves tell whether they were exchanged: their names are new.
"""

from __future__ import annotations

import gzip
import re
import zlib
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from pykbroker.pipeline.errors import StateConflict
from pykbroker.pipeline.jobs.archived_files import ArchivedFile, FileChange

if TYPE_CHECKING:
    from pykbroker.pipeline.storage import Storage

LISTS = "_pykbroker/files"
LIST = re.compile(r"(?P<batch>[0-9]{10})-[0-9a-f]{8}\.json\.gz")
CHANGES = "_pykbroker/changes"
CHANGE = re.compile(rf"{CHANGES}/[0-9a-f]{{8}}\.json")
LEFT = re.compile(r"\.?([0-9a-f-]+|archive|summary)\.json(\.gz|\.pending)?(\.[0-9a-f]{8})?\.tmp")
"""The names under which a storage writes the files of commits, lists and changes before it renames them."""
COMPRESSION_LEVEL = 6


class FileLists:
    """The lists and the changes of one archive."""

    def __init__(self, archive: Storage) -> None:
        self._archive = archive

    def read(self, name: str) -> dict[str, ArchivedFile]:
        """Return the files of a list. The empty name is that of an empty list."""
        if not name:
            return {}
        content = self._archive.read(f"{LISTS}/{name}")
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise StateConflict(f"{self._archive.directory}/{LISTS}/{name} is damaged: {error}") from None
        return parsed(self._archive, f"{LISTS}/{name}", content, dict[str, ArchivedFile])  # type: ignore[no-any-return]

    def write(self, batch: int, files: dict[str, ArchivedFile]) -> str:
        """Write the list of a summary up to a batch. Return its name."""
        if not files:
            return ""
        name = f"{batch:010d}-{uuid4().hex[:8]}.json.gz"
        content = msgspec.json.encode(files, order="sorted")
        self._archive.write(f"{LISTS}/{name}", gzip.compress(content, COMPRESSION_LEVEL, mtime=0))
        return name

    def delete_old(self, batch: int, current: str) -> None:
        """Delete the lists up to a batch but the current one.

        Without a lock, another run may write a list of later batches now, which its summary will name.
        """
        for file in self._archive.files(LISTS):
            name = file.path.removeprefix(f"{LISTS}/")
            found = LIST.fullmatch(name)
            if found is not None and name != current and int(found["batch"]) <= batch:
                self._archive.delete(file.path)

    def begin(self, change: FileChange) -> str:
        """Record a change that is about to happen. Return the name of the record."""
        name = f"{CHANGES}/{uuid4().hex[:8]}.json"
        self._archive.create(name, msgspec.json.encode(change))
        return name

    def delete(self, name: str) -> None:
        """Delete the record of a change that has not happened, or that a list has."""
        self._archive.delete(name)

    def changes(self) -> dict[str, FileChange]:
        """Return the recorded changes by the names of their records."""
        names = [each.path for each in self._archive.files(CHANGES) if CHANGE.fullmatch(each.path)]
        return {name: parsed(self._archive, name, self._archive.read(name), FileChange) for name in names}

    def has_happened(self, change: FileChange) -> bool:
        """Whether the files of a change are in the archive. They come all at once."""
        return any(self._archive.exists(path) for path in change.added)


def parsed(storage: Storage, name: str, content: bytes, type_: Any) -> Any:
    """Return the content of a JSON file. Raise StateConflict if it is damaged."""
    try:
        return msgspec.json.decode(content, type=type_)
    except msgspec.MsgspecError as error:
        raise StateConflict(f"{storage.directory}/{name} is damaged: {error}") from None
