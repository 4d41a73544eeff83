"""The cluster of tests with real clients: kills, stops, pauses, restarts, clear, and a parent's end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from pykbroker.core.errors import StartError
from pykbroker.testing import RunningCluster, running_cluster
from tests.interop.scenarios import eventually

QUIET = {"log_level": 0}
PATIENCE_S = 20
SHORT_SESSIONS = {"broker.session.timeout.ms": 4000, "broker.heartbeat.interval.ms": 500}
"""A broker that was killed beside its controller registers again once its old session has timed out, by default 9 s."""


@pytest.fixture(scope="module")
def shared() -> Iterator[RunningCluster]:
    with running_cluster(3, topics={"t": 6}, configs=SHORT_SESSIONS) as running:
        yield running


@pytest.fixture
def cluster(shared: RunningCluster) -> Iterator[RunningCluster]:
    """Return a cluster of three brokers that run at the begin of each test."""
    yield shared
    shared.heal()
    shared.clear()


def producer_of(cluster: RunningCluster) -> Producer:
    return Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, **QUIET})


def send(producer: Producer, topic: str, count: int) -> None:
    """Send records to all six partitions, and check that each is acknowledged."""
    errors: list[object] = []
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=number % 6, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert errors == [None] * count


def consume(cluster: RunningCluster, topic: str, count: int) -> int:
    """Return how many different values a new group reads, at most `count`."""
    config = {"bootstrap.servers": cluster.bootstrap, "group.id": f"g{time.monotonic_ns()}", **QUIET}
    consumer = Consumer({**config, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 10})
    consumer.subscribe([topic])
    values = {record.value() for record in consumer.consume(count, PATIENCE_S)}
    consumer.close()
    return len(values)


def leaders(cluster: RunningCluster, topic: str) -> set[int]:
    return {cluster.leader(topic, index) for index in range(6)}


def test_topics_have_three_replicas_and_leaders_on_all_brokers(cluster: RunningCluster) -> None:
    assert cluster.brokers == (1, 2, 3)
    assert len(cluster.bootstrap.split(",")) == 3
    assert cluster.address(2) in cluster.bootstrap
    assert leaders(cluster, "t") == {1, 2, 3}
    own = cluster.topic(replicas=1)
    assert cluster.isr("t") == [1, 2, 3]
    assert cluster.isr(own) == [cluster.leader(own)]
    found = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET}).list_topics("t", PATIENCE_S)
    assert {len(one.replicas) for one in found.topics["t"].partitions.values()} == {3}


@pytest.mark.parametrize("broker", [2, 3])
def test_records_are_sent_while_a_broker_is_killed_and_after_its_return(cluster: RunningCluster, broker: int) -> None:
    producer = producer_of(cluster)
    send(producer, "t", 60)
    cluster.kill(broker)
    send(producer, "t", 60)
    assert leaders(cluster, "t") == {1, 2, 3} - {broker}
    assert broker not in cluster.isr("t")
    address = cluster.address(broker)
    cluster.restart(broker)
    cluster.wait_in_sync()
    assert cluster.address(broker) == address
    assert cluster.isr("t") == [1, 2, 3]
    assert consume(cluster, "t", 120) == 60


def test_a_stopped_broker_hands_its_leaderships_over(cluster: RunningCluster) -> None:
    cluster.stop(3)
    cluster.stop(3)
    assert leaders(cluster, "t") == {1, 2}
    send(producer_of(cluster), "t", 12)
    cluster.restart(3)
    cluster.wait_in_sync()
    assert consume(cluster, "t", 12) == 12


def test_partitions_are_served_while_the_controller_is_killed(cluster: RunningCluster) -> None:
    topic = next(name for name in (cluster.topic() for _ in range(6)) if cluster.leader(name) != cluster.controller)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": 1, **QUIET})
    cluster.kill(cluster.controller)
    errors: list[object] = []
    producer.produce(topic, b"v", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert errors == [None]
    cluster.restart(cluster.controller)
    cluster.wait_in_sync()
    assert consume(cluster, topic, 1) == 1


def test_a_paused_broker_answers_again_after_resume(cluster: RunningCluster) -> None:
    topic = cluster.topic(partitions=6, replicas=1)
    led = next(index for index in range(6) if cluster.leader(topic, index) == 2)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **QUIET})
    cluster.pause(2)
    producer.produce(topic, b"v", partition=led)
    assert producer.flush(0.5) == 1
    cluster.resume(2)
    assert producer.flush(PATIENCE_S) == 0


def test_heal_starts_and_resumes_all_brokers(cluster: RunningCluster) -> None:
    cluster.kill(1)
    cluster.stop(2)
    cluster.pause(3)
    cluster.heal()
    assert cluster.isr("t") == [1, 2, 3]
    send(producer_of(cluster), "t", 12)


def test_clear_deletes_topics_and_groups_and_creates_the_topics_of_the_options(cluster: RunningCluster) -> None:
    own = cluster.topic()
    producer = producer_of(cluster)
    send(producer, "t", 6)
    assert consume(cluster, "t", 6) == 6
    cluster.clear()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
    assert set(admin.list_topics(timeout=PATIENCE_S).topics) == {"t"}
    assert own != "t"
    assert admin.list_consumer_groups().result(PATIENCE_S).valid == []
    assert len(leaders(cluster, "t")) == 3
    send(producer_of(cluster), "t", 6)


def test_all_brokers_restart_with_their_data(tmp_path: Path) -> None:
    with running_cluster(2, topics={"t": 6}, data_dir=tmp_path) as cluster:
        send(producer_of(cluster), "t", 12)
        cluster.restart()
        cluster.wait_in_sync()
        assert consume(cluster, "t", 12) == 12
    assert {path.name for path in tmp_path.iterdir()} == {"1", "2"}
    with running_cluster(2, data_dir=tmp_path) as cluster:
        assert consume(cluster, "t", 12) == 12


def test_calls_that_cannot_succeed_are_refused_in_a_sentence(cluster: RunningCluster) -> None:
    with pytest.raises(ValueError, match="there is no broker 4: the cluster has 1, 2, 3"):
        cluster.kill(4)
    with pytest.raises(ValueError, match="t has no partition 6"):
        cluster.leader("t", 6)
    for broker in cluster.brokers:
        cluster.kill(broker)
    with pytest.raises(ConnectionError, match="`restart` starts it again"):
        cluster.topic()


def test_options_are_refused_in_a_sentence() -> None:
    for options, sentence in (
        ({"brokers": 0}, "brokers is 0: write a number from 1 to 20"),
        ({"brokers": 2, "replicas": 3}, "replicas is 3: write a number from 1 to 2"),
        ({"configs": {"node.id": 5}}, "node.id cannot be set for a whole cluster"),
    ):
        with pytest.raises(StartError, match=sentence), running_cluster(**options):
            pass


ORPHAN = """
import time
from pykbroker.testing import running_cluster
with running_cluster(3) as cluster:
    print(cluster.bootstrap, flush=True)
    time.sleep(600)
"""


def test_the_brokers_of_a_cluster_end_with_their_parent(tmp_path: Path) -> None:
    environ = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-W", "ignore", "-c", ORPHAN]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, env=environ, start_new_session=True)
    try:
        assert parent.stdout is not None
        assert parent.stdout.readline().count(b":") == 3
        assert list(tmp_path.iterdir())
        parent.kill()
        parent.wait()
        eventually(lambda: not list(tmp_path.iterdir()))
    finally:
        parent.stdout.close()
        try:
            os.killpg(parent.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
