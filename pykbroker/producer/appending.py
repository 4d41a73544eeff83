"""The append of a record or of columns, as generators that yield what the caller must wait for.

A face runs a generator with its own means of waiting: `run` in a thread, `run_async` on trio or asyncio.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from pykbroker.core.producer.batch import ProducerBatch, record_bytes_max
from pykbroker.core.producer.buffer_pool import MemoryTicket
from pykbroker.core.producer.columns import Columns
from pykbroker.core.producer.errors import AppendCancelled
from pykbroker.producer.delivery import ColumnsDelivery, Delivery
from pykbroker.producer.front import Front, Serialized

T = TypeVar("T")


class TopicWait(NamedTuple):
    """A wait until a topic is known to have a partition. The partition None stands for any."""

    topic: str
    partition: int | None


class MemoryWait(NamedTuple):
    """A wait in line with a ticket. The append lets the ticket leave the line, whatever happens."""

    ticket: MemoryTicket


class Turn(NamedTuple):
    """A moment at which other tasks of the same thread should run."""


Wait = TopicWait | MemoryWait | Turn
Append = Generator[Wait, None, T]
"""An append. The error of a wait is thrown into it."""


def run(append: Append[T], wait: Callable[[Wait], None]) -> T:
    """Return the result of an append. `wait` blocks the thread. An interrupt or a cancellation closes the append."""
    try:
        lacking = next(append)
        while True:
            try:
                wait(lacking)
            except Exception as error:  # noqa: BLE001 - the append decides what the error means
                lacking = append.throw(error)
            else:
                lacking = next(append)
    except StopIteration as end:
        return cast(T, end.value)
    finally:
        append.close()


async def run_async(append: Append[T], wait: Callable[[Wait], Awaitable[None]]) -> T:
    """Return the result of an append, as `run` does."""
    try:
        lacking = next(append)
        while True:
            try:
                await wait(lacking)
            except Exception as error:  # noqa: BLE001 - the append decides what the error means
                lacking = append.throw(error)
            else:
                lacking = next(append)
    except StopIteration as end:
        return cast(T, end.value)
    finally:
        append.close()


def append_row(front: Front, row: Serialized) -> Append[Delivery]:
    """Append a record."""
    topic, partition, key, value, headers, _ = row
    ticket: MemoryTicket | None = None
    try:
        while (delivery := front.append(row, ticket)) is None:
            if front.find(topic, partition) is None:
                yield TopicWait(topic, partition)
            else:
                ticket = front.ticket(record_bytes_max(key, value, headers))
                yield MemoryWait(ticket)
        front.leave_line(ticket)
    except BaseException:
        _leave_surely(front, ticket)
        raise
    return delivery


def append_columns(front: Front, *given: Any) -> Append[ColumnsDelivery]:
    """Append all rows of columns, in portions that the memory holds. `given` are the fields of ProducerColumns.

    If an error ends the append after the first portion, it is the error of the rows that are left.
    """
    delivery: ColumnsDelivery | None = None
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
    except BaseException:
        if delivery is not None:
            delivery.fail_rest(AppendCancelled("the row was not appended, because the call was cancelled"))
            front.acknowledge_many(delivery)
        raise
    front.acknowledge_many(delivery)
    return delivery


def _append_group(
    front: Front, columns: Columns, partition: int | None, rows: Sequence[int] | None, delivery: ColumnsDelivery
) -> Append[None]:
    """Append columns that are the given rows of the caller, or all of them."""
    start = 0
    try:
        while start < len(columns):
            batch, index, end = yield from _append_rows(front, delivery.topic, partition, columns, start)
            delivery.add(batch, index, range(start, end) if rows is None else rows[start:end])
            start = end
            yield Turn()
    except Exception as error:
        if not delivery.parts:
            raise
        front.failed(error)
        delivery.fail(error, range(start, len(columns)) if rows is None else rows[start:])


def _append_rows(
    front: Front, topic: str, partition: int | None, columns: Columns, start: int
) -> Append[tuple[ProducerBatch, int, int]]:
    """Append rows from `start` on to one batch. Return the batch, the first row's index there, and the next row."""
    ticket: MemoryTicket | None = None
    try:
        while (appended := front.append_columns(topic, partition, columns, start, ticket)) is None:
            found = front.find(topic, partition)
            if found is None:
                yield TopicWait(topic, partition)
            else:
                ticket = front.ticket_for_columns(found, partition, columns, start)
                yield MemoryWait(ticket)
        front.leave_line(ticket)
    except BaseException:
        _leave_surely(front, ticket)
        raise
    return appended


def _leave_surely(front: Front, ticket: MemoryTicket | None) -> None:
    """Return the memory of a ticket, also if a second signal interrupts that."""
    while True:
        try:
            front.leave_line(ticket)
        except (KeyboardInterrupt, SystemExit):  # the first one is raised
            continue
        return
