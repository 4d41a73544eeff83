"""Tests of transactions of kafka-python, confluent-kafka and aiokafka, which are atomic even if the
broker is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Protocol, TypeVar

import aiokafka
import aiokafka.errors
import confluent_kafka as ck
import kafka
import kafka.errors
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.scenarios import PATIENCE_S
from tools.broker_process import BrokerProcess

T = TypeVar("T")
KILLS = 3
PARTITIONS = 3


class TransactionalProducer(Protocol):
    """A producer with one transactional id, with the same methods for each library.

    `fenced` is the exception that a fenced producer raises.
    """

    fenced: tuple[type[BaseException], ...]

    def __init__(self, bootstrap: str, name: str) -> None: ...

    def begin(self) -> None: ...

    def send(self, topic: str, value: bytes) -> None:
        """Send a value, which is stored by the end of the transaction at the latest."""

    def commit_offset(self, topic: str, offset: int, group: str) -> None:
        """Commit an offset of partition 0 as part of the transaction."""

    def end(self, *, commit: bool) -> None: ...

    def close(self) -> None: ...


class ConfluentKafka:
    """The producer of librdkafka."""

    fenced = (ck.KafkaException,)

    def __init__(self, bootstrap: str, name: str) -> None:
        self._producer = ck.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": name,
                "linger.ms": 0,
                "transaction.timeout.ms": 60_000,
                "log_level": 0,
            }
        )
        self._producer.init_transactions(PATIENCE_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes) -> None:
        self._producer.produce(topic, value)

    def commit_offset(self, topic: str, offset: int, group: str) -> None:
        consumer = ck.Consumer({"bootstrap.servers": self._bootstrap(), "group.id": group})
        self._producer.send_offsets_to_transaction(
            [ck.TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), PATIENCE_S
        )
        consumer.close()

    def _bootstrap(self) -> str:
        brokers = self._producer.list_topics(timeout=PATIENCE_S).brokers.values()
        return ",".join(f"{one.host}:{one.port}" for one in brokers)

    def end(self, *, commit: bool) -> None:
        (self._producer.commit_transaction if commit else self._producer.abort_transaction)(PATIENCE_S)

    def close(self) -> None:
        self._producer.purge()


class KafkaPython:
    """The producer of kafka-python."""

    fenced = (kafka.errors.KafkaError,)

    def __init__(self, bootstrap: str, name: str) -> None:
        self._producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes) -> None:
        self._producer.send(topic, value)

    def commit_offset(self, topic: str, offset: int, group: str) -> None:
        place = kafka.TopicPartition(topic, 0)
        self._producer.send_offsets_to_transaction({place: kafka.OffsetAndMetadata(offset, "", -1)}, group)

    def end(self, *, commit: bool) -> None:
        (self._producer.commit_transaction if commit else self._producer.abort_transaction)()

    def close(self) -> None:
        self._producer.close(timeout=0)


class AioKafka:
    """The producer of aiokafka, on an event loop of its own."""

    fenced = (aiokafka.errors.KafkaError,)

    def __init__(self, bootstrap: str, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._producer = self._do(self._make(bootstrap, name))

    async def _make(self, bootstrap: str, name: str) -> aiokafka.AIOKafkaProducer:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
        await producer.start()
        return producer

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(asyncio.wait_for(work, PATIENCE_S))

    def begin(self) -> None:
        self._do(self._producer.begin_transaction())

    def send(self, topic: str, value: bytes) -> None:
        self._do(self._producer.send(topic, value))

    def commit_offset(self, topic: str, offset: int, group: str) -> None:
        self._do(self._producer.send_offsets_to_transaction({aiokafka.TopicPartition(topic, 0): offset}, group))

    def end(self, *, commit: bool) -> None:
        self._do(self._producer.commit_transaction() if commit else self._producer.abort_transaction())

    def close(self) -> None:
        with contextlib.suppress(aiokafka.errors.KafkaError):
            self._do(self._producer.stop())
        self._loop.close()


LIBRARIES = (ConfluentKafka, KafkaPython, AioKafka)
NewProducer = Callable[..., TransactionalProducer]


@pytest.fixture(params=LIBRARIES, ids=[library.__name__ for library in LIBRARIES])
def library(request: pytest.FixtureRequest) -> type[TransactionalProducer]:
    return request.param


@pytest.fixture
def new_producer(library: type[TransactionalProducer], bootstrap: str) -> Iterator[NewProducer]:
    """Yield `new_producer(name)`. All producers are closed after the test."""
    made: list[TransactionalProducer] = []

    def make(name: str) -> TransactionalProducer:
        made.append(library(bootstrap, name))
        return made[-1]

    yield make
    for producer in made:
        producer.close()


def new_topic(bootstrap: str, partitions: int = 1) -> str:
    name, admin = f"t-{uuid.uuid4().hex}", AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(PATIENCE_S)
    return name


@pytest.fixture
def topic(bootstrap: str) -> str:
    return new_topic(bootstrap)


def read(bootstrap: str, topic: str, isolation: str = "read_committed", partition: int = 0) -> list[bytes]:
    """Return all values of a partition that a new consumer gets, up to the end offset at its start."""
    consumer = ck.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.assign([ck.TopicPartition(topic, partition, 0)])
    values: list[bytes] = []
    while (record := consumer.poll(PATIENCE_S)) is not None and not record.error():
        values.append(record.value())
    consumer.close()
    assert record is not None
    return values


def committed(bootstrap: str, group: str, topic: str) -> int:
    """Return the committed offset of the group, -1 if there is none."""
    consumer = ck.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    (place,) = consumer.committed([ck.TopicPartition(topic, 0)], PATIENCE_S)
    consumer.close()
    return place.offset if place.offset >= 0 else -1


def test_only_committed_records_are_read(bootstrap: str, topic: str, new_producer: NewProducer) -> None:
    producer = new_producer(topic)
    for number in range(6):
        producer.begin()
        for _ in range(3):
            producer.send(topic, b"%d" % number)
        producer.end(commit=number % 2 == 0)
    assert read(bootstrap, topic) == [b"0"] * 3 + [b"2"] * 3 + [b"4"] * 3
    everything = read(bootstrap, topic, "read_uncommitted")
    assert [value for value in everything if value in (b"0", b"2", b"4")] == read(bootstrap, topic)


def test_offsets_are_committed_with_the_transaction_or_not_at_all(
    bootstrap: str, topic: str, new_producer: NewProducer
) -> None:
    producer, group = new_producer(topic), uuid.uuid4().hex
    for offset, commit in ((5, True), (9, False)):
        producer.begin()
        producer.send(topic, b"v")
        producer.commit_offset(topic, offset, group)
        producer.end(commit=commit)
        assert committed(bootstrap, group, topic) == 5


def test_a_new_producer_instance_fences_the_old_one(
    bootstrap: str, topic: str, library: type[TransactionalProducer], new_producer: NewProducer
) -> None:
    old = new_producer(topic)
    old.begin()
    old.send(topic, b"old")
    new = new_producer(topic)

    def go_on() -> None:
        old.send(topic, b"zombie")
        old.end(commit=True)

    with pytest.raises(library.fenced):
        go_on()
    new.begin()
    new.send(topic, b"new")
    new.end(commit=True)
    assert read(bootstrap, topic) == [b"new"]


def test_a_transaction_that_times_out_is_aborted_and_later_records_are_read(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker("--memory", "--set", "transaction.abort.timed.out.transaction.cleanup.interval.ms=100")
    topic = new_topic(broker.address)
    producer = ck.Producer(
        {
            "bootstrap.servers": broker.address,
            "transactional.id": "slow",
            "linger.ms": 0,
            "transaction.timeout.ms": 1000,
            "log_level": 0,
        }
    )
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"too late")
    producer.flush(PATIENCE_S)
    plain = ck.Producer({"bootstrap.servers": broker.address})
    plain.produce(topic, b"behind")
    plain.flush(PATIENCE_S)
    deadline = time.monotonic() + PATIENCE_S
    while (values := read(broker.address, topic)) == [] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert values == [b"behind"]
    with pytest.raises(ck.KafkaException):
        producer.commit_transaction(PATIENCE_S)


@pytest.mark.timeout(120)
def test_transactions_over_several_partitions_are_atomic_although_the_broker_is_killed(broker: BrokerProcess) -> None:
    topic = new_topic(broker.address, PARTITIONS)
    writers = [Writer(broker.address, topic, number) for number in range(2)]
    threads = [threading.Thread(target=writer.write) for writer in writers]
    for thread in threads:
        thread.start()
    for kill in range(1, KILLS + 1):
        for writer in writers:
            while len(writer.committed) < 20 * kill:
                time.sleep(0.01)
        broker.restart()
    for writer in writers:
        writer.enough.set()
    for thread in threads:
        thread.join()
    for writer in writers:
        writer.begin_anew()  # Open and undecided transactions are decided by then.
    found = [Counter(read(broker.address, topic, partition=index)) for index in range(PARTITIONS)]
    assert found[1:] == found[:-1], "every transaction is complete, and none holds back later records"
    assert set(found[0].values()) == {1}, "no record is read twice"
    for writer in writers:
        assert set(writer.committed) <= set(found[0])
        assert not set(writer.aborted) & set(found[0])


class Writer:
    """A producer that writes one value to every partition in each transaction, until it has written `enough` values."""

    def __init__(self, bootstrap: str, topic: str, number: int) -> None:
        self._settings = {
            "bootstrap.servers": bootstrap,
            "transactional.id": f"{topic}-{number}",
            "linger.ms": 0,
            "log_level": 0,
            "metadata.recovery.strategy": "none",
            "reconnect.backoff.max.ms": 100,
        }
        self._topic, self._name = topic, f"{number}".encode()
        self.committed: list[bytes] = []
        self.aborted: list[bytes] = []
        self.enough = threading.Event()

    def begin_anew(self) -> ck.Producer:
        while True:
            producer = ck.Producer(self._settings)
            with contextlib.suppress(ck.KafkaException):
                producer.init_transactions(PATIENCE_S)
                return producer

    def write(self) -> None:
        producer = self.begin_anew()
        for number in itertools.count():
            if self.enough.is_set():
                return
            value = self._name + b"-%d" % number
            try:
                producer.begin_transaction()
                for index in range(PARTITIONS):
                    producer.produce(self._topic, value, partition=index)
                if number % 3:
                    producer.commit_transaction(PATIENCE_S)
                    self.committed.append(value)
                else:
                    self.aborted.append(value)
                    producer.abort_transaction(PATIENCE_S)
            except ck.KafkaException:
                producer = self.begin_anew()
