"""The sums over the batches of an archive in an Iceberg table, by partition. A property of the table has them.

1. A batch is summed from the files that its snapshot has added, so that the sums are of what the table really has.
2. Sums are noted behind the snapshot. After a crash between both, the records behind those that are summed are exactly
   those of the batches that are not: their sums are made up for.
3. The property has one sum for each partition, however many batches there are. It outlives expired snapshots, and
   merging files does not change it.
4. A table of before has numbers, but no checksums, up to the batch that it had when sums began. These are summed apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from pykbroker.pipeline.errors import StateConflict
from pykbroker.pipeline.jobs.commits import ArchivedRange, summed_ranges
from pykbroker.pipeline.jobs.differences import read_ranges, within
from pykbroker.pipeline.jobs.table_batches import BATCH, SUMS
from pykbroker.pipeline.schema import with_times
from pykbroker.pipeline.spark_offsets import Ends, by_partition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NONE = -1
"""The number of the batch before the first one."""
Numbers = tuple[int, int, int, int | None]
"""First offset, last offset, count and checksum of the records of a partition, 55 bytes as JSON in place of 120."""


class TableSums(msgspec.Struct, frozen=True, omit_defaults=True):
    """The sums up to a batch. `before` has the sums up to the batch `unproven`, which have no checksums."""

    batch: int = NONE
    unproven: int = NONE
    partitions: dict[str, dict[int, Numbers]] = {}
    before: dict[str, dict[int, Numbers]] = {}

    def ranges(self) -> list[ArchivedRange]:
        """Return the sums by partition. Sums without checksums come first."""
        every = (
            ArchivedRange.of(topic, index, *numbers)
            for by_topic in (self.before, self.partitions)
            for topic, found in by_topic.items()
            for index, numbers in found.items()
        )
        return summed_ranges(every)

    def plus(self, batch: int, ranges: Iterable[ArchivedRange]) -> TableSums:
        """Return the sums up to a later batch."""
        return _sums(batch, self.unproven, summed_ranges([*self.ranges(), *ranges]))

    def json(self) -> str:
        """Return the text of the property."""
        return msgspec.json.encode(self).decode()


def noted_sums(table: Any) -> TableSums | None:
    """Return the sums in the properties of a table, or None for a table of an earlier version.

    Raise StateConflict for damage.
    """
    text = table.properties().get(SUMS)
    try:
        return None if text is None else msgspec.json.decode(text, type=TableSums)
    except msgspec.MsgspecError as error:
        raise StateConflict(f"the property {SUMS} of the table {table.name()} is damaged: {error}") from None


def first_sums(spark: SparkSession, name: str, batch: int) -> TableSums:
    """Return sums of the numbers of records alone, for a table without sums, or with those of too many batches."""
    return _sums(batch, batch, read_ranges(spark.table(name), has_checksum=False))


def settled_sums(spark: SparkSession, name: str, sums: TableSums, batch: int, ends: Ends) -> TableSums:
    """Return sums up to a batch with these ends, of which some batches may not be summed yet."""
    if sums.batch >= batch:
        return sums
    done = {each.key: each.last + 1 for each in sums.ranges()}
    limits = {key: (done.get(key, 0), end) for key, end in by_partition(ends).items()}
    limits = {key: (first, end) for key, (first, end) in limits.items() if first < end}
    return sums.plus(batch, read_ranges(within(with_times(spark.table(name)), limits)) if limits else [])


def sums_with(spark: SparkSession, name: str, table: Any, sums: TableSums, batch: int, ends: Ends) -> TableSums:
    """Return sums with the batch that was just appended to a table."""
    appended = appended_records(spark, name, table, batch)
    if appended is None:
        return settled_sums(spark, name, sums, batch, ends)
    return sums.plus(batch, read_ranges(with_times(appended)))


def appended_records(spark: SparkSession, name: str, table: Any, batch: int) -> DataFrame | None:
    """Return the records in the files that the snapshot of a batch has added, or None if the snapshot is gone."""
    snapshot = table.currentSnapshot()
    while snapshot is not None:
        if snapshot.operation() == "append" and snapshot.summary().get(BATCH) == str(batch):
            break
        parent = snapshot.parentId()
        snapshot = None if parent is None else table.snapshot(parent)
    if snapshot is None:
        return None
    reader, parent = spark.read, snapshot.parentId()
    if parent is None:
        return reader.option("versionAsOf", snapshot.snapshotId()).table(name)
    limits = {"start-snapshot-id": parent, "end-snapshot-id": snapshot.snapshotId()}
    return reader.options(**limits).table(name)


def claimed_ranges(spark: SparkSession, name: str, table: Any, batch: int, ends: Ends) -> list[ArchivedRange] | None:
    """Return the sums up to the last batch of a table, or None if it has none.

    Raise StateConflict if the table has fewer batches than its sums.
    """
    sums = noted_sums(table)
    if sums is None:
        return None
    if sums.batch > batch:
        raise StateConflict(
            f"the table {name} ends with batch {batch}, and its sums are of batch {sums.batch}: was it rolled back? "
            "The next run of `pykbroker pipeline archive` begins new sums, without checksums of the batches before"
        )
    return settled_sums(spark, name, sums, batch, ends).ranges()


def _sums(batch: int, unproven: int, ranges: Sequence[ArchivedRange]) -> TableSums:
    proven = [each for each in ranges if each.checksum is not None]
    return TableSums(batch, unproven, _by_topic(proven), _by_topic(each for each in ranges if each.checksum is None))


def _by_topic(ranges: Iterable[ArchivedRange]) -> dict[str, dict[int, Numbers]]:
    found: dict[str, dict[int, Numbers]] = {}
    for each in sorted(ranges, key=lambda each: (each.topic, each.partition)):
        found.setdefault(each.topic, {})[each.partition] = (each.first, each.last, each.count, each.checksum)
    return found
