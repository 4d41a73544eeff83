"""Steps of a broker's event loop under load, and the longest wait of another client during the largest requests."""

from __future__ import annotations

import re
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from tools.bench import frames, largest
from tools.bench.peers import Broker, free_port
from tools.bench.row import Figure, Row, Stage
from tools.bench.rows import requests, topics, volume

MESSAGES = 300_000
COORDINATOR_TRIES_MAX, COORDINATOR_PAUSE_S = 300, 0.1


def measure(stage: Stage) -> Mapping[str, float] | None:
    """Return the event-loop counters of a broker after volume, small requests and a thousand topics, in this order."""
    with watched(stage) as (broker, counts):
        if counts is None:
            return None
        loaded = Stage(stage.peer, broker, stage.scratch)
        for size in (100, 1024):
            volume.produce(loaded, MESSAGES, size)
            volume.consume(loaded, MESSAGES, size)
        for connections, in_flight in ((1, 1), (10, 1), (100, 1), (10, 5)):
            requests.produce(loaded, connections, in_flight)
        requests.metadata(loaded, 10)
        topics.create(loaded)
        counted = counts()
    return {
        "longest": counted["loop_step_longest_seconds"] * 1000,
        "slow": counted["loop_steps_slow_total"] / counted["loop_steps_total"] * 1000,
    }


@contextmanager
def watched(stage: Stage) -> Iterator[tuple[Broker, Callable[[], dict[str, float]] | None]]:
    """Yield a new broker, and a function that reads the broker's console, or None for a broker without a console."""
    if not stage.peer.in_process:
        yield stage.broker, None
        return
    port = free_port()
    broker = stage.peer.start(stage.directory(), options=("--console", f"127.0.0.1:{port}"))
    try:
        yield broker, partial(scraped, port)
    finally:
        broker.stop()


def scraped(port: int) -> dict[str, float]:
    """Return the metrics without labels of a console, by name without the prefix `pykbroker_`."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    return {name: float(value) for name, value in re.findall(r"^pykbroker_(\w+) (\S+)$", text, re.MULTILINE)}


def stand_by(stage: Stage) -> Mapping[str, float]:
    """Measure the longest wait in ms of another client while the largest requests are handled."""
    found = {}
    with frames.Caller(stage.broker.port, 600) as caller:
        caller.call(frames.find_coordinator("largest"))
        transactional_id, producer = begin_transactions(caller)
        for name, request in largest.requests(f"bench-{uuid.uuid4().hex[:12]}", transactional_id, producer).items():
            with other_client(stage.broker.port) as waits_ms:
                caller.call(request)
            found[name] = max(waits_ms)
    return found


def begin_transactions(caller: frames.Caller) -> tuple[str, tuple[int, int]]:
    """Create the transactional ids that `largest` names; return one of them with its producer id and epoch."""
    found = None
    for transactional_id in largest.transactional_ids():
        for _ in range(COORDINATOR_TRIES_MAX):
            found = largest.producer_of(caller.call(largest.init_producer(transactional_id)))
            if found is not None:
                break
            caller.call(frames.find_transaction_coordinator(transactional_id))
            time.sleep(COORDINATOR_PAUSE_S)
    if found is None:
        raise RuntimeError("no coordinator accepted the last transactional id")
    return transactional_id, found


@contextmanager
def other_client(port: int) -> Iterator[list[float]]:
    """Send tiny requests continuously; record the time of each response in ms."""
    waits_ms: list[float] = []
    gone = threading.Event()

    def ask() -> None:
        with frames.Caller(port, 600) as caller:
            while not gone.is_set() or not waits_ms:
                begun = time.perf_counter()
                caller.call(frames.metadata())
                waits_ms.append((time.perf_counter() - begun) * 1000)
                time.sleep(0.001)

    thread = threading.Thread(target=ask)
    thread.start()
    while not waits_ms:
        time.sleep(0.001)
    try:
        yield waits_ms
    finally:
        gone.set()
        thread.join()


FIGURES = {"slow": Figure("over 20 ms, of 1,000", digits=3), "longest": Figure("longest ms", digits=1)}
WAITS = {name: Figure(f"{name} ms", digits=1) for name in largest.requests("")}
ROWS = (
    Row("steps of the loop, all loads", FIGURES, measure, noisy=False),
    Row("longest wait of another client", WAITS, stand_by, noisy=False),
)
