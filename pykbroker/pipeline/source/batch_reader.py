"""Batch queries: the reader that Spark plans and runs them with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pykbroker.pipeline.source.lookups import OffsetLookup
from pykbroker.pipeline.source.offset_json import OffsetMap
from pykbroker.pipeline.source.offset_ranges import TaskRange
from pykbroker.pipeline.source.planning import batch_ranges, require_order
from pykbroker.pipeline.source.range_reader import read_range
from pykbroker.pipeline.source.read_options import ReadOptions
from pykbroker.pipeline.source.shipping import Shipped
from pykbroker.pipeline.source.worker_reuse import prepare_next_task

if TYPE_CHECKING:
    import pyarrow as pa


class RangePartition(InputPartition):
    """The range of offsets of one task."""

    def __init__(self, found: TaskRange) -> None:
        super().__init__(found)
        self.range = found


class TopicBatchReader(Shipped, DataSourceReader):
    """The reader of a batch query. Spark plans with it on the driver, and copies it to the tasks."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return the ranges of the tasks, up to the ends that the logs have now."""
        prepare_next_task()
        options = self._options
        with OffsetLookup(options) as lookup:
            partitions = lookup.partitions()
            starts = lookup.resolved(options.starting, partitions, starts=True)
            ends = lookup.resolved(options.ending, partitions, starts=False)
            existing = starts.keys() & ends.keys()  # the others were deleted in between
            starts, ends = ({each: found[each] for each in existing} for found in (starts, ends))
            require_order(starts, ends)
            starts, ends = self._narrowed(lookup, starts, ends)
        return [RangePartition(each) for each in batch_ranges(options.starting, starts, ends, options.division)]

    def _narrowed(self, lookup: OffsetLookup, starts: OffsetMap, ends: OffsetMap) -> tuple[OffsetMap, OffsetMap]:
        """Return starts and ends without the records that a filter of the query drops anyway."""
        return starts, ends

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield the records of a task. Without partitions, Spark runs one task with None."""
        if isinstance(partition, RangePartition):
            yield from read_range(partition.range, self._options)
        prepare_next_task()
