"""The files that the commits of an archive name, with what proves their content.

The checksum of records is the exclusive or of the checksums of each, which `differences.checksum` returns. It does not
depend on the order of the records, and those of parts add up by another exclusive or, so that it outlives the file that
a merge replaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

from pykbroker.pipeline.storage import StoredFile

Key = TypeVar("Key")
Range = TypeVar("Range", bound=msgspec.Struct)
"""A structure with `first`, `last`, `count` and `checksum` of records of one partition."""
TOPIC = "topic="
"""The beginning of the directories with the files of a topic."""


class PartitionContent(msgspec.Struct, frozen=True, array_like=True):
    """The records of one partition in a file: the first and the last offset, their number, and their checksum.

    An archive has no checksum of decoded records.
    """

    partition: int
    first: int
    last: int
    count: int
    checksum: int | None = None


class ArchivedFile(msgspec.Struct, frozen=True, array_like=True):
    """The size of a file in bytes, and what it has of each partition of its topic."""

    size: int
    partitions: list[PartitionContent]

    @property
    def rows(self) -> int:
        """Return the number of records."""
        return sum(each.count for each in self.partitions)


class FileChange(msgspec.Struct, frozen=True):
    """The replacement of files of one day by others with the same records."""

    removed: list[str]
    added: dict[str, ArchivedFile]


def topic_of(path: str) -> str:
    """Return the topic of a file of an archive, such as topic=orders/date=2026-11-24/batch-0.parquet."""
    return path.partition("/")[0].removeprefix(TOPIC)


def added(one: Range, other: Range) -> Range:
    """Return the range of the records of both, without a checksum if one of them has none."""
    a: Any = one
    b: Any = other
    return msgspec.structs.replace(
        one,
        first=min(a.first, b.first),
        last=max(a.last, b.last),
        count=a.count + b.count,
        checksum=None if None in (a.checksum, b.checksum) else a.checksum ^ b.checksum,
    )


def add(sums: dict[Key, Range], key: Key, found: Range) -> None:
    """Add the range of some records to the sum that has their key, if there is one."""
    sums[key] = added(sums[key], found) if key in sums else found


def summed_contents(files: Iterable[ArchivedFile]) -> list[PartitionContent]:
    """Return what files of one topic have of each partition, sorted."""
    found: dict[int, PartitionContent] = {}
    for each in sorted((part for file in files for part in file.partitions), key=attrgetter("partition")):
        add(found, each.partition, each)
    return list(found.values())


def changed(files: Mapping[str, ArchivedFile], changes: Iterable[FileChange]) -> dict[str, ArchivedFile]:
    """Return the files after some changes. A change that they contain already changes nothing."""
    found = dict(files)
    for each in changes:
        for path in each.removed:
            found.pop(path, None)
        found |= each.added
    return found


def damages(files: Mapping[str, ArchivedFile], listed: Sequence[StoredFile]) -> list[str]:
    """Return a sentence for each file that is missing among the listed ones, or has another size there."""
    sizes = {each.path: each.size for each in listed}
    found = []
    for path, file in sorted(files.items()):
        size = sizes.get(path)
        if size is None:
            found.append(f"{path} is missing, which has {file.rows:,} records")
        elif size != file.size:
            found.append(f"{path} has {size:,} bytes in place of {file.size:,}")
    return found
