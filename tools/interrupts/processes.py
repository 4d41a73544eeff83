"""Processes of every face that get Ctrl-C one to three times, and the check of what they have left behind.

A producer must not hang, tear a batch, miss memory, or lose or double a record. A consumer must not hang, skip or
repeat a record, or commit one that it has not returned.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, Self

from pykbroker.kafka import KafkaConsumer, KafkaProducer, TopicPartition
from tools.interrupts.fork_server import STACKS
from tools.interrupts.written import values_of

END_S_MAX = 40.0
"""The time after its last signal after which a program hangs."""
SIGNALS = (1, 1, 2, 3)
FIRST_S_MAX = {"producer": 0.3, "consumer": 0.6}
"""The longest time from the start of the work to the first signal."""
NEXT_S_MAX = 0.02
PARTITIONS, RECORDS = 2, 10_000
"""The topic that the consumers read."""


class Ended(NamedTuple):
    """A program that has ended. `report` is empty if it hung, or was interrupted while it wrote its report."""

    number: int
    signals: int
    status: int | None
    report: dict[str, Any]
    errors: str


class ForkServer:
    """The process that forks programs. Any number of threads may run programs at the same time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._news: dict[int, queue.Queue[tuple[str, int]]] = defaultdict(queue.Queue)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tools.interrupts.fork_server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            number, name, *value = line.decode().split()
            self._news[int(number)].put((name, int(value[0]) if value else 0))

    def run(self, number: int, kind: str, face: str, servers: str, topic: str) -> Ended:
        """Run a program, interrupt it, and wait for its end."""
        dice, news = Random(f"{topic} {number}"), self._news[number]
        line = json.dumps([number, kind, face, servers, topic, str(self._directory)]) + "\n"
        assert self._process.stdin is not None
        os.write(self._process.stdin.fileno(), line.encode())
        _, pid = news.get(timeout=END_S_MAX)
        count, status = dice.choice(SIGNALS), None
        try:
            name, value = news.get(timeout=END_S_MAX)
            pause_s = dice.uniform(0, FIRST_S_MAX[kind])
            for _ in range(count if name == "ready" else 0):
                time.sleep(pause_s)
                os.kill(pid, signal.SIGINT)
                pause_s = dice.uniform(0, NEXT_S_MAX)
            _, status = (name, value) if name == "ended" else news.get(timeout=END_S_MAX)
        except ProcessLookupError:  # the program has ended before its last signal
            _, status = news.get(timeout=END_S_MAX)
        except queue.Empty:
            os.kill(pid, STACKS)
            time.sleep(1)
            os.kill(pid, signal.SIGKILL)
        report, errors = (self._directory / f"{number}.{name}" for name in ("json", "errors"))
        text = report.read_text() if report.exists() else ""
        return Ended(number, count, status, json.loads(text) if text else {}, errors.read_text())


def run_all(
    server: ForkServer, kind: str, face: str, servers: str, topic: str, numbers: Iterable[int], jobs: int
) -> list[Ended]:
    """Run these programs, `jobs` at the same time."""
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda number: server.run(number, kind, face, servers, topic), numbers))


# ---- what they leave


def is_crash(ended: Ended) -> bool:
    """Whether a program has ended by anything but a KeyboardInterrupt."""
    lines = ended.errors.strip().splitlines()
    return ended.status not in (None, 0, -signal.SIGINT) and not (lines and "KeyboardInterrupt" in lines[-1])


def common_faults(ended: Ended) -> Iterable[str]:
    """Yield what is wrong with a program of any kind."""
    if ended.status is None:
        yield "hangs"
    elif is_crash(ended):
        yield "crashes"


def producer_faults(face: str, ended: Ended, written: Counter[str]) -> Iterable[str]:
    """Yield what is wrong with a producer. `written` counts the values of the topic."""
    yield from common_faults(ended)
    report = ended.report
    if not report:
        return
    values = [f"{ended.number} {number}" for number in report["acknowledged"]]
    if any(not written[value] for value in values):
        yield "lost"
    if any(written[f"{ended.number} {number}"] > 1 for number in range(report["sent"] + 1)):
        yield "doubled"
    if face != "asyncio" or ended.signals == 1:  # asyncio lets a second one end its loop, and all tasks, anywhere
        if report["missing_bytes"]:
            yield "misses memory"
        if report["unknown"]:
            yield "leaves records without an outcome"
    if report["errors"] and (ended.signals == 1 or not all("closed" in each for each in report["errors"])):
        yield "fails records"


def consumer_faults(ended: Ended, committed: Callable[[str], list[int]]) -> Iterable[str]:
    """Yield what is wrong with a consumer. `committed` returns the offsets of a group."""
    yield from common_faults(ended)
    if not ended.report:
        return
    returned = dict(ended.report["returned"])
    for partition, end in enumerate(committed(ended.report["group"])):
        offsets = returned.get(partition, [])
        if offsets != list(range(len(offsets))):
            yield "skips or repeats"
        if end > len(offsets):
            yield "commits what it has not returned"


def committed_of(servers: str, topic: str) -> Callable[[str], list[int]]:
    """Return a function of a group, which returns the committed offset of each partition, 0 if there is none."""

    def committed(group: str) -> list[int]:
        with KafkaConsumer(bootstrap_servers=servers, group_id=group) as consumer:
            found = [consumer.committed(TopicPartition(topic, index)) for index in range(PARTITIONS)]
        return [each if isinstance(each, int) else 0 for each in found]

    return committed


def fill(servers: str, topic: str) -> None:
    """Fill the topic that consumers read."""
    with KafkaProducer(bootstrap_servers=servers, linger_ms=5) as producer:
        for number in range(RECORDS):
            producer.send(topic, b"%d" % number, partition=number % PARTITIONS)


def judge(kind: str, face: str, ended: list[Ended], servers: str, topic: str) -> bool:
    """Print a line about all programs of a face, and one for each fault. Return whether no fault was found."""
    faults: Counter[str] = Counter()
    if kind == "producer":
        written = values_of(servers, topic)
        of_all = [list(producer_faults(face, each, written)) for each in ended]
        records = sum(each.report.get("sent", 0) for each in ended)
    else:
        committed = committed_of(servers, topic)
        of_all = [list(consumer_faults(each, committed)) for each in ended]
        records = sum(len(offsets) for each in ended for _, offsets in each.report.get("returned", ()))
    for each, found in zip(ended, of_all, strict=True):
        faults.update(set(found))
        if found or not each.report:
            print(f"{face} {kind} {each.number}, {each.signals} signals: {found}, {each.report.get('errors')}")
            print(each.errors[-4000:])
    unreported = sum(not each.report for each in ended)
    print(
        f"{face} {kind}: {len(ended)} processes, {sum(each.signals for each in ended)} signals, {records} records, "
        f"{unreported} without a report; faults: {dict(faults) or 'none'}",
        flush=True,
    )
    return not faults
