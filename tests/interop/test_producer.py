"""The producer with its three faces against this broker and against three nodes of Apache Kafka."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any, Self

import kafka
import pytest
import trio

from pykbroker.kafka import KafkaProducer
from pykbroker.producer import AsyncProducer, Producer
from tests.interop.kafka_cluster import KafkaCluster
from tests.interop.metadata_pause import without_pause
from tests.interop.target import Target
from tools.broker_process import BrokerProcess

pytestmark = pytest.mark.timeout(180)
RECORDS = 3000


def row(number: int) -> tuple[bytes, bytes | None, list[tuple[str, bytes]], int]:
    """Return value, key, headers and timestamp of a record."""
    key = None if number % 3 == 0 else b"key %d" % (number % 50)
    return b"value %05d" % number, key, [("number", b"%d" % number)], 1_700_000_000_000 + number


async def send_on_trio(servers: str, topic: str, settings: dict[str, Any]) -> list[tuple[int, int]]:
    async with Producer(bootstrap_servers=servers, **settings) as producer:
        deliveries = []
        for number in range(RECORDS):
            value, key, headers, timestamp = row(number)
            deliveries.append(await producer.send(topic, value, key, headers=headers, timestamp=timestamp))
        return [(await each)[1:3] for each in deliveries]


async def send_on_asyncio(servers: str, topic: str, settings: dict[str, Any]) -> list[tuple[int, int]]:
    async with AsyncProducer(bootstrap_servers=servers, **settings) as producer:
        deliveries = []
        for number in range(RECORDS):
            value, key, headers, timestamp = row(number)
            deliveries.append(await producer.send(topic, value, key, None, timestamp, headers))
        return [(await each)[1:3] for each in deliveries]


def send_from_a_thread(servers: str, topic: str, settings: dict[str, Any]) -> list[tuple[int, int]]:
    with KafkaProducer(bootstrap_servers=servers, **settings) as producer:
        futures = []
        for number in range(RECORDS):
            value, key, headers, timestamp = row(number)
            futures.append(producer.send(topic, value, key, headers, timestamp_ms=timestamp))
        found = [each.get(60) for each in futures]
        return [(each.partition, each.offset) for each in found]


FACES: dict[str, Callable[[str, str, dict[str, Any]], list[tuple[int, int]]]] = {
    "trio": lambda *arguments: trio.run(send_on_trio, *arguments),
    "asyncio": lambda *arguments: asyncio.run(send_on_asyncio(*arguments)),
    "threads": send_from_a_thread,
}


@pytest.mark.parametrize("codec", [None, "lz4"])
@pytest.mark.parametrize("face", FACES)
def test_every_record_arrives_once_at_the_offset_of_its_delivery(target: Target, face: str, codec: str | None) -> None:
    topic = target.topic()
    places = FACES[face](target.servers, topic, {} if codec is None else {"compression_type": codec})
    found = {(record.partition, record.offset): record for record in target.records(topic, RECORDS)}
    assert len(found) == RECORDS
    for number, place in enumerate(places):
        value, key, headers, timestamp = row(number)
        record = found[place]
        assert (record.value, record.key, record.headers, record.timestamp) == (value, key, headers, timestamp)
    by_key: dict[bytes, list[bytes]] = {}
    for record in found.values():
        if record.key is not None:
            by_key.setdefault(record.key, []).append(record.value)
    assert all(values == sorted(values) for values in by_key.values())


def test_columns_arrive_at_their_offsets(target: Target) -> None:
    topic = target.topic()
    values = [b"row %05d" % number for number in range(20_000)]

    async def send() -> Any:
        async with Producer(bootstrap_servers=target.servers) as producer:
            return await (await producer.send_many(topic, values))

    result = trio.run(send)
    found = {(record.partition, record.offset): record.value for record in target.records(topic, len(values))}
    places = zip(result.partitions, result.offsets, strict=True)
    assert [found[place] for place in places] == values


def test_keys_reach_the_partition_that_kafka_pythons_producer_selects(target: Target) -> None:
    topic = target.topic()
    keys = [b"key %d" % number for number in range(300)]
    theirs = without_pause(kafka.KafkaProducer(bootstrap_servers=target.servers))
    expected = [each.get(60).partition for each in [theirs.send(topic, b"", key) for key in keys]]
    theirs.close()
    with KafkaProducer(bootstrap_servers=target.servers) as ours:
        assert [each.get(60).partition for each in [ours.send(topic, b"", key) for key in keys]] == expected


def test_a_batch_that_the_broker_finds_too_large_is_split(target: Target) -> None:
    topic = target.topic(**{"max.message.bytes": "2000"})
    with KafkaProducer(bootstrap_servers=target.servers, linger_ms=100) as producer:
        futures = [producer.send(topic, b"%05d" % number * 20, partition=0) for number in range(100)]
        assert [each.get(60).offset for each in futures] == list(range(100))
    assert [record.value for record in target.records(topic, 100)] == [b"%05d" % number * 20 for number in range(100)]


def test_a_record_that_the_broker_refuses_has_the_brokers_error(target: Target) -> None:
    topic = target.topic(**{"cleanup.policy": "compact"})
    with KafkaProducer(bootstrap_servers=target.servers) as producer:
        error = producer.send(topic, b"no key", partition=0)
        with pytest.raises(kafka.errors.InvalidRecordError):
            error.get(60)
        assert producer.send(topic, b"value", b"key", partition=0).get(60).offset == 0


def test_four_threads_share_a_producer(target: Target) -> None:
    topic = target.topic()
    sent: list[Any] = []
    with KafkaProducer(bootstrap_servers=target.servers) as producer:

        def send(first: int) -> None:
            sent.extend(producer.send(topic, b"%05d" % number) for number in range(first, first + 1000))

        threads = [threading.Thread(target=send, args=(number * 1000,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(future.get(60).offset >= 0 for future in sent)
    assert sorted(record.value for record in target.records(topic, 4000)) == [b"%05d" % n for n in range(4000)]


class Restarts:
    """A broker that is killed and started again, again and again, until the test has sent everything."""

    def __init__(self, kill: Callable[[], None], start: Callable[[], None], times: int) -> None:
        self._kill, self._start, self._times = kill, start, times
        self.done = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    def _run(self) -> None:
        for _ in range(self._times):
            self._kill()
            self._start()
        self.done.set()


def send_until(done: threading.Event, servers: str, topic: str) -> list[tuple[bytes, int]]:
    """Send numbered records to partition 0 until the event is set. Return values and offsets."""
    with KafkaProducer(bootstrap_servers=servers, request_timeout_ms=5000, linger_ms=2) as producer:
        futures: list[tuple[bytes, Any]] = []
        while not done.is_set() or len(futures) < 1000:
            value = b"%07d" % len(futures)
            futures.append((value, producer.send(topic, value, partition=0)))
            if len(futures) % 500 == 0:
                producer.flush(60)
        return [(value, future.get(60).offset) for value, future in futures]


@pytest.fixture
def restarts(request: pytest.FixtureRequest, target: Target) -> Iterator[tuple[Target, Restarts]]:
    """Yield a cluster whose broker is killed three times, or one of whose nodes is."""
    if "kafka" in request.node.callspec.id:
        nodes: KafkaCluster = request.getfixturevalue("kafka_nodes")

        def start() -> None:
            nodes.start(1)
            nodes.wait_serving(1)

        yield target, Restarts(lambda: nodes.kill(1), start, 1)
    else:
        broker: BrokerProcess = request.getfixturevalue("start_broker")()
        yield Target(broker.address, 1), Restarts(broker.kill, broker.restart, 3)


def test_kills_of_the_broker_lose_repeat_and_reorder_nothing(restarts: tuple[Target, Restarts]) -> None:
    target, killing = restarts
    topic = target.topic(**{"min.insync.replicas": "1"})
    with killing:
        sent = send_until(killing.done, target.servers, topic)
    found = target.records(topic, len(sent))
    assert [record.value for record in found] == [value for value, _ in sent]
    assert [record.offset for record in found] == [offset for _, offset in sent]


def test_a_fork_is_refused_with_a_sentence(target: Target) -> None:
    import os

    with KafkaProducer(bootstrap_servers=target.servers) as producer:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                producer.send("topic", b"from the child")
            except BaseException as error:  # noqa: BLE001 - the parent checks it
                os.write(writing, str(error).encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert b"a fork does not copy its thread: make another one in the child process" in os.read(reading, 1000)
