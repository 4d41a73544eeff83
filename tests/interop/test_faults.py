"""Our clients behind proxies that delay and cut, while nodes of this broker or of Apache Kafka are killed.

With PYKBROKER_TEST_SOAK_S=300 the proxies delay and cut for 300 s.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, NamedTuple

import pytest
import trio

from pykbroker.client.errors import Disconnected
from pykbroker.consumer import CommittedOffset, Consumer, ConsumerRecord
from pykbroker.core.consumer.errors import ConsumerError
from pykbroker.core.errors import ApiError
from pykbroker.core.producer.errors import TransactionAborted
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.kafka import KafkaProducer
from pykbroker.producer import AsyncProducer, ColumnsDelivery, Delivery, Producer, RowsFailed
from pykbroker.producer.async_producer import AsyncDelivery
from tests.interop.group_scenarios import SOON
from tests.interop.kafka_cluster import KafkaCluster
from tests.interop.soak import SOAK_S, TIMEOUT_S
from tests.interop.target import PARTITIONS, Target
from tools.bench.peers import free_port
from tools.broker_process import BrokerProcess
from tools.faulty_proxy import FaultyProxy

pytestmark = pytest.mark.timeout(TIMEOUT_S)
FAULTY_S = max(2.0, SOAK_S)
SETTINGS: dict[str, Any] = {"request_timeout_ms": 1000, "retry_backoff_ms": 20, "reconnect_backoff_max_ms": 200}
MEMORY_BYTES = 50_000
TASKS, ROWS = 3, 50
COPIERS = 2
LOST_ROUNDS = max(1, int(SOAK_S))
"""The rounds in which answers are lost: two, or one for each second of a soak."""
EXPIRY: dict[str, Any] = {
    "linger_ms": 5,
    "request_timeout_ms": 600,
    "delivery_timeout_ms": 605,
    "batch_size": 200,
    "retry_backoff_ms": 20,
    "reconnect_backoff_max_ms": 100,
}
"""The smallest delivery timeout that is legal: the only request of a batch times out as the batch expires."""


class Stage(NamedTuple):
    """A cluster: `target` is reached directly, and `servers` through proxies. `kill` restarts one of its nodes."""

    target: Target
    servers: str
    proxies: list[FaultyProxy]
    kill: Callable[[], None]


@pytest.fixture
def stage(request: pytest.FixtureRequest, target: Target) -> Iterator[Stage]:
    """Yield a cluster of each kind. A seed determines the faults, but not when they meet the traffic."""
    dice = Random(request.node.name)
    if "kafka" in request.node.callspec.id:
        yield kafka_stage(request.getfixturevalue("kafka_nodes"), target, dice)
    else:
        yield own_stage(request.getfixturevalue("start_broker"), dice)


def kafka_stage(nodes: KafkaCluster, target: Target, dice: Random) -> Stage:
    def kill() -> None:
        nodes.kill(1)
        nodes.start(1)
        nodes.wait_serving(1)

    proxies = [FaultyProxy(nodes.proxies[node_id], nodes.proxied[node_id], dice) for node_id in nodes.ports]
    return Stage(target, addresses(proxies), proxies, kill)


def own_stage(start_broker: Callable[..., BrokerProcess], dice: Random) -> Stage:
    port, proxied = free_port(), free_port()
    listener = ("--listen", f"PROXIED=127.0.0.1:{proxied}", "--advertise", f"PROXIED=127.0.0.1:{port}")
    broker = start_broker(*listener, *SOON)
    proxies = [FaultyProxy(port, proxied, dice)]
    return Stage(Target(broker.address, 1), addresses(proxies), proxies, broker.restart)


def addresses(proxies: list[FaultyProxy]) -> str:
    return ",".join(f"127.0.0.1:{proxy.port}" for proxy in proxies)


class Faults:
    """The faults of a stage, which run beside its clients. `ended` is set after the last one."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self.ended = stage, trio.Event()

    async def run(self) -> None:
        """Inject faults, and kill a node in the middle of them."""
        async with trio.open_nursery() as nursery:
            for proxy in self._stage.proxies:
                nursery.start_soon(proxy.inject_faults, FAULTY_S)
            for proxy in self._stage.proxies:
                await proxy.at_work.wait()
            await trio.to_thread.run_sync(self._stage.kill)
        self.ended.set()


