"""Ordinary programs of every face: each works until Ctrl-C, closes its client, and ends.

The programs know nothing of the signals. Before the interpreter ends, each writes a report of what its client has told
it.
"""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import trio

from pykbroker.consumer import AsyncConsumer, Consumer
from pykbroker.kafka import KafkaConsumer, KafkaProducer
from pykbroker.producer import AsyncProducer, Producer
from tools.interrupts.written import padded

POLL_S, END_S_MAX = 1.0, 10.0
DESERIALIZER_S = 0.0001
"""The time that each record takes, so that most signals come while the records of a poll are deserialized."""
WAYS = 3
"""The ways in which a program reads, by its number: polls, polls with commits, and an iteration."""
EARLY = 4
"""One of so many consumers may be interrupted before it has records, the others from the first record on."""


class Program:
    """A program that writes a report at its end. `ready` is called once, when it may be interrupted."""

    def __init__(self, number: int, servers: str, topic: str, ready: Callable[[], None]) -> None:
        self.number, self.servers, self.topic, self.ready = number, servers, topic, ready

    def run(self) -> None:
        """Do what a user's program does."""
        raise NotImplementedError

    def found(self) -> dict[str, Any]:
        raise NotImplementedError

    def report(self, path: Path) -> None:
        """Write the report to a file, which no signal interrupts any more."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        path.write_text(json.dumps(self.found()))


# ---- producers


class Producing(Program):
    """A program that sends numbered records."""

    def __init__(self, number: int, servers: str, topic: str, ready: Callable[[], None]) -> None:
        super().__init__(number, servers, topic, ready)
        self.settings: dict[str, Any] = {
            "bootstrap_servers": servers,
            "linger_ms": 1,
            "batch_size": 2_000,
            "buffer_memory": 20_000,  # so that records also wait in line
        }
        self.numbers = count()
        self.sent: list[tuple[int, Any]] = []
        self.client: Any = None

    def record(self) -> tuple[int, bytes]:
        """Return the number and the value of the next record."""
        number = next(self.numbers)
        return number, padded(f"{self.number} {number}")

    def outcome(self, delivery: Any) -> Any:
        """Return the offset of a record, its error, or None if neither is known."""
        try:
            return delivery.result().offset if self.is_done(delivery) else None
        except Exception as error:  # noqa: BLE001 - it is the outcome
            return error

    def is_done(self, delivery: Any) -> bool:
        """Whether the outcome of a record is known."""
        return bool(delivery.is_done)

    def found(self) -> dict[str, Any]:
        """Return the acknowledged records, the errors of the others, and the memory that is missing."""
        outcomes = [(number, self.outcome(delivery)) for number, delivery in self.sent]
        memory = self.client.statistics()
        return {
            "sent": len(outcomes),
            "acknowledged": [number for number, outcome in outcomes if isinstance(outcome, int)],
            "errors": sorted({repr(outcome) for _, outcome in outcomes if isinstance(outcome, Exception)}),
            "unknown": sum(outcome is None for _, outcome in outcomes),
            "missing_bytes": memory.buffer_bytes - memory.buffer_available_bytes,
        }


class DropInProducer(Producing):
    """A producer with the drop-in for kafka-python."""

    def run(self) -> None:
        """Send until Ctrl-C."""
        producer = KafkaProducer(**self.settings)
        self.client, self.loop = producer._producer.shell, producer._producer.loop
        self.ready()
        try:
            while True:
                number, value = self.record()
                self.sent.append((number, producer.send(self.topic, value)))
        except KeyboardInterrupt:
            pass
        finally:
            producer.close()

    def found(self) -> dict[str, Any]:
        """Return the report, once the producer's thread has ended. An interrupted close does not wait for that."""
        self.loop.join(END_S_MAX)
        return super().found()

    def outcome(self, delivery: Any) -> Any:
        """Return the offset of a record, its error, or None if neither is known."""
        return delivery.exception or (delivery.value.offset if delivery.is_done else None)


class TrioProducer(Producing):
    """A producer for trio."""

    def run(self) -> None:
        """Send until Ctrl-C, which is caught in the block of the producer or outside of it."""
        with suppress(KeyboardInterrupt):
            trio.run(self._send)

    async def _send(self) -> None:
        async with Producer(**self.settings) as self.client:
            self.ready()
            try:
                while True:
                    number, value = self.record()
                    self.sent.append((number, await self.client.send(self.topic, value)))
            except KeyboardInterrupt:
                if self.number % 2:
                    raise


