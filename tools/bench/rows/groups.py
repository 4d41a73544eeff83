"""Consumer groups and transactions: the time to a consumer's first assignment, offset commits, small transactions."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from functools import partial

from confluent_kafka import Consumer, Producer
from kafka import ConsumerRebalanceListener, KafkaConsumer

from tools.bench import frames, load, volume
from tools.bench.load import percentile
from tools.bench.row import CpuClock, Figure, Row, Stage, Topic

JOIN_TIMEOUT_S = 20
CONNECTIONS = 10
TRANSACTIONS = 200
WARM_TRANSACTIONS = 20
RECORDS, PARTITIONS = 10, 3

Join = Callable[[str, str, str], float | None]
"""A function of bootstrap servers, topic and group that joins a consumer.

It returns the time at which the consumer got its partitions, or None if the broker does not support its group protocol.
"""


def first_assignment(stage: Stage, join: Join) -> Mapping[str, float] | None:
    """Measure the time from the creation of a consumer to its assignment, in a new group on an idle broker."""
    with Topic(stage.broker) as topic, frames.Caller(stage.broker.port) as caller:
        caller.call(frames.produce(topic.name, 0, frames.batch(b"here")))
        settle(stage)
        begun = time.perf_counter()
        joined = join(stage.broker.bootstrap, topic.name, uuid.uuid4().hex)
        return None if joined is None else {"milliseconds": (joined - begun) * 1000}


def settle(stage: Stage, group: str = "bench") -> None:
    """Wait until the broker coordinates groups. The first request for a coordinator creates the internal topic."""
    with frames.Caller(stage.broker.port) as caller:
        while frames.find_coordinator_error(caller.call(frames.find_coordinator(group))):
            time.sleep(0.01)


class Assigned(ConsumerRebalanceListener):  # type: ignore[misc]
    """A rebalance listener that records when partitions were assigned."""

    at: float | None = None

    def on_partitions_revoked(self, revoked: object) -> None: ...

    def on_partitions_assigned(self, assigned: object) -> None:
        self.at = time.perf_counter()


def join_kafka_python(bootstrap: str, topic: str, group: str) -> float | None:
    """Join with kafka-python. The message in the topic ends the consumer's poll."""
    assigned = Assigned()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest")
    try:
        consumer.subscribe([topic], listener=assigned)
        consumer.poll(timeout_ms=JOIN_TIMEOUT_S * 1000)
        return assigned.at
    finally:
        consumer.close()


def join_confluent(bootstrap: str, topic: str, group: str, protocol: str) -> float | None:
    """Join with confluent-kafka."""
    assigned: list[float] = []
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "enable.metrics.push": False,
            "log_level": 0,
        }
    )
    try:
        consumer.subscribe([topic], on_assign=lambda _, __: assigned.append(time.perf_counter()))
        deadline = time.monotonic() + JOIN_TIMEOUT_S
        while not assigned and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error():
                return None
        return assigned[0] if assigned else None
    finally:
        consumer.close()


def commit(stage: Stage) -> Mapping[str, float]:
    """Measure OffsetCommit requests for one partition. Each connection has its own group."""
    with Topic(stage.broker) as topic:
        groups = [f"{topic.name}-{index}" for index in range(CONNECTIONS)]
        settle(stage)
        cpu = CpuClock(stage.broker)
        run = load.drive(
            [stage.broker.port] * len(groups), [frames.offset_commit(group, topic.name, 0, 7) for group in groups]
        )
        cpu_seconds = cpu.seconds()
        with frames.Caller(stage.broker.port) as caller:
            if frames.offset_commit_error(caller.call(frames.offset_commit(groups[0], topic.name, 0, 8)), topic.name):
                raise RuntimeError("an offset was not committed")
    return {"rate": run.rate, "p99": run.latency_ms(0.99), "cpu": cpu_seconds / run.requests * 1e6}


def transactions(stage: Stage) -> Mapping[str, float]:
    """Measure transactions of `RECORDS` records in `PARTITIONS` partitions, one after another.

    Raise RuntimeError if a committed record is missing from the log.
    """
    with Topic(stage.broker, PARTITIONS) as topic:
        producer = Producer(
            {
                "bootstrap.servers": stage.broker.bootstrap,
                "transactional.id": topic.name,
                "enable.metrics.push": False,
                "linger.ms": 0,
            }
        )
        producer.init_transactions(JOIN_TIMEOUT_S)
        taken: list[float] = []
        for _ in range(WARM_TRANSACTIONS + TRANSACTIONS):
            begun = time.perf_counter()
            producer.begin_transaction()
            for record in range(RECORDS):
                producer.produce(topic.name, bytes(100), partition=record % PARTITIONS)
            producer.commit_transaction(JOIN_TIMEOUT_S)
            taken.append(time.perf_counter() - begun)
        if volume.message_count(stage.broker, topic) < len(taken) * RECORDS:
            raise RuntimeError("records of a committed transaction are not in the log")
    taken = sorted(taken[WARM_TRANSACTIONS:])
    return {"p50": percentile(taken, 0.5) * 1e3, "p99": percentile(taken, 0.99) * 1e3}


JOINED = {"milliseconds": Figure("ms", digits=1)}
COMMITS = {"rate": Figure("req/s", True, 0), "p99": Figure("p99 ms"), "cpu": Figure("broker CPU us/req", digits=1)}

ROWS = (
    Row("first assignment, kafka-python", JOINED, partial(first_assignment, join=join_kafka_python)),
    Row(
        "first assignment, confluent classic",
        JOINED,
        partial(first_assignment, join=partial(join_confluent, protocol="classic")),
    ),
    Row(
        "first assignment, confluent KIP-848",
        JOINED,
        partial(first_assignment, join=partial(join_confluent, protocol="consumer")),
    ),
    Row("OffsetCommit, 10 connections", COMMITS, commit),
    Row("transaction, 10 records over 3 partitions", {"p50": Figure("p50 ms"), "p99": Figure("p99 ms")}, transactions),
)
