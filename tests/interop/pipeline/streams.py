"""Streams of both formats that keep the rows of each micro-batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.interop.pipeline.both_formats import FORMATS, BothFormats, Row, failure, plain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RUN_S_MAX = 60


class Stream:
    """A stream of one format with a checkpoint, which may be run more than once."""

    def __init__(self, formats: BothFormats, kind: str, checkpoint: Path, options: dict[str, object]) -> None:
        self.formats, self._kind, self._options = formats, kind, options
        self._checkpoint = checkpoint
        self.batches: list[list[Row]] = []
        """The rows of each micro-batch that has some, sorted by partition and offset."""
        self.tasks: list[int] = []
        self.fails = False
        """Whether the next micro-batch fails after it was read."""

    def _keep(self, frame: DataFrame, batch_id: int) -> None:
        rows = sorted(map(plain, frame.collect()), key=lambda row: row[2:5])
        if self.fails:
            raise RuntimeError("this micro-batch fails")
        if rows:
            self.batches.append(rows)
            self.tasks.append(frame.rdd.getNumPartitions())

    def start(self, **trigger: Any) -> Any:
        """Start the query. It goes on from the checkpoint if there is one."""
        reader = self.formats.options(self.formats.spark.readStream.format(self._kind), self._options)
        writer = reader.load().writeStream.foreachBatch(self._keep).option("checkpointLocation", str(self._checkpoint))
        return (writer.trigger(**trigger) if trigger else writer).start()

    def finish(self) -> None:
        """Run the query until it has read what there is, by the trigger AvailableNow."""
        query = self.start(availableNow=True)
        try:
            assert query.awaitTermination(RUN_S_MAX), "the query has not ended"
        finally:
            query.stop()

    @property
    def values(self) -> list[list[str]]:
        """Return the values of each micro-batch, sorted."""
        return [sorted(row[1].decode() for row in batch) for batch in self.batches]

    @property
    def rows(self) -> list[Row]:
        """Return all rows, sorted by partition and offset."""
        return sorted((row for batch in self.batches for row in batch), key=lambda row: row[2:5])


def both(formats: BothFormats, directory: Path, **options: object) -> list[Stream]:
    """Return a stream of each format, with the same options. That of the format `pykbroker` is the last one."""
    return [Stream(formats, kind, directory / kind, options) for kind in FORMATS]


def finish(streams: list[Stream]) -> None:
    """Run streams at the same time until they have read what there is."""
    streams[0].formats.at_once(Stream.finish, streams)


def failures(streams: list[Stream]) -> list[str]:
    """Return the messages with which streams fail that run at the same time."""
    return streams[0].formats.at_once(lambda stream: failure(stream.finish), streams)


@contextmanager
def running(streams: list[Stream]) -> Iterator[list[Any]]:
    """Run streams at the same time, and stop them at the end of the block."""
    queries: list[Any] = []
    try:
        for stream in streams:
            queries.append(stream.start())
        yield queries
    finally:
        for query in queries:
            query.stop()


def settle(queries: list[Any]) -> None:
    """Wait until queries have read all records."""
    for query in queries:
        query.processAllAvailable()
