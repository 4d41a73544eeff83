"""Streams: the reader that Spark plans and runs micro-batches with.

Spark has one reader for a stream in a process of the driver, and copies of it in the tasks. Before a stream goes on
from its checkpoint, Spark 4.0 and 4.1 call `partitions` with the last position of the checkpoint as both start and end.
Otherwise the first call is that of `latestOffset`, and not that of `initialOffset`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from pykbroker.pipeline.source.batch_reader import RangePartition
from pykbroker.pipeline.source.errors import report_losses
from pykbroker.pipeline.source.lookups import OffsetLookup
from pykbroker.pipeline.source.offset_json import OffsetMap
from pykbroker.pipeline.source.planning import micro_batch, new_partitions
from pykbroker.pipeline.source.range_reader import read_range
from pykbroker.pipeline.source.read_options import ReadOptions
from pykbroker.pipeline.source.shipping import Shipped
from pykbroker.pipeline.source.stream_offsets import StreamPosition, advanced, begin_of, json_of, position_of
from pykbroker.pipeline.source.worker_reuse import prepare_next_task

if TYPE_CHECKING:
    import pyarrow as pa


class TopicStreamReader(Shipped, DataSourceStreamReader):
    """The reader of a stream, without limits for its micro-batches."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._open_lookup: OffsetLookup | None = None
        self._starting: OffsetMap | None = None
        self._last: StreamPosition | None = None
        """The end of the last micro-batch, or None before the first one."""

    def initialOffset(self) -> dict[str, Any]:
        """Return the position at which the stream starts."""
        return json_of(self._start())

    def latestOffset(self) -> dict[str, Any]:
        """Return the position at the end of the logs."""
        start = self._start() if self._last is None else self._last
        self._last = advanced(start, self._ends(start.reached))
        return json_of(self._last)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the ranges of the tasks of a micro-batch. Raise DataLoss if records that it has to read are lost."""
        until = position_of(end)
        self._last = until
        if start == end:
            return []
        begins, ends = begin_of(position_of(start), until), until.reached
        added = new_partitions(begins, ends)
        first = self._first_offsets(added) if added else {}
        batch = micro_batch(begins, ends, first, self._options.division)
        report_losses(batch.losses, fails=self._options.fails_on_loss)
        return [RangePartition(each) for each in batch.ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a task."""
        assert isinstance(partition, RangePartition), "partitions returns nothing else"
        yield from read_range(partition.range, self._options)
        prepare_next_task()

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing, since the checkpoint has the position of the stream."""

    def stop(self) -> None:
        """Close the connections."""
        if self._open_lookup is not None:
            self._open_lookup.close()

    # ---- offsets

    @property
    def _lookup(self) -> OffsetLookup:
        if self._open_lookup is None:
            self._open_lookup = OffsetLookup(self._options)
        return self._open_lookup

    def _start(self) -> StreamPosition:
        """Return the position at which the stream starts, which is determined once."""
        if self._starting is None:
            lookup = self._lookup
            self._starting = lookup.resolved(self._options.starting, lookup.partitions(), starts=True)
        return StreamPosition(None, self._starting)

    def _ends(self, known: OffsetMap) -> OffsetMap:
        """Return the ends of the logs of all partitions."""
        return self._lookup.latest(self._lookup.partitions(), known)

    def _first_offsets(self, partitions: list[Any]) -> OffsetMap:
        """Return the first offsets of new partitions. A partition that does not exist any more is left out."""
        existing = set(self._lookup.partitions())
        return self._lookup.earliest([each for each in partitions if each in existing])

    def __getstate__(self) -> dict[str, Any]:
        """Return what a task needs, which excludes the connections of the driver."""
        return {"_options": self._options}
