"""The data source `pykbroker` for Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from pykbroker.pipeline.source.batch_reader import TopicBatchReader
from pykbroker.pipeline.source.errors import InvalidOption
from pykbroker.pipeline.source.import_cache import forget_zip_importers
from pykbroker.pipeline.source.read_options import batch_options, truth
from pykbroker.pipeline.source.record_batches import spark_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

NAME = "pykbroker"


class PykbrokerDataSource(DataSource):
    """Topics as a data source, with the options and columns of Spark's format `kafka`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    @property
    def _given(self) -> dict[str, str]:
        """Return the options with their names in lower case."""
        return {name.lower(): value for name, value in self.options.items()}

    def schema(self) -> str:
        """Return the columns of rows that are read."""
        forget_zip_importers()
        return spark_schema(has_headers=truth(self._given, "includeHeaders", default=False))

    def reader(self, schema: StructType) -> TopicBatchReader:
        """Return the reader of a batch query. Raise InvalidOption."""
        options = batch_options(self._given)
        self._check_schema(schema)
        return TopicBatchReader(options)

    def _check_schema(self, schema: StructType) -> None:
        columns = [part.split()[0] for part in self.schema().split(", ") if ":" not in part.split()[0]]
        if schema.fieldNames() != columns:
            raise InvalidOption("the format pykbroker has a fixed schema, and cannot be set with a custom one")
