"""The comparison of what a job has read of an archive with what the commits claim, before the job writes anything.

A job that passed a hole would count the archive as done, and never read the records that come back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.jobs.commits import ArchivedRange
from pykbroker.pipeline.jobs.differences import ComparedOffsets, read_ranges, within
from pykbroker.pipeline.quantities import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pykbroker.pipeline.jobs.archived import ArchiveClaims

Claimed = Mapping[TopicPartition, ArchivedRange]
"""The sum of all batches for each partition. An archive without any has made no claims, and nothing is compared."""


def claimed_of(claimed: Claimed, topics: Collection[str]) -> Claimed:
    """Return the claims about all topics or about some."""
    return {key: each for key, each in claimed.items() if not topics or key.topic in topics}


def has_checksums(claimed: Claimed) -> bool:
    """Whether records can be proven, and not only their number: an earlier version has written no checksums."""
    return any(each.checksum is not None for each in claimed.values())


def shortfalls(claimed: Claimed, found: Iterable[ArchivedRange], topics: Collection[str] = ()) -> list[str]:
    """Return a sentence for each partition of which a job has read other records than the commits claim.

    `found` is what was read of all topics or of some. A range without a checksum is compared by its number of records,
    its first and its last offset.
    """
    if not claimed:
        return []
    wanted, read = claimed_of(claimed, topics), {each.key: each for each in found}
    sentences = []
    for key in sorted(wanted.keys() | read.keys()):
        one, two = wanted.get(key), read.get(key)
        if _described(one) != _described(two):
            sentences.append(f"{key}: the archive's files have {_described(two)}, and its commits {_described(one)}")
        elif one and two and not one.is_like(two):
            sentences.append(
                f"{key}: the archive's files have other contents than the {_described(one)} of its commits"
            )
    return sentences


def require_claimed(claimed: Claimed, found: Iterable[ArchivedRange], place: str, topics: Collection[str] = ()) -> None:
    """Raise PipelineError if a job has read other records than the commits claim."""
    if sentences := shortfalls(claimed, found, topics):
        more = f" (and {counted(len(sentences) - 1, 'other partition')} differ)" if len(sentences) > 1 else ""
        raise PipelineError(
            f"{sentences[0]}{more}. Nothing was written: restore the files of {place}, and see what differs with "
            "`pykbroker pipeline verify`"
        )


def newer_ranges(
    claimed: Mapping[TopicPartition, ArchivedRange], proven: Mapping[TopicPartition, ArchivedRange]
) -> dict[TopicPartition, ArchivedRange]:
    """Return the claims with checksums about partitions that have records without them, too, at lower offsets."""
    return {key: each for key, each in proven.items() if key in claimed and claimed[key].checksum is None}


def limits_of(ranges: Claimed) -> ComparedOffsets:
    """Return the first offset of each range, and the one behind its last record."""
    return {key: (each.first, each.last + 1) for key, each in ranges.items()}


def require_newer(claims: ArchiveClaims, records: DataFrame, place: str, topics: Collection[str] = ()) -> None:
    """Raise PipelineError if records with checksums are others than the commits claim.

    Records of partitions whose older batches have no checksums are read once more. `records` are of all topics or of
    some.
    """
    if newer := newer_ranges(claimed_of(claims.ranges, topics), claims.proven):
        require_claimed(newer, read_ranges(within(records, limits_of(newer))), place)


def _described(found: ArchivedRange | None) -> str:
    if found is None:
        return "no records"
    return f"{counted(found.count, 'record')} from offset {found.first} to {found.last}"
