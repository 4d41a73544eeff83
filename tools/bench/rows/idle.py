"""Memory and CPU of an idle broker: a new one, one with waiting fetches, and one with idle connections."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping

from tools.bench import frames
from tools.bench.peers import Broker
from tools.bench.row import CpuClock, Figure, Row, Stage, Topic

SETTLE_S = 3
WATCH_S = 10
PARKED_FETCHES = 100
IDLE_CONNECTIONS = 2_000


def watch(broker: Broker) -> Mapping[str, float]:
    """Return the memory of the broker, and the CPU that it uses in `WATCH_S` seconds."""
    memory = broker.child.memory_bytes()
    cpu = CpuClock(broker)
    time.sleep(WATCH_S)
    return {"memory": memory / 1e6, "cpu": cpu.seconds() / WATCH_S * 100}


def idle(stage: Stage) -> Mapping[str, float]:
    """Measure a broker that has just started."""
    broker = stage.peer.start(stage.directory())
    try:
        time.sleep(SETTLE_S)
        return watch(broker)
    finally:
        broker.stop()


def parked(stage: Stage) -> Mapping[str, float]:
    """Measure a new broker with `PARKED_FETCHES` connections whose Fetch requests wait for a first message."""
    broker = stage.peer.start(stage.directory())
    try:
        with contextlib.ExitStack() as open_connections, Topic(broker) as topic:
            for index in range(PARKED_FETCHES):
                caller = open_connections.enter_context(frames.Caller(broker.port))
                request = frames.fetch(topic.name, index % topic.partitions, 0, 2 * (SETTLE_S + WATCH_S) * 1000)
                caller.socket.sendall(request)
            time.sleep(SETTLE_S)
            return watch(broker)
    finally:
        broker.stop()


def idle_connections(stage: Stage) -> Mapping[str, float]:
    """Measure the memory per connection of `IDLE_CONNECTIONS` connections to the warm broker after one request each."""
    before = stage.broker.child.memory_bytes()
    with contextlib.ExitStack() as open_connections:
        for _ in range(IDLE_CONNECTIONS):
            open_connections.enter_context(frames.Caller(stage.broker.port)).call(frames.metadata())
        time.sleep(1)
        grown = stage.broker.child.memory_bytes() - before
    return {"memory": max(0.0, grown / IDLE_CONNECTIONS / 1024)}


def loaded(stage: Stage) -> Mapping[str, float]:
    """Measure the memory of the warm broker after all earlier rows."""
    return {"memory": stage.broker.child.memory_bytes() / 1e6}


IDLE_FIGURES = {"memory": Figure("MB", digits=0), "cpu": Figure("CPU %", digits=1)}

ROWS = (
    Row("idle", IDLE_FIGURES, idle, noisy=False),
    Row("idle, 100 parked fetches", IDLE_FIGURES, parked, noisy=False),
)
CONNECTION_ROWS = (
    Row("2,000 idle connections", {"memory": Figure("KiB each", digits=1)}, idle_connections, noisy=False),
    Row("memory after the load", {"memory": Figure("MB", digits=0)}, loaded, noisy=False),
)
