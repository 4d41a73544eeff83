"""The broker of tests with real clients: restart, clear, forks and a parent's end, in a thread and in a process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from pykbroker.core.errors import StartError
from pykbroker.testing import RunningBroker, running_broker
from tests.interop.scenarios import eventually, eventually_equal

QUIET = {"log_level": 0}
KINDS = pytest.mark.parametrize("process", [False, True], ids=["thread", "process"])


def send(broker: RunningBroker, topic: str, value: bytes = b"v", producer: Producer | None = None) -> int:
    """Return the offset of a new record."""
    offsets: list[int] = []
    producer = producer or Producer({"bootstrap.servers": broker.bootstrap, **QUIET})
    producer.produce(topic, value, on_delivery=lambda error, record: offsets.append(record.offset()))
    assert producer.flush(20) == 0
    return offsets[0]


@contextmanager
def consumer_of(broker: RunningBroker, group: str) -> Iterator[Consumer]:
    config = {"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest", **QUIET}
    consumer = Consumer({**config, "heartbeat.interval.ms": 200, "fetch.wait.max.ms": 10})
    yield consumer
    consumer.close()


def consume(broker: RunningBroker, topic: str, group: str, count: int) -> list[bytes]:
    """Return the values of `count` records, and commit their offsets."""
    with consumer_of(broker, group) as consumer:
        consumer.subscribe([topic])
        values = [record.value() for record in consumer.consume(count, 20)]
        consumer.commit(asynchronous=False)
        return values


def committed(broker: RunningBroker, topic: str, group: str) -> int:
    """Return the committed offset of partition 0, or a negative number."""
    with consumer_of(broker, group) as consumer:
        return int(consumer.committed([TopicPartition(topic, 0)], 20)[0].offset)


def topics(broker: RunningBroker) -> dict[str, int]:
    """Return the number of partitions of each topic."""
    found = AdminClient({"bootstrap.servers": broker.bootstrap, **QUIET}).list_topics(timeout=10).topics
    return {name: len(topic.partitions) for name, topic in found.items()}


def ids(broker: RunningBroker) -> dict[str, str]:
    """Return the id of each topic: a topic that was deleted and created again has another one."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, **QUIET})
    found = admin.describe_topics(TopicCollection(list(topics(broker))))
    return {name: str(topic.result(10).topic_id) for name, topic in found.items()}


@KINDS
def test_a_restart_keeps_port_topics_records_and_offsets(process: bool) -> None:
    with running_broker(topics=["t", "gone"], process=process) as broker:
        address = broker.bootstrap
        send(broker, "t")
        assert consume(broker, "t", "g", 1) == [b"v"]
        broker.delete(["gone"])
        broker.restart()
        assert broker.bootstrap == address
        assert {name for name in topics(broker) if not name.startswith("__")} == {"t"}
        assert send(broker, "t", b"w") == 1
        assert committed(broker, "t", "g") == 1
        assert consume(broker, "t", "g", 1) == [b"w"]


@KINDS
def test_a_client_reconnects_after_an_outage(process: bool) -> None:
    with running_broker(topics=["t"], process=process) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, **QUIET})
        producer.produce("t", b"v")
        assert producer.flush(10) == 0
        broker.stop()
        broker.stop()
        producer.produce("t", b"w")
        assert producer.flush(0.3) == 1
        broker.restart()
        assert producer.flush(20) == 0
        assert consume(broker, "t", "g", 2) == [b"v", b"w"]


@KINDS
def test_a_data_directory_keeps_data_for_the_next_broker(process: bool, tmp_path: Path) -> None:
    with running_broker(topics={"t": 2}, process=process, data_dir=tmp_path) as broker:
        assert send(broker, "t") == 0
        with pytest.raises(StartError) as refused, running_broker(process=process, data_dir=tmp_path):
            pass
        assert "name another directory with data_dir=" in str(refused.value)
    with running_broker(process=process, data_dir=tmp_path) as broker:
        assert topics(broker)["t"] == 2
        assert consume(broker, "t", "g", 1) == [b"v"]


