"""The task that writes records of source partitions: Arrow batches in, transactions out."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from pykbroker.client.arrow import compute, pyarrow
from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.source.worker_reuse import prepare_next_task
from pykbroker.pipeline.writing.pace import WritePace
from pykbroker.pipeline.writing.record_table import record_table
from pykbroker.pipeline.writing.writer import TransactionalWriter, WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WRITTEN = "source int, records bigint"
"""The columns of what a task returns: a row for each source partition."""


class WritePlan(msgspec.Struct, frozen=True):
    """The plan of all tasks: the target of each source partition, and the size and pace of transactions.

    `producer` has settings in Kafka's names. A transaction ends with the batch that reaches one of its limits.
    """

    producer: dict[str, str]
    targets: tuple[WriteTarget, ...]
    pace: WritePace = WritePace()
    transaction_rows: int = 100_000
    transaction_bytes: int = 32 << 20
    transaction_s: float = 1.0


def write_records(records: DataFrame, plan: WritePlan) -> None:
    """Write the records of `placed`, each source partition in a task."""
    records.mapInArrow(partial(write_batches, plan), WRITTEN).collect()


def write_batches(plan: WritePlan, batches: Iterable[Any]) -> Iterator[Any]:
    """Write batches with the columns of WRITTEN_COLUMNS, sorted by source and offset. Yield what was written."""
    pa = pyarrow()
    prepare_next_task()
    task: SourceTask | None = None
    try:
        for batch in batches:
            for source, part in runs_of(batch):
                if task is None or task.source != source:
                    if task is not None:
                        yield task.finished(pa)
                    task = SourceTask(plan, source)
                task.write(part)
        if task is not None:
            yield task.finished(pa)
    finally:
        if task is not None:
            task.close()


def runs_of(batch: Any) -> Iterator[tuple[int, Any]]:
    """Yield the rows of each source in a sorted batch."""
    start, sources = 0, batch.column("source")
    while start < len(batch):
        source = sources[start].as_py()
        count = compute().sum(compute().equal(sources, source)).as_py()
        yield source, batch.slice(start, count)
        start += count


class SourceTask:
    """The writing of one source partition. Records before its position are skipped."""

    def __init__(self, plan: WritePlan, source: int) -> None:
        self.source, self._plan, self._target = source, plan, plan.targets[source]
        self._writer = TransactionalWriter(plan.producer, self._target)
        self._begun = time.monotonic()
        self._written = self._rows = self._bytes = 0
        self._opened = 0.0
        self._last = -1
        try:
            self._writer.begin()
        except BaseException:
            self._writer.close()
            raise

    def write(self, batch: Any) -> None:
        """Write the rows of a batch that are not written yet."""
        self._check_order(batch.column("offset"))
        batch = batch.slice(rows_before(batch.column("offset"), self._writer.position.offset))
        while len(batch):
            count = self._plan.pace.portion(len(batch))
            self._write(batch.slice(0, count))
            batch = batch.slice(count)

    def _write(self, batch: Any) -> None:
        if not self._rows:
            self._opened = time.monotonic()
        self._writer.write(record_table(batch), batch.column("offset"))
        self._written, self._rows = self._written + len(batch), self._rows + len(batch)
        self._bytes += batch.nbytes
        now, plan = time.monotonic(), self._plan
        wait_s = plan.pace.wait_s(self._written, now - self._begun)
        limits = (
            self._rows >= plan.transaction_rows,
            self._bytes >= plan.transaction_bytes,
            now + wait_s - self._opened >= plan.transaction_s,
        )
        if any(limits):
            self._commit()
        if wait_s:
            time.sleep(wait_s)

    def _check_order(self, offsets: Any) -> None:
        """Raise PipelineError if an offset occurs twice: its records would be written twice."""
        steps = compute().min(compute().pairwise_diff(offsets)).as_py()
        if offsets[0].as_py() <= self._last or (steps is not None and steps <= 0):
            raise PipelineError(
                f"{self._target.name}: the source has an offset twice: `pykbroker pipeline verify` finds such records"
            )
        self._last = offsets[-1].as_py()

    def _commit(self) -> None:
        self._writer.commit()
        self._rows = self._bytes = 0

    def finished(self, pa: Any) -> Any:
        """Commit the last transaction, and return a batch with the number of records."""
        if self._rows:
            self._commit()
        self.close()
        return pa.RecordBatch.from_pydict(
            {"source": pa.array([self.source], pa.int32()), "records": pa.array([self._written], pa.int64())}
        )

    def close(self) -> None:
        """Close the writer. An open transaction is aborted."""
        self._writer.close()


def rows_before(offsets: Any, position: int) -> int:
    """Return how many of some ascending offsets are below a position."""
    return compute().sum(compute().less(offsets, position)).as_py() or 0
