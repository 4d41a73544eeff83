"""The records of topics as a DataFrame or a stream, with either connector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from pykbroker.pipeline.cluster import PipelineCluster
from pykbroker.pipeline.schema import RECORD_COLUMNS, TIME_COLUMN
from pykbroker.pipeline.session import PipelineSession
from pykbroker.pipeline.source.client_options import security_of
from pykbroker.pipeline.source.offset_limits import EARLIEST, ENDING, STARTING
from pykbroker.pipeline.source.read_options import INCLUDE_TIME
from pykbroker.pipeline.source.topic_pattern import whole
from pykbroker.pipeline.spark_offsets import Ends
from pykbroker.pipeline.times import time_ms_of_connector, timestamp_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FORMATS = {"jvm": "kafka", "python": "pykbroker"}
"""The format of each connector."""
NOT_OF_BATCHES = frozenset(each.lower() for each in (*STARTING, *ENDING))
"""Options of a stream that a batch of it has not, since its offsets are known."""


class TopicsToRead(msgspec.Struct, frozen=True):
    """The topics of a job, by name or by a pattern for whole names, and further options of the `kafka` format."""

    bootstrap: str
    topics: tuple[str, ...] = ()
    pattern: str = ""
    options: dict[str, str] = {}
    committed_only: bool = True

    def cluster(self) -> PipelineCluster:
        """Return the cluster of the topics. Raise PipelineError if the settings of TLS and SASL do not work."""
        return PipelineCluster(self.bootstrap, security_of(self.options), committed_only=self.committed_only)

    def connector_options(self) -> dict[str, str]:
        """Return all options of the `kafka` format."""
        if self.pattern:
            selection = {"subscribePattern": whole(self.pattern)}
        else:
            selection = {"subscribe": ",".join(self.topics)} if self.topics else {}
        isolation = "read_committed" if self.committed_only else "read_uncommitted"
        return {
            "kafka.bootstrap.servers": self.bootstrap,
            "kafka.isolation.level": isolation,
            "includeHeaders": "true",
            "startingOffsets": "earliest",
            **selection,
            **self.options,
        }


def read_records(session: PipelineSession, source: TopicsToRead, **options: str) -> DataFrame:
    """Return the records of topics from `startingOffsets` to `endingOffsets`, with the columns RECORD_COLUMNS."""
    return _records(session, session.spark.read, {**source.connector_options(), **options})


def read_planned(session: PipelineSession, source: TopicsToRead, starts: Ends, ends: Ends) -> DataFrame:
    """Return the records of a batch of a stream. A partition without a start is new, and begins where its log does."""
    begins = {
        topic: {partition: starts.get(topic, {}).get(partition, EARLIEST) for partition in partitions}
        for topic, partitions in ends.items()
    }
    options = {name: value for name, value in source.options.items() if name.lower() not in NOT_OF_BATCHES}
    assigned = {topic: sorted(map(int, partitions)) for topic, partitions in ends.items()}
    options |= {"assign": json_text(assigned), "startingOffsets": json_text(begins), "endingOffsets": json_text(ends)}
    return read_records(session, msgspec.structs.replace(source, topics=(), pattern="", options=options))


def json_text(content: object) -> str:
    """Return an option of the `kafka` format whose value is JSON."""
    return msgspec.json.encode(content).decode()


def stream_records(session: PipelineSession, source: TopicsToRead, **options: str) -> DataFrame:
    """Return the stream of the records of topics, with the columns RECORD_COLUMNS."""
    return _records(session, session.spark.readStream, {**source.connector_options(), **options})


def _records(session: PipelineSession, reader: Any, options: Mapping[str, str]) -> DataFrame:
    from pyspark.sql import functions as f

    found = reader.format(FORMATS[session.connector])
    if session.connector == "python":
        records: DataFrame = found.options(**{**options, INCLUDE_TIME: "true"}).load()
    else:
        records = found.options(**options).load().withColumn(TIME_COLUMN, time_ms_of_connector())
    return records.withColumn("timestamp", timestamp_of(f.col(TIME_COLUMN))).select(*RECORD_COLUMNS)
