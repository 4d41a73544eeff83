"""Streams that write Arrow batches, in versions of Spark that pass them (4.1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage  # type: ignore[attr-defined]

from pykbroker.pipeline.source.shipping import Shipped
from pykbroker.pipeline.source.writers import TopicWriter

if TYPE_CHECKING:
    import pyarrow as pa


class ArrowStreamTopicWriter(Shipped, DataSourceStreamArrowWriter):  # type: ignore[misc]
    """The writer of a stream, which writes the rows of a task as that of a batch query does."""

    def __init__(self, writer: TopicWriter) -> None:
        self._writer = writer

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task."""
        return self._writer.write(iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:
        """Do nothing, since all rows are written."""

    def abort(self, messages: list[Any], batchId: int) -> None:
        """Do nothing, since rows that were written stay written."""
