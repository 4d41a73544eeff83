"""The append of a record or of columns, as generators that yield what the caller must wait for.

A face runs a generator with its own means of waiting: `run` in a thread, `run_async` on trio or asyncio.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from pykbroker.core.producer.batch import record_bytes_max
from pykbroker.core.producer.columns import Columns
from pykbroker.producer.delivery import ColumnsDelivery, Delivery
from pykbroker.producer.front import Front, Serialized

T = TypeVar("T")


class TopicWait(NamedTuple):
    """A wait until a topic is known to have a partition. The partition None stands for any."""

    topic: str
    partition: int | None


class MemoryWait(NamedTuple):
    """A wait in line for the memory of a batch with one record of `size` bytes."""

    size: int


class Turn(NamedTuple):
    """A moment at which other tasks of the same thread should run."""


Wait = TopicWait | MemoryWait | Turn
Append = Generator[Wait, int, T]
"""An append. It is sent the bytes that a MemoryWait got, or 0, or the error of a wait is thrown into it."""


def run(append: Append[T], wait: Callable[[Wait], int]) -> T:
    """Return the result of an append. `wait` blocks the thread."""
    try:
        lacking = next(append)
        while True:
            try:
                granted = wait(lacking)
            except Exception as error:  # noqa: BLE001 - the append decides what the error means
                lacking = append.throw(error)
            else:
                lacking = append.send(granted)
    except StopIteration as end:
        return cast(T, end.value)


async def run_async(append: Append[T], wait: Callable[[Wait], Awaitable[int]]) -> T:
    """Return the result of an append, as `run` does."""
    try:
        lacking = next(append)
        while True:
            try:
                granted = await wait(lacking)
            except Exception as error:  # noqa: BLE001 - the append decides what the error means
                lacking = append.throw(error)
            else:
                lacking = append.send(granted)
    except StopIteration as end:
        return cast(T, end.value)


def append_row(front: Front, row: Serialized) -> Append[Delivery]:
    """Append a record."""
    topic, partition, key, value, headers, _ = row
    granted = 0
    while (delivery := front.append(row, granted)) is None:
        granted = yield _lacking(front, topic, partition, record_bytes_max(key, value, headers))
    return delivery


def append_columns(front: Front, *given: Any) -> Append[ColumnsDelivery]:
    """Append all rows of columns, in portions that the memory holds. `given` are the fields of ProducerColumns.

    If an error ends the append after the first portion, it is the error of the rows that are left.
    """
    try:
        topic, columns, _, _, _, partition = front.columns(given)
        assert isinstance(columns, Columns), "the front has made columns"
        delivery = ColumnsDelivery(topic, len(columns))
        while (found := front.find(topic, partition)) is None:
            yield TopicWait(topic, partition)
        for chosen, rows in front.groups(found, columns, partition):
            yield from _append_group(front, columns if rows is None else columns.take(rows), chosen, rows, delivery)
    except Exception as error:
        front.refused_many(error)
        raise
    front.acknowledge_many(delivery)
    return delivery


def _append_group(
    front: Front, columns: Columns, partition: int | None, rows: Sequence[int] | None, delivery: ColumnsDelivery
) -> Append[None]:
    """Append columns that are the given rows of the caller, or all of them."""
    start = granted = 0
    try:
        while start < len(columns):
            appended = front.append_columns(delivery.topic, partition, columns, start, granted)
            granted = 0
            if appended is None:
                granted = yield _lacking(front, delivery.topic, partition, columns.record_bytes_max(start))
                continue
            batch, index, end = appended
            delivery.add(batch, index, range(start, end) if rows is None else rows[start:end])
            start = end
            yield Turn()
    except Exception as error:
        if not delivery.parts:
            raise
        front.failed(error)
        delivery.fail(error, range(start, len(columns)) if rows is None else rows[start:])


def _lacking(front: Front, topic: str, partition: int | None, size: int) -> TopicWait | MemoryWait:
    """Return the wait for what an append of `size` bytes lacks."""
    return TopicWait(topic, partition) if front.find(topic, partition) is None else MemoryWait(size)
