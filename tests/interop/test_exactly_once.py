"""Tests that a transactional copy of a topic is exact, although the broker and the copiers are killed repeatedly."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import confluent_kafka as ck
import kafka
import kafka.errors
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.copying import BATCH_RECORDS_MAX, Client, Record, copy
from tests.interop.leaving import leave
from tests.interop.scenarios import PATIENCE_S
from tools.broker_process import BrokerProcess

PARTITIONS = 4
SESSION_MS, TRANSACTION_MS_MAX = 6000, 20_000


class ConfluentKafka:
    """The client of a copier with librdkafka. `settings` are settings of its consumer."""

    errors: tuple[type[Exception], ...] = (ck.KafkaException,)

    def __init__(self, bootstrap: str, source: str, target: str, name: str, settings: Mapping[str, object]) -> None:
        self._settings: Mapping[str, Any] = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "metadata.recovery.strategy": "none",
            "reconnect.backoff.max.ms": 100,
        }
        self._source, self._target, self._name = source, target, name
        self.moved = True
        self._begin_anew()
        self._consumer = ck.Consumer(
            {
                **self._settings,
                "group.id": target,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
                **settings,
            }
        )
        self._consumer.subscribe([source], on_assign=self._move, on_revoke=self._move, on_lost=self._move)

    def _begin_anew(self) -> None:
        """Create a producer that fences the previous one.

        Once the new producer has its epoch, an undecided transaction is aborted.
        """
        while True:
            self._producer = ck.Producer(
                {
                    **self._settings,
                    "transactional.id": self._name,
                    "transaction.timeout.ms": TRANSACTION_MS_MAX,
                    "linger.ms": 0,
                }
            )
            with contextlib.suppress(ck.KafkaException):
                self._producer.init_transactions(PATIENCE_S)
                return

    def _move(self, *_: object) -> None:
        self.moved = True

    def rewind(self) -> dict[int, int]:
        """Return the committed offsets, at which reading goes on.

        Return nothing if a partition that was just assigned cannot be sought yet. The next call seeks it.
        """
        places = self._consumer.committed(self._consumer.assignment(), PATIENCE_S)
        for place in places:
            if place.error:
                raise ck.KafkaException(place.error)
            place.offset = max(place.offset, 0)
            try:
                self._consumer.seek(place)
            except ck.KafkaException as error:
                if error.args[0].code() != ck.KafkaError._STATE:
                    raise
                return {}
        self.moved = False
        return {place.partition: place.offset for place in places}

    def poll(self) -> list[Record]:
        return [
            (one.partition(), one.offset(), one.value())
            for one in self._consumer.consume(BATCH_RECORDS_MAX, 0.2)
            if not one.error()
        ]

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, records: Sequence[Record]) -> None:
        for index, _, value in records:
            self._producer.produce(self._target, value, partition=index)

    def send_offsets(self, offsets: Mapping[int, int]) -> None:
        self._producer.send_offsets_to_transaction(
            [ck.TopicPartition(self._source, index, offset) for index, offset in offsets.items()],
            self._consumer.consumer_group_metadata(),
            PATIENCE_S,
        )

    def commit(self) -> None:
        self._producer.commit_transaction(PATIENCE_S)

    def recover(self, error: Exception) -> None:
        self.moved = True
        with contextlib.suppress(ck.KafkaException):
            if error.args[0].txn_requires_abort():
                self._producer.abort_transaction(PATIENCE_S)
                return
        self._begin_anew()

    def close(self) -> None:
        leave(self._consumer)
        self._producer.purge()


class KafkaPython:
    """The client of a copier with kafka-python."""

    errors: tuple[type[Exception], ...] = (kafka.errors.KafkaError,)

    def __init__(self, bootstrap: str, source: str, target: str, name: str) -> None:
        self._bootstrap, self._source, self._target, self._name = bootstrap, source, target, name
        self.moved = True
        self._producer = self._new_producer()
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=target,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            max_poll_records=BATCH_RECORDS_MAX,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=200,
        )
        self._consumer.subscribe([source], listener=Listener(self._move))

    def _new_producer(self) -> kafka.KafkaProducer:
        while True:
            producer = kafka.KafkaProducer(bootstrap_servers=self._bootstrap, transactional_id=self._name)
            try:
                producer.init_transactions()
            except kafka.errors.KafkaError:
                producer.close(timeout=0)
            else:
                return producer

    def _move(self) -> None:
        self.moved = True

    def rewind(self) -> dict[int, int]:
        offsets = {}
        for place in self._consumer.assignment():
            offsets[place.partition] = self._consumer.committed(place) or 0
            self._consumer.seek(place, offsets[place.partition])
        self.moved = False
        return offsets

    def poll(self) -> list[Record]:
        found = self._consumer.poll(timeout_ms=200)
        return [(one.partition, one.offset, one.value) for records in found.values() for one in records]

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, records: Sequence[Record]) -> None:
        for index, _, value in records:
            self._producer.send(self._target, value, partition=index)

    def send_offsets(self, offsets: Mapping[int, int]) -> None:
        self._producer.send_offsets_to_transaction(
            {
                kafka.TopicPartition(self._source, index): kafka.OffsetAndMetadata(offset, "", -1)
                for index, offset in offsets.items()
            },
            self._consumer.group_metadata(),
        )

    def commit(self) -> None:
        self._producer.commit_transaction()

    def recover(self, error: Exception) -> None:
        self.moved = True
        self._producer.close(timeout=0)
        self._producer = self._new_producer()

    def close(self) -> None:
        self._consumer.close(autocommit=False)
        self._producer.close(timeout=0)


class Listener(kafka.ConsumerRebalanceListener):
    """A rebalance listener that reports every change of the assignment."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    def on_partitions_revoked(self, revoked: object) -> None:
        self._tell()

    def on_partitions_assigned(self, assigned: object) -> None:
        self._tell()


