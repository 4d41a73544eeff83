"""The sending of the rows of one partition of a data frame, in a task of Spark."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pykbroker.pipeline.source.row_columns import row_groups
from pykbroker.pipeline.source.write_options import WriteOptions
from pykbroker.producer.delivery import ColumnsDelivery, RowsFailed
from pykbroker.producer.settings import producer_settings
from pykbroker.producer.threaded import ThreadedProducer

if TYPE_CHECKING:
    import pyarrow as pa


def write_rows(batches: Iterable[pa.RecordBatch], options: WriteOptions) -> int:
    """Send all rows, and return their number once the cluster has acknowledged them. Raise the error of the first one.

    Rows that were sent before an error stay written, and Spark sends all rows again if it repeats the task.
    """
    with RowWriter(options) as writer:
        for batch in batches:
            writer.send(batch)
        return writer.finish()


class RowWriter:
    """A producer of rows. It is closed at the end of the block."""

    def __init__(self, options: WriteOptions) -> None:
        self._topic = options.topic
        self._producer = ThreadedProducer("pykbroker-writer", producer_settings(options.producer))
        self._deliveries: deque[ColumnsDelivery] = deque()
        self._rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._producer.close(None if error is None else 0)

    def send(self, batch: pa.RecordBatch) -> None:
        """Send rows. Raise the error of earlier ones."""
        self._rows += len(batch)
        for group in row_groups(batch, self._topic):
            delivery = self._producer.send_many(
                group.topic, group.values, group.keys, group.headers, partition=group.partition
            )
            self._deliveries.append(delivery)
        while self._deliveries and self._deliveries[0].is_done:
            _check(self._deliveries.popleft())

    def finish(self) -> int:
        """Wait until all rows are acknowledged. Return their number, or raise the error of the first one."""
        self._producer.flush()
        for delivery in self._deliveries:
            _check(delivery)
        return self._rows


def _check(delivery: ColumnsDelivery) -> None:
    try:
        delivery.result()
    except RowsFailed as error:
        raise error.errors[min(error.errors)] from error
