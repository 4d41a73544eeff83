"""Interrupts of consumers for asyncio and of the drop-in, whose shell runs in a thread without signal handlers.

A run takes one place of STRIDE.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import _base
from contextlib import suppress
from typing import Any, NoReturn

import pytest

from pykbroker.consumer import AsyncConsumer, hosted
from pykbroker.core.consumer.records import FetchedColumns
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.kafka import KafkaConsumer
from tests.unit.client.interrupts import STRIDE, Interrupt, each_interrupt
from tests.unit.producer.hosted import HostedNet
from wire.records.builder import BatchBuilder

FILES = ("pykbroker/consumer/", "pykbroker/core/consumer/", "pykbroker/kafka/", "pykbroker/world/background.py")
WITH_FUTURES = (*FILES, _base.__file__, threading.__file__)
"""The code of futures and conditions is written in Python, too, and their locks are shared with the other thread."""
BATCH, WAIT_S = 5, 10
BATCHES = 1000 + 9000 // STRIDE
"""The batches that a test has, which are more than it reads."""
PLACE = TopicPartition("topic", 0)
SETTINGS: dict[str, Any] = {
    "bootstrap_servers": "node1:9092",
    "group_id": "group",
    "enable_auto_commit": False,
    "max_poll_records": 3,
    "value_deserializer": int,
}


def keyboard_interrupt() -> NoReturn:
    raise KeyboardInterrupt


def system_exit() -> NoReturn:
    raise SystemExit(3)


def cancellation() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


def fill(net: HostedNet) -> None:
    """Append records to the first partition."""
    net.wait_running()
    state = net.cluster.state
    for number in range(BATCHES):
        builder = BatchBuilder()
        for _ in range(BATCH):
            builder.append(None, b"%d" % number, (), 1)
        state.log(PLACE).append(builder.build(), state.leader_epoch(PLACE), None)


class Returned:
    """The records that a consumer has returned."""

    def __init__(self, consumer: hosted.HostedConsumer) -> None:
        self._consumer, self.count = consumer, 0

    def note(self, found: Iterable[Any]) -> None:
        """Check that records, or columns of records, are the next ones."""
        columns = [each.offsets if isinstance(each, FetchedColumns) else [each.offset] for each in found]
        offsets = [offset for each in columns for offset in each]
        assert offsets == list(range(self.count, self.count + len(offsets))), "records are lost or doubled"
        self.count += len(offsets)

    def check(self, interrupt: Interrupt) -> None:
        """Check that a commit would commit what was returned."""
        found = [each.offset for each in self._consumer.ask(self._consumer.shell.consumed).values()]
        assert found == [self.count], f"after an interrupt at {interrupt.at}"


# ---- the drop-in


def polled(consumer: KafkaConsumer) -> list[Any]:
    return consumer.poll(WAIT_S * 1000).get(PLACE, [])


def iterated(consumer: KafkaConsumer) -> list[Any]:
    return [next(consumer)]


def polled_columns(consumer: KafkaConsumer) -> list[Any]:
    return consumer.poll_columns(WAIT_S * 1000, 3)


def sought(consumer: KafkaConsumer) -> list[Any]:
    position = consumer.position(PLACE)
    assert position is not None
    consumer.seek(PLACE, position)
    return []


def committed(consumer: KafkaConsumer) -> list[Any]:
    consumer.commit()
    return []


@pytest.mark.parametrize("call", [polled, iterated, polled_columns, sought, committed])
def test_an_interrupt_of_the_drop_in_loses_and_doubles_no_record(
    monkeypatch: pytest.MonkeyPatch, call: Callable[[KafkaConsumer], list[Any]]
) -> None:
    net = HostedNet()
    monkeypatch.setattr(hosted, "system_client_world", net.world)
    with KafkaConsumer(auto_offset_reset="earliest", **SETTINGS) as consumer:
        fill(net)
        consumer.assign([PLACE])
        consumer.seek(PLACE, 0)
        returned = Returned(consumer._hosted)
        for is_empty in (True, False):
            for interrupt in each_interrupt((keyboard_interrupt, system_exit), *WITH_FUTURES):
                returned.note(iterated(consumer))
                if is_empty:
                    returned.note(polled(consumer))
                try:
                    with interrupt:
                        found = call(consumer)
                    returned.note(found)
                except (KeyboardInterrupt, SystemExit):
                    returned.check(interrupt)
                returned.note(polled(consumer))
                returned.check(interrupt)


# ---- asyncio


async def got_many(consumer: AsyncConsumer) -> list[Any]:
    return (await consumer.getmany(timeout_ms=WAIT_S * 1000)).get(PLACE, [])


async def got_one(consumer: AsyncConsumer) -> list[Any]:
    return [await consumer.getone()]


async def got_one_of(consumer: AsyncConsumer) -> list[Any]:
    return [await consumer.getone(PLACE)]


async def got_columns(consumer: AsyncConsumer) -> list[Any]:
    return await consumer.poll_columns(WAIT_S, 3)


async def was_sought(consumer: AsyncConsumer) -> list[Any]:
    consumer.seek(PLACE, await consumer.position(PLACE))
    return []


async def was_committed(consumer: AsyncConsumer) -> list[Any]:
    await consumer.commit()
    return []


@pytest.mark.parametrize("call", [got_many, got_one, got_one_of, got_columns, was_sought, was_committed])
def test_an_interrupt_of_a_consumer_for_asyncio_loses_and_doubles_no_record(
    call: Callable[[AsyncConsumer], Any],
) -> None:
    async def main() -> None:
        net = HostedNet()
        async with AsyncConsumer(world=net.world(), auto_offset_reset="earliest", **SETTINGS) as consumer:
            fill(net)
            consumer.assign([PLACE])
            consumer.seek(PLACE, 0)
            returned = Returned(consumer._hosted)
            for is_empty in (True, False):
                for interrupt in each_interrupt((keyboard_interrupt, system_exit, cancellation), *FILES):
                    returned.note(await got_one(consumer))
                    if is_empty:
                        returned.note(await got_many(consumer))
                    found: list[Any] = []
                    try:
                        with interrupt:
                            found = await call(consumer)
                        returned.note(found)
                        found = []
                        await asyncio.sleep(0)  # a cancellation that the call has not met
                    except (KeyboardInterrupt, SystemExit, asyncio.CancelledError):
                        returned.note(found)
                        returned.check(interrupt)
                    returned.note(await got_many(consumer))
                    returned.check(interrupt)

    asyncio.run(main())


def test_a_forked_process_returns_none_of_the_records_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    net = HostedNet()
    monkeypatch.setattr(hosted, "system_client_world", net.world)
    with KafkaConsumer(auto_offset_reset="earliest", **SETTINGS) as consumer:
        fill(net)
        consumer.assign([PLACE])
        assert next(consumer).offset == 0
        child = os.fork()
        if not child:
            refused = 0
            for call in (lambda: next(consumer), lambda: consumer.poll(10), consumer.commit):
                with suppress(RuntimeError):
                    call()
                    refused -= 1
                refused += 1
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        assert next(consumer).offset == 1
