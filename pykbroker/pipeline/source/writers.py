"""Queries that write: the writers that Spark copies to its tasks. They write each row at least once.

The driver commits nothing: a row is written as soon as the cluster has acknowledged it, as in Spark's own sink.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage

from pykbroker.pipeline.source.row_columns import row_batches
from pykbroker.pipeline.source.row_writer import write_rows
from pykbroker.pipeline.source.shipping import Shipped
from pykbroker.pipeline.source.worker_reuse import prepare_next_task
from pykbroker.pipeline.source.write_options import WriteOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import Row


class RowsWritten(WriterCommitMessage):
    """The number of rows that a task has written."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


class TopicWriter(Shipped, DataSourceArrowWriter):
    """The writer of a batch query."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task."""
        written = write_rows(iterator, self._options)
        prepare_next_task()
        return RowsWritten(written)


class StreamTopicWriter(Shipped, DataSourceStreamWriter):
    """The writer of a stream in Spark 4.0, which passes single rows. `columns` are their names and types."""

    def __init__(self, options: WriteOptions, columns: Sequence[tuple[str, str]]) -> None:
        self._options, self._columns = options, columns

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        written = write_rows(row_batches(iterator, self._columns), self._options)
        prepare_next_task()
        return RowsWritten(written)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing, since all rows are written."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing, since rows that were written stay written."""
