"""The dead-letter topic of a job: records that are bad, each once, with the reason and their place in headers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.decoding.columns import ERROR
from pykbroker.pipeline.writing.placement import placed, with_source
from pykbroker.pipeline.writing.position import PositionPlace
from pykbroker.pipeline.writing.task import WritePlan, write_records
from pykbroker.pipeline.writing.writer import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HEADERS = {
    "__connect.errors.topic": "topic",
    "__connect.errors.partition": "partition",
    "__connect.errors.offset": "offset",
    "__connect.errors.exception.message": ERROR,
}
"""The headers of a dead letter, with the names that Kafka Connect gives to them (KIP-298), and their columns."""


class DeadLetters(msgspec.Struct, frozen=True):
    """A dead-letter topic. `producer` has the settings of the producer, in Kafka's names."""

    topic: str
    producer: Mapping[str, str]

    def write(self, bad: DataFrame, sources: Sequence[TopicPartition], job: str) -> None:
        """Write the bad records of some source partitions that are not written yet."""
        targets = tuple(self._target(source, job) for source in sources)
        letters = placed(with_source(with_reasons(bad), list(sources)), len(sources))
        write_records(letters, WritePlan(dict(self.producer), targets))

    def _target(self, source: TopicPartition, job: str) -> WriteTarget:
        """Return the target of a source partition, under which the group of the job has its position."""
        name = f"{job}-{source.topic}-{source.partition}"
        place = PositionPlace(job, source.topic, source.partition)
        return WriteTarget(str(source), name, self.topic, None, place, {"dead_letters": self.topic})


def with_reasons(bad: DataFrame) -> DataFrame:
    """Add the headers of a dead letter to records with the column `error`."""
    from pyspark.sql import functions as f

    added = [
        f.struct(f.lit(name).alias("key"), f.col(column).cast("string").cast("binary").alias("value"))
        for name, column in HEADERS.items()
    ]
    return bad.withColumn("headers", f.concat("headers", f.array(*added)))