@KINDS
def test_a_port_in_use_is_refused_with_the_option_that_names_it(process: bool) -> None:
    with running_broker() as broker:
        with pytest.raises(StartError) as refused, running_broker(port=broker.port, process=process):
            pass
        assert f"port {broker.port} on 127.0.0.1 is in use" in str(refused.value)
        assert "choose a port with port= (0 takes any free one)" in str(refused.value)


@KINDS
def test_clear_deletes_topics_groups_and_transactions_while_clients_stay_connected(process: bool) -> None:
    with running_broker(topics={"t": 2}, process=process) as broker:
        own = broker.topic()
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "x", **QUIET})
        producer.init_transactions(10)
        producer.begin_transaction()
        producer.produce("t", b"open")
        assert send(broker, own) == 0
        assert consume(broker, own, "g", 1) == [b"v"]
        before = ids(broker)
        assert before.keys() == {"t", own, "__consumer_offsets", "__transaction_state"}
        broker.clear()
        left = topics(broker)
        assert left["t"] == 2
        assert left.keys() <= {"t", "__transaction_state"}, "the producer may look for its coordinator again"
        assert not set(before.values()) & set(ids(broker).values())
        assert AdminClient({"bootstrap.servers": broker.bootstrap, **QUIET}).list_consumer_groups().result().valid == []
        assert committed(broker, own, "g") == OFFSET_INVALID
        with pytest.raises(KafkaException):
            producer.commit_transaction(10)
        again = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "x", **QUIET})
        again.init_transactions(10)
        again.begin_transaction()
        again.produce("t", b"committed", partition=0)
        again.commit_transaction(10)
        assert consume(broker, "t", "g", 1) == [b"committed"]


def test_a_consumer_joins_its_group_again_after_clear() -> None:
    with running_broker(topics=["t"]) as broker, consumer_of(broker, "g") as consumer:
        consumer.subscribe(["t"])
        for value in (b"a", b"b"):
            send(broker, "t", value)
            eventually_equal(lambda: (record := consumer.poll(0.2)) and record.value(), value)
            consumer.commit(asynchronous=False)
            broker.clear()


@contextmanager
def forked(broker: RunningBroker) -> Iterator[str]:
    """Fork a process that creates a topic and leaves the block of its parent's broker; yield the topic's name.

    The process lives until the block ends.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it is the fork beside threads that is tested
        child = os.fork()
    if not child:
        try:
            os.write(writing, broker.topic().encode())
            broker.close()
            with pytest.raises(RuntimeError, match="only process"):
                broker.stop()
        finally:
            os.close(writing)
            signal.pause()
    os.close(writing)
    try:
        with os.fdopen(reading) as name:
            yield name.read()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@KINDS
def test_a_forked_process_uses_the_broker_and_does_not_keep_its_port(process: bool) -> None:
    with running_broker(process=process) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, **QUIET})
        with forked(broker) as name:
            assert name in topics(broker)
            assert send(broker, name, producer=producer) == 0
            broker.restart()
            assert send(broker, name, producer=producer) == 1
            broker.stop()
            with pytest.raises(ConnectionError, match="no broker listens on 127.0.0.1:.*restart"):
                broker.topic()
            with running_broker(port=broker.port) as other:
                assert send(other, other.topic()) == 0


ORPHAN = """
import os
import sys
import time

from pykbroker.testing import running_broker

with running_broker(process=True) as broker:
    if os.fork() == 0:
        os.close(1)
        time.sleep(60)
        os._exit(0)
    print(broker.port, flush=True)
    sys.stdin.read()
"""


def test_the_process_of_a_broker_ends_with_its_parent(tmp_path: Path) -> None:
    environ = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    parent = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", ORPHAN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environ,
        start_new_session=True,
    )
    try:
        port = int(parent.stdout.readline())
        assert list(tmp_path.iterdir())
        parent.kill()
        parent.wait()
        eventually(lambda: not list(tmp_path.iterdir()))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.stdin.close()
        parent.stdout.close()
