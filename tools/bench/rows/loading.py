"""A restart with a million committed offsets: the time until all groups are served, and clients' latency meanwhile."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from tools.bench import frames, group_frames
from tools.bench.peers import Broker
from tools.bench.row import Figure, Row, Stage, Topic
from tools.bench.rows import groups

GROUPS, PARTITIONS = 10_000, 100
IN_FLIGHT = 10
COORDINATORS = 50
"""The number of partitions of `__consumer_offsets`."""
OFFSET = 7
LOADED_WITHIN_S = 120
NOT_YET = (14, 15, 16)
"""The error codes COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE and NOT_COORDINATOR."""


def load(stage: Stage) -> Mapping[str, float] | None:
    """Commit offsets, restart the broker, and measure the time until a group of every coordinator is served."""
    if not stage.peer.durable:
        return None
    broker = stage.peer.start(stage.directory())
    try:
        names = commit(broker)
    finally:
        broker.stop()
    begun = time.perf_counter()
    broker = broker.restart()
    try:
        waits = wait_loaded(broker, one_of_each(names))
        loaded = time.perf_counter()
    finally:
        broker.stop()
    seconds = loaded - begun
    return {"whole": seconds, "load": seconds - broker.start_seconds, "wait": max(waits) * 1000}


def commit(broker: Broker) -> Sequence[str]:
    """Commit an offset of each partition for each group; return the names of the groups."""
    topic = Topic(broker, PARTITIONS)
    topic.__enter__()
    groups.settle(Stage(broker.peer, broker, broker.directory))
    names = [f"{topic.name}-{number}" for number in range(GROUPS)]
    with frames.Caller(broker.port) as caller:
        for first in range(0, GROUPS, IN_FLIGHT):
            some = names[first : first + IN_FLIGHT]
            asked = [group_frames.commit_all(name, topic.name, PARTITIONS, OFFSET) for name in some]
            while asked:
                errors = [group_frames.commit_all_errors(reply, topic.name) for reply in caller.call_all(asked)]
                if codes := set().union(*errors) - {0, *NOT_YET}:
                    raise RuntimeError(f"offsets were not committed: {codes}")
                asked = [request for request, codes in zip(asked, errors, strict=True) if codes != {0}]
    return names


def one_of_each(names: Sequence[str]) -> list[str]:
    """Return one group for each partition of `__consumer_offsets`."""
    return list({java_hash(name) % COORDINATORS: name for name in names}.values())


def java_hash(text: str) -> int:
    """Return Java's `Utils.abs(text.hashCode())` for ASCII text."""
    hashed = 0
    for byte in text.encode():
        hashed = (31 * hashed + byte) & 0xFFFFFFFF
    return hashed if hashed < 1 << 31 else (1 << 32) - hashed


def wait_loaded(broker: Broker, names: list[str]) -> list[float]:
    """Wait until each group returns all its offsets; return the seconds of each small request sent during the wait."""
    waits, deadline = [0.0], time.monotonic() + LOADED_WITHIN_S
    with frames.Caller(broker.port) as caller, frames.Caller(broker.port) as beside:
        while names:
            name, begun = names[-1], time.perf_counter()
            beside.call(frames.metadata())
            waits.append(time.perf_counter() - begun)
            code, count = group_frames.fetch_all_answer(caller.call(group_frames.fetch_all(name)))
            if code in NOT_YET and time.monotonic() < deadline:
                continue
            if code or count != PARTITIONS:
                raise RuntimeError(f"{name} has {count} offsets, error {code}")
            names.pop()
    return waits


FIGURES = {
    "whole": Figure("s from the start of the process"),
    "load": Figure("s of it behind the start"),
    "wait": Figure("longest wait of a client ms", digits=1),
}
ROWS = (Row("load 1 M committed offsets", FIGURES, load),)
