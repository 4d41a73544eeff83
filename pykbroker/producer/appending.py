"""The append of a record or of columns, and the waits for what it lacks.

An append is awaited on trio and asyncio, and a thread calls `run`. It is a generator in place of an async function: if
Ctrl-C came between its call and its first step, Python would report a coroutine that was never awaited.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from types import coroutine
from typing import Any, NamedTuple, TypeVar, cast

from pykbroker.core.producer.batch import ProducerBatch, record_bytes_max
from pykbroker.core.producer.buffer_pool import MemoryTicket
from pykbroker.core.producer.columns import Columns
from pykbroker.core.producer.errors import AppendCancelled
from pykbroker.core.producer.intake import TopicIntake
from pykbroker.core.producer.record import SerializedRecord
from pykbroker.producer.delivery import ColumnsDelivery, Delivery
from pykbroker.producer.front import Front

T = TypeVar("T")


class TopicWait(NamedTuple):
    """A wait until a topic is known to have a partition. The partition None stands for any."""

    topic: str
    partition: int | None
    timeout_s: float


class MemoryWait(NamedTuple):
    """A wait in line with a ticket, until it is served or the time is over.

    The append lets the ticket leave the line, whatever happens.
    """

    ticket: MemoryTicket
    timeout_s: float


class Turn(NamedTuple):
    """A moment at which other tasks of the same thread should run."""


Wait = TopicWait | MemoryWait | Turn
Waiter = Callable[[Wait], Any]
"""A function of a face that waits: an async one, or in a thread one that blocks and returns an empty tuple."""
Append = Generator[Any, Any, T]


def run(append: Append[T]) -> T:
    """Return the result of an append whose waits block the thread. An interrupt closes the append."""
    try:
        next(append)
    except StopIteration as end:
        return cast(T, end.value)
    finally:
        append.close()
    raise AssertionError("an append in a thread has waited for an event loop")


@coroutine
def append_record(front: Front, wait: Waiter, record: SerializedRecord) -> Append[Delivery]:
    """Append a record. All waits together take up to `max_block_ms`."""
    size, place = record_bytes_max(record.key, record.value, record.headers), (record.topic, record.partition)
    append = partial(front.append, record)
    return (yield from _append_waiting(front, wait, place, append, lambda _: front.ticket(size)))


@coroutine
def _append_waiting(
    front: Front,
    wait: Waiter,
    place: tuple[str, int | None],
    append: Callable[[MemoryTicket | None], T | None],
    ticket_of: Callable[[TopicIntake], MemoryTicket],
) -> Append[T]:
    """Call `append` until it returns no None, and wait for a topic and partition, or for the memory of a batch."""
    deadline_ms = front.deadline_ms()
    ticket: MemoryTicket | None = None
    try:
        while (appended := append(ticket)) is None:
            found = front.find(*place)
            if found is None:
                yield from wait(TopicWait(*place, front.left_s(deadline_ms)))
            else:
                ticket = ticket_of(found)
                yield from wait(MemoryWait(ticket, front.left_s(deadline_ms)))
                front.check_served(ticket)
        front.leave_line(ticket)
    except BaseException:
        _leave_surely(front, ticket)
        raise
    return appended


@coroutine
def append_columns(front: Front, wait: Waiter, *given: Any) -> Append[ColumnsDelivery]:
    """Append all rows of columns, in portions that the memory holds. `given` are the fields of ProducerColumns.

    If an error ends the append after the first portion, it is the error of the rows that are left.
    """
    delivery: ColumnsDelivery | None = None
    try:
        topic, columns, _, _, _, partition = front.columns(given)
        assert isinstance(columns, Columns), "the front has made columns"
        delivery = ColumnsDelivery(topic, len(columns))
        while (found := front.find(topic, partition)) is None:
            yield from wait(TopicWait(topic, partition, front.left_s(front.deadline_ms())))
        for chosen, rows in front.groups(found, columns, partition):
            yield from _append_group(
                front, wait, columns if rows is None else columns.take(rows), chosen, rows, delivery
            )
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


@coroutine
def _append_group(
    front: Front,
    wait: Waiter,
    columns: Columns,
    partition: int | None,
    rows: Sequence[int] | None,
    delivery: ColumnsDelivery,
) -> Append[None]:
    """Append columns that are the given rows of the caller, or all of them."""
    start, topic = 0, delivery.topic

    def append(ticket: MemoryTicket | None) -> tuple[ProducerBatch, int, int] | None:
        return front.append_columns(topic, partition, columns, start, ticket)

    def ticket_of(found: TopicIntake) -> MemoryTicket:
        return front.ticket_for_columns(found, partition, columns, start)

    try:
        while start < len(columns):
            batch, index, end = yield from _append_waiting(front, wait, (topic, partition), append, ticket_of)
            delivery.add(batch, index, range(start, end) if rows is None else rows[start:end])
            start = end
            yield from wait(Turn())
    except Exception as error:
        if not delivery.parts:
            raise
        front.failed(error)
        delivery.fail(error, range(start, len(columns)) if rows is None else rows[start:])


def _leave_surely(front: Front, ticket: MemoryTicket | None) -> None:
    """Return the memory of a ticket, also if a signal interrupts that. Raise the interrupt afterwards."""
    try:
        front.leave_line(ticket)
    except (KeyboardInterrupt, SystemExit):
        _leave_surely(front, ticket)
        raise