class AsyncioProducer(Producing):
    """A producer for asyncio, whose task Ctrl-C cancels."""

    def run(self) -> None:
        """Send until Ctrl-C."""
        with suppress(KeyboardInterrupt):
            asyncio.run(self._send())

    async def _send(self) -> None:
        producer = AsyncProducer(**self.settings)
        await producer.start()
        self.client = producer
        self.ready()
        try:
            while True:
                number, value = self.record()
                self.sent.append((number, await producer.send(self.topic, value)))
        finally:
            await producer.stop()

    def is_done(self, delivery: Any) -> bool:
        """Whether the outcome of a record is known."""
        return bool(delivery.done())


# ---- consumers


class Consuming(Program):
    """A program that reads a topic from its start, with a slow deserializer, and commits."""

    def __init__(self, number: int, servers: str, topic: str, ready: Callable[[], None]) -> None:
        super().__init__(number, servers, topic, ready)
        self.way = number % WAYS
        self.group = f"{topic}-{number}"
        self.settings: dict[str, Any] = {
            "bootstrap_servers": servers,
            "group_id": self.group,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": self.way != 1,
            "auto_commit_interval_ms": 20,
            "max_poll_records": 20 if number % 2 else 100,
            "value_deserializer": self.deserialize,
        }
        self._is_working = False
        self.taken: Any = None
        """The result of the last call. Python runs no signal handler between the call and this variable."""
        self._noted: list[Any] = []

    def begin(self) -> None:
        if self.number % EARLY == 0:
            self.work()

    def work(self) -> None:
        """Say once that the program may be interrupted."""
        if not self._is_working:
            self._is_working = True
            self.ready()

    def deserialize(self, value: bytes) -> int:
        """Return the number of a record, after some work in Python."""
        self.work()
        until = time.perf_counter() + DESERIALIZER_S
        while time.perf_counter() < until:
            int(value)
        return int(value)

    def note(self) -> None:
        """Note what was returned. An interrupted call may be repeated."""
        if not self._noted or self._noted[-1] is not self.taken:
            self._noted.append(self.taken)

    def found(self) -> dict[str, Any]:
        """Return the offsets of the returned records, by partition, in their order."""
        if self.taken is not None:
            self.note()
        offsets: dict[int, list[int]] = {}
        for each in self._noted:
            for record in records_of(each):
                offsets.setdefault(record.partition, []).append(record.offset)
        return {"group": self.group, "returned": list(offsets.items())}


def records_of(taken: Any) -> Iterable[Any]:
    """Return the records of a poll or of an iteration."""
    if isinstance(taken, Mapping):
        return [record for records in taken.values() for record in records]
    return taken if isinstance(taken, list) else [taken]


class DropInConsumer(Consuming):
    """A consumer with the drop-in for kafka-python."""

    def run(self) -> None:
        """Read until Ctrl-C."""
        consumer = KafkaConsumer(self.topic, **self.settings)
        self.begin()
        try:
            if self.way == 2:
                for self.taken in consumer:
                    self.note()
            while True:
                self.taken = consumer.poll(POLL_S * 1000)
                self.note()
                if self.way == 1:
                    consumer.commit()
        except KeyboardInterrupt:
            pass
        finally:
            consumer.close()


class TrioConsumer(Consuming):
    """A consumer for trio."""

    def run(self) -> None:
        """Read until Ctrl-C, which is caught in the block of the consumer or outside of it."""
        with suppress(KeyboardInterrupt):
            trio.run(self._read)

    async def _read(self) -> None:
        async with Consumer(self.topic, **self.settings) as consumer:
            self.begin()
            try:
                if self.way == 2:
                    async for self.taken in consumer:
                        self.note()
                while True:
                    self.taken = await consumer.poll(POLL_S)
                    self.note()
                    if self.way == 1:
                        await consumer.commit()
            except KeyboardInterrupt:
                if self.number % 2:
                    raise


class AsyncioConsumer(Consuming):
    """A consumer for asyncio, whose task Ctrl-C cancels."""

    def run(self) -> None:
        """Read until Ctrl-C."""
        with suppress(KeyboardInterrupt):
            asyncio.run(self._read())

    async def _read(self) -> None:
        consumer = AsyncConsumer(self.topic, **self.settings)
        await consumer.start()
        self.begin()
        try:
            if self.way == 2:
                async for self.taken in consumer:
                    self.note()
            while True:
                self.taken = await consumer.getmany(timeout_ms=POLL_S * 1000)
                self.note()
                if self.way == 1:
                    await consumer.commit()
        finally:
            await consumer.stop()


PRODUCERS: dict[str, type[Producing]] = {"drop-in": DropInProducer, "trio": TrioProducer, "asyncio": AsyncioProducer}
CONSUMERS: dict[str, type[Consuming]] = {"drop-in": DropInConsumer, "trio": TrioConsumer, "asyncio": AsyncioConsumer}