async def play(stage: Stage, client: Callable[[Stage, trio.Event], Any], *, kills: bool = True) -> Any:
    """Run a client and the faults of its stage, unless it injects its own. Return the result of the client."""
    faults = Faults(stage)
    async with trio.open_nursery() as nursery:
        for proxy in stage.proxies:
            await nursery.start(proxy.run)
        if kills:
            nursery.start_soon(faults.run)
        result = await client(stage, faults.ended)
        nursery.cancel_scope.cancel()
    return result


# ---- an idempotent producer


class SentRows(NamedTuple):
    """A call of send_many by a task, and the offsets of its rows, -1 for rows that are not acknowledged."""

    task: int
    partition: int
    values: list[bytes]
    offsets: list[int]


async def produce(topic: str, stage: Stage, ended: trio.Event) -> list[SentRows]:
    """Send numbered rows from several tasks to all partitions until the faults have ended."""
    sent: list[SentRows] = []
    settings = SETTINGS | {"buffer_memory": MEMORY_BYTES, "batch_size": 1000, "delivery_timeout_ms": 60_000}
    async with Producer(bootstrap_servers=stage.servers, **settings) as producer, trio.open_nursery() as nursery:
        for task in range(TASKS):
            nursery.start_soon(produce_rows, producer, topic, task, sent, ended, nursery)
    assert producer.statistics().buffer_available_bytes == MEMORY_BYTES
    return sent


