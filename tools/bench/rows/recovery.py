"""Starts on a directory with 1 GiB in `PARTITIONS` partitions, after kill -9 with nothing flushed and after a stop.

Another row kills a broker under load and restarts it, with a minute of records above the recovery points of
`LOADED_PARTITIONS` partitions.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from functools import partial

from tools.bench import frames
from tools.bench.peers import Broker
from tools.bench.row import Figure, Row, Stage, Topic

PARTITIONS = 1_000
VALUE_BYTES = 32 << 10
BATCHES = 32
"""The number of batches in each partition, which together have 1 MiB."""
LOADED_PARTITIONS = 4
LOADED_BYTES = 512 << 20
"""The bytes above the recovery points, in all partitions together."""
LOADED_AT_ONCE = 64
"""The number of unanswered Produce requests at the time of the kill."""
SESSION_S = 9
"""The value of `broker.session.timeout.ms`.

A killed Kafka broker that restarts waits this long for its old session to end.
"""
LED_WITHIN_S = 30
STOPPED_WITHIN_S = 300
STOPPED = (0, 128 + signal.SIGTERM)
"""The exit statuses of a clean stop. Kafka's JVM exits with the status of the signal."""


def start(stage: Stage) -> Mapping[str, float] | None:
    """Fill the topic, kill and restart the broker, then stop and restart it.

    Check after both restarts that every partition has all its batches.
    """
    if not stage.peer.durable:
        return None
    broker = stage.peer.start(stage.directory())
    topic = fill(broker)
    broker.child.kill()
    killed = broker.restart()
    check(killed, topic)
    if killed.child.stop(STOPPED_WITHIN_S) not in STOPPED:
        raise RuntimeError(f"the broker did not stop cleanly:\n{killed.child.tail()}")
    stopped = killed.restart()
    check(stopped, topic)
    stopped.stop()
    waited_s = SESSION_S if stage.peer.waits_for_session else 0
    return {"stop": stopped.start_seconds, "kill": killed.start_seconds, "less": killed.start_seconds - waited_s}


def fill(broker: Broker) -> str:
    """Write 1 GiB to a topic; return the name of the topic."""
    topic = Topic(broker, PARTITIONS)
    topic.__enter__()
    records = frames.batch(bytes(VALUE_BYTES))
    with frames.Caller(broker.port) as caller:
        for index in range(PARTITIONS * BATCHES):
            caller.call(frames.produce(topic.name, index % PARTITIONS, records))
    return topic.name


def under_load(stage: Stage, value_bytes: int) -> Mapping[str, float] | None:
    """Kill the broker while requests are unanswered, and restart it.

    Return the seconds until it lists every end offset.
    """
    if not stage.peer.durable:
        return None
    broker = stage.peer.start(stage.directory())
    topic = Topic(broker, LOADED_PARTITIONS)
    topic.__enter__()
    least = load(broker, topic.name, value_bytes)
    broker.child.kill()
    begun = time.monotonic()
    killed = broker.restart()
    with frames.Caller(killed.port) as caller:
        ends = [first_offset(caller, topic.name, index) for index in range(LOADED_PARTITIONS)]
    seconds = time.monotonic() - begun
    killed.child.kill()
    if min(ends) < least:
        raise RuntimeError(
            f"a partition ends at offset {min(ends)}, but at least {least} of its batches were acknowledged"
        )
    return {"first": seconds - (SESSION_S if stage.peer.waits_for_session else 0)}


def load(broker: Broker, topic: str, value_bytes: int) -> int:
    """Append `LOADED_BYTES`, and leave requests unanswered.

    Return the least number of acknowledged batches of a partition.
    """
    records = frames.batch(bytes(value_bytes))
    requests = [frames.produce(topic, at % LOADED_PARTITIONS, records, acks=1) for at in range(LOADED_AT_ONCE)]
    rounds = LOADED_BYTES // (LOADED_AT_ONCE * len(records))
    with frames.Caller(broker.port) as caller:
        for _ in range(rounds):
            caller.call_all(requests)
        caller.send_all(requests)
    return rounds * LOADED_AT_ONCE // LOADED_PARTITIONS


def first_offset(caller: frames.Caller, topic: str, partition: int) -> int:
    """Return the end offset of a partition once it has a leader; raise RuntimeError if it has none within
    `LED_WITHIN_S`.
    """
    request, deadline = frames.list_offsets(topic, partition), time.monotonic() + LED_WITHIN_S
    while frames.list_offsets_error(reply := caller.call(request)):
        if time.monotonic() > deadline:
            raise RuntimeError(f"partition {partition} has no leader")
        time.sleep(0.01)
    return frames.list_offsets_offset(reply)


def check(broker: Broker, topic: str) -> None:
    """Check the end offset of every partition, once it has a leader; raise RuntimeError if an end offset is wrong."""
    with frames.Caller(broker.port) as caller:
        for index in range(PARTITIONS):
            request, deadline = frames.list_offsets(topic, index), time.monotonic() + LED_WITHIN_S
            reply = caller.call(request)
            while frames.list_offsets_error(reply) and time.monotonic() < deadline:
                time.sleep(0.01)
                reply = caller.call(request)
            if frames.list_offsets_offset(reply) != BATCHES:
                raise RuntimeError(f"partition {index} does not have its {BATCHES} batches")


FIGURES = {
    "stop": Figure("s after a stop", digits=3),
    "kill": Figure("s after kill -9", digits=3),
    "less": Figure("s after kill -9, less the wait for the old session", digits=3),
}

LOADED = {"first": Figure("s until 4 partitions have answered an offset, less the wait for the old session", digits=3)}

ROWS = (
    Row("start, 1,000 partitions and 1 GiB", FIGURES, start),
    Row("start after kill -9 under load, 512 MiB in 16 KiB", LOADED, partial(under_load, value_bytes=16 << 10)),
    Row("start after kill -9 under load, 512 MiB in 1 KiB", LOADED, partial(under_load, value_bytes=1 << 10)),
)
