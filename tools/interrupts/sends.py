"""Producers of every face that get Ctrl-C again and again while they send, and the check of what is in the topic then.

A second signal may interrupt what undoes the work of the first. Each face runs in a process of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from itertools import count
from random import Random
from time import sleep
from typing import Any

import trio

from pykbroker.kafka import KafkaProducer
from pykbroker.producer import AsyncProducer, Producer
from tools.interrupts.written import padded, plain, values_of

CLOSE_S, CHILD_S = 30, 300
PAUSE_S_MIN, PAUSE_S_MAX = 0.002, 0.012
"""The time between two signals. A second one may interrupt what undoes the work of the first."""
BATCH_BYTES, MEMORY_BYTES = 2_000, 20_000
"""A small memory, so that records also wait in line."""


class Sends:
    """The records of one process, and the signals that interrupt them."""

    def __init__(self, face: str, servers: str, topic: str, signals: int) -> None:
        self.face, self.topic, self.left = face, topic, signals
        self.settings: dict[str, Any] = {
            "bootstrap_servers": servers,
            "linger_ms": 1,
            "batch_size": BATCH_BYTES,
            "buffer_memory": MEMORY_BYTES,
        }
        self.numbers = count()
        self.sent: list[tuple[bytes, Any]] = []

    def begin(self) -> None:
        """Send the signals from another thread, as a terminal would."""
        threading.Thread(target=self._interrupt, daemon=True).start()

    def _interrupt(self) -> None:
        dice = Random(self.face)
        while self.left:
            sleep(dice.uniform(PAUSE_S_MIN, PAUSE_S_MAX))
            self.left -= 1
            os.kill(os.getpid(), signal.SIGINT)

    def value(self) -> bytes:
        """Return the value of the next record."""
        return padded(f"{self.face} {next(self.numbers)}")

    def report(self, memory: tuple[int, int], offsets: list[int]) -> None:
        """Print what was acknowledged."""
        values = [plain(value) for (value, _), offset in zip(self.sent, offsets, strict=True) if offset >= 0]
        print(json.dumps({"acknowledged": values, "missing_bytes": memory[0] - memory[1], "sent": len(self.sent)}))

    # ---- faces

    def drop_in(self) -> None:
        """Send with the drop-in for kafka-python."""
        producer = KafkaProducer(**self.settings)
        producer.partitions_for(self.topic)
        self.begin()
        while self.left:
            with suppress(KeyboardInterrupt):
                while self.left:
                    value = self.value()
                    self.sent.append((value, producer.send(self.topic, value)))
        with suppress(KeyboardInterrupt):
            sleep(PAUSE_S_MAX)  # the last signal
        producer.flush(CLOSE_S)
        found = producer._producer.shell.statistics()
        producer.close(CLOSE_S)
        offsets = [future.value.offset if future.succeeded() else -1 for _, future in self.sent]
        self.report((found.buffer_bytes, found.buffer_available_bytes), offsets)

    async def trio(self) -> None:
        async with Producer(**self.settings) as producer:
            await producer.partitions_for(self.topic)
            self.begin()
            while self.left:
                with suppress(KeyboardInterrupt):
                    while self.left:
                        value = self.value()
                        self.sent.append((value, await producer.send(self.topic, value)))
                        await trio.lowlevel.checkpoint()
            with suppress(KeyboardInterrupt):
                await trio.sleep(PAUSE_S_MAX)  # the last signal
            with trio.fail_after(CLOSE_S):
                await producer.flush()
            found = producer.statistics()
        offsets = [delivery.result().offset for _, delivery in self.sent]
        self.report((found.buffer_bytes, found.buffer_available_bytes), offsets)

    async def asyncio(self) -> None:
        """Send with the producer for asyncio, whose task each signal cancels, as `asyncio.run` lets it."""
        loop = asyncio.get_running_loop()
        async with AsyncProducer(**self.settings) as producer:
            await producer.partitions_for(self.topic)

            async def send() -> None:
                while self.left:
                    value = self.value()
                    self.sent.append((value, await producer.send(self.topic, value)))

            task = asyncio.create_task(send())
            loop.add_signal_handler(signal.SIGINT, lambda: task.cancel())
            self.begin()
            while self.left:
                await asyncio.gather(task, return_exceptions=True)
                task = asyncio.create_task(send())
            await asyncio.gather(task, return_exceptions=True)
            await asyncio.wait_for(producer.flush(), CLOSE_S)
            found = producer.statistics()
        offsets = [delivery.result().offset for _, delivery in self.sent]
        self.report((found.buffer_bytes, found.buffer_available_bytes), offsets)


def child(face: str, servers: str, topic: str, signals: int) -> None:
    """Run one face in this process."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores SIGINT
    sends = Sends(face, servers, topic, signals)
    if face == "drop-in":
        sends.drop_in()
    elif face == "trio":
        trio.run(sends.trio)
    else:
        asyncio.run(sends.asyncio())


def run(face: str, servers: str, topic: str, signals: int) -> bool:
    """Run one face in a process of its own, compare its records with the topic, and return whether they agree."""
    command = [sys.executable, "-m", "tools.interrupts.sends", face, servers, topic, str(signals)]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=CHILD_S)
    except subprocess.TimeoutExpired:
        print(f"{face}: hangs")
        return False
    if ended.returncode:
        print(f"{face}: failed:\n{ended.stderr}")
        return False
    found = json.loads(ended.stdout)
    written = {value: times for value, times in values_of(servers, topic).items() if value.startswith(f"{face} ")}
    lost = set(found["acknowledged"]) - written.keys()
    doubled = [value for value, times in written.items() if times > 1]
    failed = found["sent"] - len(found["acknowledged"])
    print(
        f"{face}: {signals} signals, {found['sent']} records sent, {failed} failed, {len(lost)} lost, {len(doubled)} "
        f"doubled, {found['missing_bytes']} bytes missing"
    )
    return not (lost or doubled or failed or found["missing_bytes"])


def run_faces(faces: Iterable[str], servers: str, topic: str, signals: int) -> bool:
    """Run these faces, and return whether all agree with the topic."""
    results = [run(face, servers, topic, signals) for face in faces]
    return all(results)


if __name__ == "__main__":
    of_child, servers_of_child, topic_of_child, signals_of_child = sys.argv[1:]
    child(of_child, servers_of_child, topic_of_child, int(signals_of_child))
