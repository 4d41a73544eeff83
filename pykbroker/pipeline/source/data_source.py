"""The data source `pykbroker` for Spark."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pyspark import __version__ as spark_version
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSource

from pykbroker.pipeline.source.batch_reader import TopicBatchReader
from pykbroker.pipeline.source.errors import InvalidOption
from pykbroker.pipeline.source.read_limits import refuse_limits
from pykbroker.pipeline.source.read_options import INCLUDE_TIME, batch_options, stream_options, truth
from pykbroker.pipeline.source.record_batches import spark_schema
from pykbroker.pipeline.source.stream_reader import TopicStreamReader
from pykbroker.pipeline.source.worker_reuse import prepare_next_task
from pykbroker.pipeline.source.write_options import check_batch_mode, check_columns, write_options
from pykbroker.pipeline.source.writers import StreamTopicWriter, TopicWriter

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter
    from pyspark.sql.types import StructType

NAME = "pykbroker"
FILTER_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"
HAS_LIMITS = find_spec("pyspark.sql.streaming.datasource") is not None
"""Whether a Python data source may limit a micro-batch: since Spark 4.2."""

HAS_ARROW_STREAMS = hasattr(datasource, "DataSourceStreamArrowWriter")
"""Whether the writer of a stream may get Arrow batches: since Spark 4.1."""


def pushes_filters() -> bool:
    """Whether Spark (since 4.1) plans a query in this process with the filters that it pushes down.

    A reader that takes filters fails a query wherever `spark.sql.python.filterPushdown.enabled` is false.
    """
    main = getattr(sys.modules["__main__"], "__spec__", None)
    return FILTER_WORKER in sys.modules or (main is not None and main.name == FILTER_WORKER)


class PykbrokerDataSource(DataSource):
    """Topics as a data source, with the options and columns of Spark's format `kafka`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    @property
    def _given(self) -> dict[str, str]:
        """Return the options with their names in lower case."""
        return {name.lower(): value for name, value in self.options.items()}

    def schema(self) -> str:
        """Return the columns of rows that are read."""
        prepare_next_task()
        given = self._given
        has_time_ms = truth(given, INCLUDE_TIME, default=False)
        return spark_schema(has_headers=truth(given, "includeHeaders", default=False), has_time_ms=has_time_ms)

    def reader(self, schema: StructType) -> TopicBatchReader:
        """Return the reader of a batch query. Raise InvalidOption."""
        options = batch_options(self._given)
        self._check_schema(schema)
        if not pushes_filters():
            return TopicBatchReader(options)
        from pykbroker.pipeline.source.filtered_batch_reader import FilteredBatchReader

        return FilteredBatchReader(options)

    def streamReader(self, schema: StructType) -> TopicStreamReader:
        """Return the reader of a stream. Raise InvalidOption."""
        given = self._given
        if not HAS_LIMITS:
            refuse_limits(given, spark_version)
        options = stream_options(given)
        self._check_schema(schema)
        if not HAS_LIMITS:
            return TopicStreamReader(options)
        from pykbroker.pipeline.source.limited_stream_reader import LimitedStreamReader

        return LimitedStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> TopicWriter:
        """Return the writer of a batch query. Raise InvalidOption or InvalidColumn."""
        prepare_next_task()
        check_batch_mode(overwrite=overwrite)
        options = write_options(self._given)
        check_columns(_columns(schema), options)
        return TopicWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer of a stream, in any output mode. Raise InvalidOption or InvalidColumn."""
        prepare_next_task()
        options, columns = write_options(self._given), _columns(schema)
        check_columns(columns, options)
        if not HAS_ARROW_STREAMS:
            return StreamTopicWriter(options, columns)
        from pykbroker.pipeline.source.arrow_stream_writer import ArrowStreamTopicWriter

        return ArrowStreamTopicWriter(TopicWriter(options))

    def _check_schema(self, schema: StructType) -> None:
        columns = [part.split()[0] for part in self.schema().split(", ") if ":" not in part.split()[0]]
        if schema.fieldNames() != columns:
            raise InvalidOption("the format pykbroker has a fixed schema, and cannot be set with a custom one")


def _columns(schema: StructType) -> list[tuple[str, str]]:
    """Return the names and types of columns."""
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]