def new_topic(bootstrap: str) -> str:
    name, admin = f"t-{uuid.uuid4().hex}", AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(PATIENCE_S)
    return name


def fill(bootstrap: str, topic: str, count: int) -> list[list[bytes]]:
    """Send numbered records; return the values of each partition."""
    producer = ck.Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    values = [[b"%d" % number for number in range(index, count, PARTITIONS)] for index in range(PARTITIONS)]
    for index in range(PARTITIONS):
        for value in values[index]:
            producer.produce(topic, value, partition=index)
        assert producer.flush(4 * PATIENCE_S) == 0
    return values


def read(bootstrap: str, topic: str, partition: int) -> list[bytes]:
    """Return all values of a partition that a read_committed consumer gets."""
    consumer = ck.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([ck.TopicPartition(topic, partition, 0)])
    values: list[bytes] = []
    while not (record := consumer.poll(PATIENCE_S)).error():
        values.append(record.value())
    assert record.error().code() == ck.KafkaError._PARTITION_EOF
    consumer.close()
    return values


def check(broker: BrokerProcess, library: Callable[..., Client], records: int, kills: int, seed: int = 1) -> None:
    """Copy `records` records with two members while the broker is killed `kills` times; check that the
    copy is exact.
    """
    source, target = new_topic(broker.address), new_topic(broker.address)
    sent = fill(broker.address, source, records)
    copy(
        broker,
        [partial(library, broker.address, source, target, f"{target}-{number}") for number in range(2)],
        records,
        kills,
        seed,
    )
    assert [read(broker.address, target, index) for index in range(PARTITIONS)] == sent


CLASSIC = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 200}


@pytest.mark.timeout(240)
def test_a_copy_is_exact_although_the_broker_is_killed_ten_times(broker: BrokerProcess) -> None:
    settings = {**CLASSIC, "partition.assignment.strategy": "range"}
    check(broker, partial(ConfluentKafka, settings=settings), 100_000, 10)


@pytest.mark.timeout(120)
def test_a_copy_by_members_of_the_consumer_protocol_is_exact(broker: BrokerProcess) -> None:
    check(broker, partial(ConfluentKafka, settings={"group.protocol": "consumer"}), 20_000, 2)


def test_a_copy_by_kafka_python_is_exact(broker: BrokerProcess) -> None:
    """The broker is not killed, since kafka-python's sender waits for ever for a request whose
    connection is refused.
    """
    check(broker, KafkaPython, 10_000, 0)
