"""The delivery of a record: its batch and its place there, which can be awaited or dropped."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import trio

from pykbroker.core.producer.batch import ProducerBatch


class RecordMetadata(NamedTuple):
    """The place where a record was written. `timestamp` is in ms since 1970. With acks=0, the offset is -1."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class Delivery(msgspec.Struct, gc=False, eq=False, frozen=True):
    """A record that was handed to the producer. Awaiting it returns its RecordMetadata, or raises the record's error.

    It may be awaited by several tasks of the producer's trio loop, or by none. RuntimeError is raised in another loop.
    """

    batch: ProducerBatch
    index: int

    @property
    def is_done(self) -> bool:
        """Whether the record is written or has failed."""
        return self.batch.is_settled

    @property
    def partition(self) -> int:
        """Return the partition that the record goes to."""
        return self.batch.partition.partition

    def result(self) -> RecordMetadata:
        """Return where the record was written, once `is_done` is true. Raise its error if it was not written."""
        topic, partition = self.batch.partition
        return RecordMetadata(topic, partition, *self.batch.result_of(self.index))

    def __await__(self) -> Generator[Any, Any, RecordMetadata]:
        return self._wait().__await__()

    async def _wait(self) -> RecordMetadata:
        await wait_settled(self.batch)
        return self.result()


class ColumnsResult(NamedTuple):
    """The places where the rows of columns were written. With acks=0, all offsets are -1."""

    topic: str
    partitions: list[int]
    offsets: list[int]


class RowsFailed(Exception):
    """The error of columns of which some rows failed. All other rows are written.

    `errors` has the error of each row that failed. `partitions` and `offsets` have the places of the other rows, and -1
    for those that failed.
    """

    def __init__(self, errors: Mapping[int, Exception], result: ColumnsResult) -> None:
        first = min(errors)
        super().__init__(
            f"{len(errors)} of {len(result.offsets)} rows failed, the first is row {first}: {errors[first]}"
        )
        self.errors, self.result = errors, result
        self.partitions, self.offsets = result.partitions, result.offsets


class ColumnsDelivery:
    """The delivery of all rows of columns. Awaiting it returns a ColumnsResult, or raises RowsFailed."""

    def __init__(self, topic: str, rows: int) -> None:
        self.topic, self._rows = topic, rows
        self.parts: list[tuple[ProducerBatch, int, Sequence[int]]] = []
        """The batches with the index of their first record, and the rows of the caller that they took."""
        self._errors: dict[int, Exception] = {}

    def add(self, batch: ProducerBatch, index: int, rows: Sequence[int]) -> None:
        """Note that these rows are the records of a batch from `index` on."""
        self.parts.append((batch, index, rows))

    def fail(self, error: Exception, rows: Iterable[int]) -> None:
        """Note that these rows were not appended."""
        self._errors.update(dict.fromkeys(rows, error))

    def fail_rest(self, error: Exception) -> None:
        """Note that no other row was appended than those of `parts`."""
        appended = {row for _, _, rows in self.parts for row in rows}
        self.fail(error, [row for row in range(self._rows) if row not in appended])

    @property
    def is_done(self) -> bool:
        """Whether the outcome of every row is known."""
        return all(batch.is_settled for batch, _, _ in self.parts)

    def result(self) -> ColumnsResult:
        """Return where the rows were written, once `is_done` is true. Raise RowsFailed if some rows failed."""
        result = ColumnsResult(self.topic, [-1] * self._rows, [-1] * self._rows)
        errors = dict(self._errors)
        for batch, index, rows in self.parts:
            written, failed = batch.offsets(index, len(rows))
            errors.update((rows[place], error) for place, error in failed.items())
            place_rows(result.partitions, rows, [batch.partition.partition] * len(rows))
            place_rows(result.offsets, rows, written)
        for row in errors:
            result.partitions[row] = result.offsets[row] = -1
        if errors:
            raise RowsFailed(errors, result)
        return result

    def __await__(self) -> Generator[Any, Any, ColumnsResult]:
        return self._wait().__await__()

    async def _wait(self) -> ColumnsResult:
        for batch, _, _ in self.parts:
            await wait_settled(batch)
        return self.result()


def place_rows(column: list[int], rows: Sequence[int], values: Sequence[int]) -> None:
    """Set these rows of a column."""
    if isinstance(rows, range):
        column[rows.start : rows.stop] = values
    else:
        for row, value in zip(rows, values, strict=True):
            column[row] = value


async def wait_settled(batch: ProducerBatch) -> None:
    """Wait until the outcome of a batch is known. Raise RuntimeError in another trio loop than that of its producer."""
    if batch.loop is not None and batch.loop is not trio.lowlevel.current_trio_token():
        raise RuntimeError("the delivery belongs to a producer in another trio loop: await it in that loop")
    if batch.is_settled:
        await trio.lowlevel.checkpoint()
        return
    settled = trio.Event()
    batch.when_settled(settled.set)
    await settled.wait()