async def produce_rows(
    producer: Producer, topic: str, task: int, sent: list[SentRows], ended: trio.Event, nursery: trio.Nursery
) -> None:
    number = 0
    while not ended.is_set():
        values = [b"%d %07d" % (task, each) for each in range(number, number + ROWS)]
        rows = SentRows(task, number // ROWS % PARTITIONS, values, [])
        number += ROWS
        sent.append(rows)
        nursery.start_soon(settle, rows, await producer.send_many(topic, values, partition=rows.partition))
        assert 0 <= producer.statistics().buffer_available_bytes <= MEMORY_BYTES
        await trio.sleep(0.005)


async def settle(rows: SentRows, delivery: ColumnsDelivery) -> None:
    try:
        rows.offsets.extend((await delivery).offsets)
    except RowsFailed as failed:
        rows.offsets.extend(failed.offsets)


def test_faults_lose_repeat_and_reorder_nothing(stage: Stage) -> None:
    topic = stage.target.topic(**{"min.insync.replicas": "1"})
    sent = trio.run(play, stage, partial(produce, topic))
    acknowledged = {
        (rows.partition, offset): value
        for rows in sent
        for value, offset in zip(rows.values, rows.offsets, strict=True)
        if offset >= 0
    }
    assert len(acknowledged) >= TASKS * ROWS
    found = {(each.partition, each.offset): each.value for each in stage.target.records(topic, len(acknowledged))}
    assert {place: found.get(place) for place in acknowledged} == acknowledged
    assert set(found.values()) <= {value for rows in sent for value in rows.values}
    for partition in range(PARTITIONS):
        for task in range(TASKS):
            written = [v for (index, _), v in found.items() if index == partition and v.startswith(b"%d " % task)]
            assert written == sorted(set(written))


# ---- answers that are lost when the time of a batch is over


class LostAnswers:
    """Idempotent producers of every face, whose answers the proxies hold, and lose when the first batch expires.

    In a part of the rounds, the loop that sends is busy at that time.
    """

    def __init__(self, stage: Stage, topic: str) -> None:
        self._stage, self._topic = stage, topic
        self._settings = {"bootstrap_servers": stage.servers, **EXPIRY}
        self._met = threading.Barrier(len(self.faces) + 1, timeout=60)
        self.outcomes: dict[bytes, bool] = {}
        """Whether each record is acknowledged."""

    @property
    def faces(self) -> tuple[Callable[[], None], ...]:
        """Return the functions that send with a face."""
        return self.drop_in, self.asyncio, self.trio

    async def run(self, _stage: Stage, _ended: trio.Event) -> None:
        """Run all faces, and lose answers in each round."""
        async with trio.open_nursery() as nursery:
            for face in self.faces:
                nursery.start_soon(trio.to_thread.run_sync, face)
            dice = Random(self._topic)
            for number in range(LOST_ROUNDS):
                await trio.to_thread.run_sync(self._met.wait)
                async with trio.open_nursery() as holding:
                    held_s = dice.choice((dice.uniform(0.57, 0.67), 0.9)) if number else 0.65
                    for proxy in self._stage.proxies:
                        holding.start_soon(proxy.lose_answers, held_s)
                    await trio.lowlevel.checkpoint()
                    await trio.to_thread.run_sync(self._met.wait)

    def _steps(self, face: str) -> Iterator[tuple[str, Any]]:
        """Yield the steps of all rounds: a value to send, a time to pause or to keep the loop busy, or a flush."""
        dice = Random(face)
        for number in range(LOST_ROUNDS):
            yield "send", b"%s %d" % (face.encode(), number)
            yield "flush", None
            self._met.wait()
            self._met.wait()  # the answers are held now
            first_at = time.monotonic()
            for index in range(6):
                yield "send", b"%s %d %d" % (face.encode(), number, index)
                yield "pause", dice.uniform(0, 0.09)
            yield "pause", max(0.0, first_at + dice.uniform(0.5, 0.58) - time.monotonic())
            yield "block", dice.choice((0, 0.15, 0.15))  # in which the first batch expires, and the connection ends
            yield "flush", None

    def drop_in(self) -> None:
        """Send with the drop-in for kafka-python."""
        sent: list[tuple[bytes, Any]] = []
        with KafkaProducer(**self._settings) as producer:
            for step, value in self._steps("drop-in"):
                if step == "send":
                    sent.append((value, producer.send(self._topic, value, partition=0)))
                elif step == "pause":
                    time.sleep(value)
                elif step == "block":
                    producer._producer.loop.call_soon(partial(time.sleep, value))
                else:
                    producer.flush()
        self.outcomes |= {value: future.succeeded() for value, future in sent}

    def asyncio(self) -> None:
        """Send with the producer for asyncio."""
        asyncio.run(self._asyncio())

    async def _asyncio(self) -> None:
        sent: list[tuple[bytes, AsyncDelivery]] = []
        async with AsyncProducer(**self._settings) as producer:
            for step, value in self._steps("asyncio"):
                if step == "send":
                    sent.append((value, await producer.send(self._topic, value, partition=1)))
                elif step == "pause":
                    await asyncio.sleep(value)
                elif step == "block":
                    producer._running.loop.call_soon(partial(time.sleep, value))
                else:
                    await producer.flush()
        self.outcomes |= {value: is_acknowledged(delivery) for value, delivery in sent}

    def trio(self) -> None:
        """Send with the producer for trio."""
        trio.run(self._trio)

    async def _trio(self) -> None:
        sent: list[tuple[bytes, Delivery]] = []
        async with Producer(**self._settings) as producer:
            for step, value in self._steps("trio"):
                if step == "send":
                    sent.append((value, await producer.send(self._topic, value, partition=2)))
                elif step == "pause":
                    await trio.sleep(value)
                elif step == "block":
                    time.sleep(value)  # noqa: ASYNC251 - the loop is busy
                else:
                    await producer.flush()
        self.outcomes |= {value: is_acknowledged(delivery) for value, delivery in sent}


def is_acknowledged(delivery: Delivery | AsyncDelivery) -> bool:
    with suppress(ApiError):
        delivery.result()
        return True
    return False


def test_answers_that_are_lost_at_the_expiry_double_nothing(stage: Stage) -> None:
    topic = stage.target.topic(**{"min.insync.replicas": "1"})
    lost = LostAnswers(stage, topic)
    trio.run(partial(play, kills=False), stage, lost.run)
    acknowledged = {value for value, is_written in lost.outcomes.items() if is_written}
    written = Counter(each.value for each in stage.target.records(topic, len(acknowledged)))
    print(f"{len(lost.outcomes)} records sent, {len(acknowledged)} acknowledged, {len(written)} written")
    assert acknowledged <= written.keys()
    assert set(written.values()) == {1}
    assert len(acknowledged) < len(lost.outcomes), "no batch has expired"


# ---- a group that copies in transactions


class Copy:
    """A source topic, its copy, and the group of the copiers. `ends` and `copied` are offsets of the source."""

    def __init__(self, target: Target) -> None:
        self._target, self.group = target, f"copiers-{uuid.uuid4().hex[:8]}"
        self.source, self.copy = target.topic(), target.topic()
        self.ends = {TopicPartition(self.source, index): 0 for index in range(PARTITIONS)}
        self.copied = dict(self.ends)
        self._is_filled = False

    @property
    def is_done(self) -> bool:
        """Whether everything is copied."""
        return self._is_filled and self.copied == self.ends

    async def run(self, stage: Stage, ended: trio.Event) -> None:
        """Fill the source until the faults have ended, while copiers copy everything. They begin anew after errors."""
        async with trio.open_nursery() as nursery:
            for number in range(COPIERS):
                nursery.start_soon(self._keep_copying, stage.servers, f"{self.group}-{number}")
            await self._fill(ended)

    async def _fill(self, ended: trio.Event) -> None:
        async with Producer(bootstrap_servers=self._target.servers, **SETTINGS) as producer:
            while not ended.is_set():
                for partition, end in self.ends.items():
                    values = [b"%06d" % number for number in range(end, end + ROWS)]
                    await (await producer.send_many(self.source, values, partition=partition.partition))
                    self.ends[partition] = end + ROWS
                await trio.sleep(0.1)
        self._is_filled = True

    async def _keep_copying(self, servers: str, transactional_id: str) -> None:
        while not self.is_done:
            with suppress(ApiError, ConsumerError, TimeoutError, TransactionAborted, Disconnected):
                await self._copy(servers, transactional_id)
                return

    async def _copy(self, servers: str, transactional_id: str) -> None:
        consumer = Consumer(
            self.source,
            bootstrap_servers=servers,
            group_id=self.group,
            group_protocol="consumer",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_poll_records=20,
            **SETTINGS,
        )
        producer = Producer(
            bootstrap_servers=servers, transactional_id=transactional_id, max_block_ms=10_000, **SETTINGS
        )
        async with producer, consumer:
            await producer.init_transactions()
            while not self.is_done:
                if records := await consumer.poll(0.2):
                    await self._copy_in_a_transaction(records, consumer, producer)
                else:
                    await self._note_committed(consumer)

    async def _copy_in_a_transaction(
        self, records: list[ConsumerRecord], consumer: Consumer, producer: Producer
    ) -> None:
        offsets = {TopicPartition(each.topic, each.partition): CommittedOffset(each.offset + 1) for each in records}
        async with producer.transaction():
            for record in records:
                await producer.send(self.copy, record.value, partition=record.partition)
            await producer.send_offsets_to_transaction(offsets, consumer.group_member())

    async def _note_committed(self, consumer: Consumer) -> None:
        """Read how far the group is."""
        for partition, committed in (await consumer.committed(self.ends)).items():
            self.copied[partition] = 0 if committed is None else committed.offset


def test_a_transactional_copy_is_exact_under_faults(stage: Stage) -> None:
    copy = Copy(stage.target)
    trio.run(play, stage, copy.run)
    found: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    for record in stage.target.records(copy.copy, sum(copy.ends.values()), isolation_level="read_committed"):
        found[record.partition].append(record.value)
    assert found == [[b"%06d" % number for number in range(end)] for end in copy.ends.values()]
