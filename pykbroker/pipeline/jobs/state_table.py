"""An Iceberg table that a job replaces in one step. A state is one snapshot, so readers always see whole states."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pykbroker.pipeline.errors import StateConflict
from pykbroker.pipeline.jobs.iceberg import require_time_column, table_name
from pykbroker.pipeline.jobs.state_owner import StateOwner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OWNED_BY = "pykbroker.state"
"""The property of a table that names its owner."""


class StateTable:
    """A table that holds a state, partitioned by topic."""

    def __init__(self, spark: SparkSession, place: str, owner: StateOwner) -> None:
        self._spark, self._owner, self._name = spark, owner, table_name(spark, place)

    def open(self) -> None:
        if not self._spark.catalog.tableExists(self._name):
            return
        properties = {row[0]: row[1] for row in self._spark.sql(f"SHOW TBLPROPERTIES {self._name}").collect()}
        if OWNED_BY not in properties:
            raise StateConflict(f"the table {self._name} is no state: choose another table")
        self._owner.require(properties[OWNED_BY], self._name)

    def replace(self, records: DataFrame) -> int:
        from pyspark.sql import functions as f

        # Without a distribution, the counts of the last stage stay exact if an executor is lost.
        writer = records.writeTo(self._name).option("distribution-mode", "none")
        if self._spark.catalog.tableExists(self._name):
            require_time_column(self._spark, self._name)
            writer.overwrite(f.lit(True))
        else:
            owner = msgspec.json.encode(self._owner).decode()
            writer.using("iceberg").partitionedBy(f.col("topic")).tableProperty(OWNED_BY, owner).create()
        return self._spark.table(self._name).count()

    def close(self) -> None:
        """Do nothing: a table needs no lock, since each snapshot is committed against the one before it."""
