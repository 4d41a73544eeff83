"""The files that the commits of an archive name, with what proves their content.

The checksum of records is the exclusive or of the checksums of each, which `differences.checksum` returns. It does not
depend on the order of the records, and those of parts add up by another exclusive or, so that it outlives the file that
a merge replaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Self, TypeVar

import msgspec

from pykbroker.pipeline.storage import StoredFile

Key = TypeVar("Key")
Range = TypeVar("Range", bound="OffsetRange")
TOPIC = "topic="
"""The beginning of the directories with the files of a topic."""


class OffsetRange(msgspec.Struct, frozen=True, array_like=True):
    """Some records of a partition: the first and the last offset, their number, and their checksum.

    The checksum is None for decoded records, and if records of an earlier version are among them.
    """

    partition: int
    first: int
    last: int
    count: int
    checksum: int | None = None

    def plus(self, other: Self) -> Self:
        """Return the range of the records of both, without a checksum if one of them has none."""
        return msgspec.structs.replace(
            self,
            first=min(self.first, other.first),
            last=max(self.last, other.last),
            count=self.count + other.count,
            checksum=None if self.checksum is None or other.checksum is None else self.checksum ^ other.checksum,
        )

    def is_like(self, other: OffsetRange) -> bool:
        """Whether both have the same offsets, the same number of records and, if both have one, the same checksum."""
        one, two = ((each.first, each.last, each.count) for each in (self, other))
        return one == two and (None in (self.checksum, other.checksum) or self.checksum == other.checksum)


class ArchivedFile(msgspec.Struct, frozen=True, array_like=True):
    """The size of a file in bytes, and what it has of each partition of its topic."""

    size: int
    partitions: list[OffsetRange]

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


def add(sums: dict[Key, Range], key: Key, found: Range) -> None:
    """Add the range of some records to the sum that has their key, if there is one."""
    sums[key] = sums[key].plus(found) if key in sums else found


def summed_contents(files: Iterable[ArchivedFile]) -> list[OffsetRange]:
    """Return what files of one topic have of each partition, sorted."""
    found: dict[int, OffsetRange] = {}
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
