"""Calls of consumers that are interrupted at each place: no record is lost, doubled, or committed before its return.

A run takes one place of STRIDE.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NoReturn

import pytest
import trio
from trio._core._run import GLOBAL_RUN_CONTEXT

from pykbroker.consumer import Consumer
from pykbroker.core.consumer.records import FetchedColumns
from pykbroker.core.topic_partition import TopicPartition
from tests.unit.client.interrupts import STRIDE, Interrupt
from tests.unit.consumer.conftest import GROUP, Consuming

FILES = ("pykbroker/consumer/", "pykbroker/core/consumer/")
BATCH, PATIENCE_S = 5, 30
PLACES_MAX = 300
"""The places after which a call only waits for a response."""
BATCHES = 4000 // STRIDE
"""The batches that a test has, which are more than it reads."""


Call = Callable[[Consumer], Awaitable[Sequence[Any]]]
"""A call of a consumer, which returns records, or columns of them."""


def keyboard_interrupt(scope: trio.CancelScope) -> None:
    """Do what trio does after SIGINT: raise an error at once in code of the user, else when the task waits."""
    if not trio.lowlevel.currently_ki_protected():
        raise KeyboardInterrupt
    scope.cancel()  # the error that is then raised where the task waits is caught here


def system_exit(_scope: trio.CancelScope) -> NoReturn:
    raise SystemExit(3)


def cancellation(scope: trio.CancelScope) -> None:
    scope.cancel()


ACTS = (keyboard_interrupt, system_exit, cancellation)


async def poll(consumer: Consumer) -> Sequence[Any]:
    return await consumer.poll(PATIENCE_S)


async def poll_columns(consumer: Consumer) -> Sequence[Any]:
    return await consumer.poll_columns(PATIENCE_S, 3)


async def iterate(consumer: Consumer) -> Sequence[Any]:
    return [await anext(consumer)]


async def seek(consumer: Consumer) -> Sequence[Any]:
    [partition] = consumer.assignment
    consumer.seek(partition, await consumer.position(partition))
    return []


async def commit(consumer: Consumer) -> Sequence[Any]:
    await consumer.commit()
    return []


class Returning:
    """Consumers that are interrupted, one after the other, and the records that they have returned."""

    def __init__(self, consumer: Consumer, partition: TopicPartition) -> None:
        self._consumer, self._partition, self._count = consumer, partition, 0
        self.unprotected: set[str] = set()
        """The places of the consumer's own tasks at which Ctrl-C would end them."""
        consumer.assign([partition])

    def replace(self, consumer: Consumer) -> None:
        """Go on with a consumer that is new."""
        self._consumer = consumer
        consumer.assign([self._partition])
        consumer.seek(self._partition, self._count)

    async def interrupted(self, call: Call, place: int, act: Callable[[trio.CancelScope], None]) -> str | None:
        """Interrupt a call at a place, and look what a commit would commit. Return the place. Raise SystemExit."""
        task = trio.lowlevel.current_task()
        with trio.CancelScope() as scope:

            def interrupt_user() -> None:
                if getattr(GLOBAL_RUN_CONTEXT, "task", None) is task:
                    act(scope)
                elif not trio.lowlevel.currently_ki_protected():
                    self.unprotected.add(str(interrupt.at))

            interrupt = Interrupt(place, interrupt_user, FILES)
            found: Sequence[Any] = ()
            try:
                with interrupt:
                    found = await call(self._consumer)
            except KeyboardInterrupt:
                assert interrupt.at is not None
            finally:
                self._note(found)
                assert self.committed in ([self._count], []), f"{interrupt.at}: {self.committed}, not {self._count}"
        return interrupt.at

    @property
    def committed(self) -> list[int]:
        """Return the offset that a commit would commit."""
        return [each.offset for each in self._consumer._shell.consumed().values()]

    async def go_on(self, *calls: Call) -> None:
        """Read on without interrupts."""
        with trio.fail_after(PATIENCE_S):
            for call in calls:
                self._note(await call(self._consumer))
        assert self.committed == [self._count]

    def _note(self, found: Sequence[Any]) -> None:
        """Note records, or columns of records, that a call has returned."""
        columns = [each.offsets if isinstance(each, FetchedColumns) else [each.offset] for each in found]
        offsets = [offset for each in columns for offset in each]
        assert offsets == list(range(self._count, self._count + len(offsets))), "records are lost or doubled"
        self._count += len(offsets)


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("call", [poll, poll_columns, iterate, seek, commit])
@pytest.mark.parametrize("before", [(iterate,), (iterate, poll)], ids=["some are unread", "none is unread"])
async def test_an_interrupt_at_any_place_of_a_call_loses_and_doubles_no_record(
    autojump_clock, consuming: Consuming, before: Sequence[Call], call: Call, act: Callable[..., None]
) -> None:
    for _ in range(BATCHES):
        consuming.append(*(b"%d" % number for number in range(BATCH)))
    settings = {"max_poll_records": 3, "value_deserializer": int, "enable_auto_commit": False, "group_id": GROUP}
    places = iter(range(ACTS.index(act) * STRIDE // len(ACTS), PLACES_MAX, STRIDE))
    returning: Returning | None = None
    is_over = False
    while not is_over:
        with contextlib.suppress(SystemExit):  # which has left the block of the consumer, as in a program
            async with consuming.consumer(**settings) as consumer:
                if returning is None:
                    returning = Returning(consumer, consuming.partitions[0])
                else:
                    returning.replace(consumer)
                for place in places:
                    await returning.go_on(*before)
                    if await returning.interrupted(call, place, act) is None:
                        break
                    await returning.go_on(poll, iterate)
                is_over = True
    assert returning is not None
    assert not returning.unprotected
