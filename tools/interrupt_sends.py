"""Producers of every face that get Ctrl-C while they send to a real broker, and the check of what is in the topic then.

`python -m tools.interrupt_sends --signals 500` prints a line for each face, and exits with 1 if a producer hangs, loses
or doubles records, or misses memory. `--servers` names a running cluster, such as one of Apache Kafka, with its topic.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import nullcontext, suppress
from itertools import count
from random import Random
from time import sleep
from typing import Any

import trio

from pykbroker.kafka import KafkaConsumer, KafkaProducer
from pykbroker.producer import AsyncProducer, Producer
from pykbroker.testing import running_broker

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
        return f"{self.face} {next(self.numbers)} ".encode().ljust(100, b".")

    def report(self, memory: tuple[int, int], offsets: list[int]) -> None:
        """Print what was acknowledged."""
        values = [value.decode() for (value, _), offset in zip(self.sent, offsets, strict=True) if offset >= 0]
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
        producer.flush(CLOSE_S)
        found = producer._producer.shell.statistics()
        producer.close(CLOSE_S)
        offsets = [future.value.offset if future.succeeded() else -1 for _, future in self.sent]
        self.report((found.buffer_bytes, found.buffer_available_bytes), offsets)

    async def trio(self) -> None:
        """Send with the producer for trio."""
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
    if face == "drop_in":
        sends.drop_in()
    elif face == "trio":
        trio.run(sends.trio)
    else:
        asyncio.run(sends.asyncio())


def run(face: str, servers: str, topic: str, signals: int) -> bool:
    """Run one face in a process of its own, compare its records with the topic, and return whether they agree."""
    command = [sys.executable, "-m", "tools.interrupt_sends", "--child", face, "--servers", servers]
    try:
        ended = subprocess.run(
            [*command, "--topic", topic, "--signals", str(signals)], capture_output=True, text=True, timeout=CHILD_S
        )
    except subprocess.TimeoutExpired:
        print(f"{face}: hangs")
        return False
    if ended.returncode:
        print(f"{face}: failed:\n{ended.stderr}")
        return False
    found = json.loads(ended.stdout)
    consumer = KafkaConsumer(
        topic, bootstrap_servers=servers, auto_offset_reset="earliest", consumer_timeout_ms=10_000, group_id=None
    )
    written = Counter(record.value.decode() for record in consumer if record.value.startswith(face.encode()))
    consumer.close()
    lost = set(found["acknowledged"]) - written.keys()
    doubled = [value for value, times in written.items() if times > 1]
    failed = found["sent"] - len(found["acknowledged"])
    print(
        f"{face}: {signals} signals, {found['sent']} records sent, {failed} failed, {len(lost)} lost, {len(doubled)} "
        f"doubled, {found['missing_bytes']} bytes missing"
    )
    return not (lost or doubled or failed or found["missing_bytes"])


def main() -> int:
    """Run all faces."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--signals", type=int, default=500)
    parser.add_argument("--servers")
    parser.add_argument("--topic", default="interrupted")
    parser.add_argument("--child", choices=("drop_in", "trio", "asyncio"))
    given = parser.parse_args()
    if given.child:
        child(given.child, given.servers, given.topic, given.signals)
        return 0
    with nullcontext() if given.servers else running_broker() as broker:
        servers = given.servers if broker is None else broker.bootstrap
        faces = ("drop_in", "trio", "asyncio")
        results = [run(face, servers, given.topic, given.signals) for face in faces]
        return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
