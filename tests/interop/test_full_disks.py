"""A broker with a full disk beside healthy ones, under our controller and under that of Apache Kafka."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop import failing_disk
from tests.interop.cluster_judge import content, wait_in_sync
from tests.interop.kafka_cluster import KafkaCluster
from tests.interop.mixed_cluster import our_broker
from tests.interop.our_cluster import REPLICATED, SETTINGS, OurCluster
from tools.broker_process import BrokerProcess

FULL = 4
"""The id of the broker whose disk fills up."""
MESSAGES = 50
WRITES_S_MAX = 60.0
"""The time in seconds in which everything is acknowledged, and in which all replicas have it."""


class FullDisk(NamedTuple):
    """A cluster, the broker with the disk, and the file that makes it full. `others` are the directories of others.

    A leader of Kafka waits replica.lag.time.max.ms for a replica that has left the ISR, so that `acks` is 1 there.
    """

    bootstrap: str
    broker: BrokerProcess
    errno: Path
    others: dict[int, Path]
    acks: str

    @property
    def directory(self) -> Path:
        return self.errno.with_name("data")


def begin(work: Path, controllers: str, others: str, directories: dict[int, Path], acks: str) -> FullDisk:
    """Start the broker whose disk may fill up."""
    errno = work / "errno"
    broker = our_broker(work, FULL, controllers, (sys.executable, failing_disk.__file__, str(errno)))
    return FullDisk(f"{others},{broker.address}", broker, errno, directories, acks)


@pytest.fixture
def under_kafka(kafka_nodes: KafkaCluster, tmp_path: Path) -> Iterator[FullDisk]:
    others = ",".join(f"{host}:{port}" for host, port in kafka_nodes.bootstrap)
    found = begin(
        tmp_path, kafka_nodes.controllers, others, {each: kafka_nodes.directory(each) for each in (1, 2)}, "1"
    )
    try:
        yield found
        assert found.broker.stop() == 0
    finally:
        found.broker.kill()


@pytest.fixture
def under_ours(tmp_path: Path) -> Iterator[FullDisk]:
    (tmp_path / "full").mkdir()
    ours = OurCluster(tmp_path, 2, (*SETTINGS, *REPLICATED))
    found: FullDisk | None = None
    try:
        directories = {each: ours.directory(each) for each in ours.nodes}
        found = begin(tmp_path / "full", ours.controller, ours.bootstrap, directories, "all")
        yield found
        assert found.broker.stop() == 0
        assert ours.stop() == [0, 0]
    finally:
        if found is not None:
            found.broker.kill()
        ours.kill()


@pytest.fixture(params=["under_ours", "under_kafka"])
def full(request: pytest.FixtureRequest) -> FullDisk:
    """Return a cluster under each kind of controller."""
    found: FullDisk = request.getfixturevalue(request.param)
    return found


def produce(producer: Producer, topic: str) -> None:
    """Produce MESSAGES records, and check that all are acknowledged in time."""
    failed: list[Any] = []
    for number in range(MESSAGES):
        producer.produce(topic, b"%d" % number, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(WRITES_S_MAX) == 0
    assert failed == []


def leader_of(full: FullDisk, topic: str) -> int:
    """Return the leader that a healthy broker names."""
    admin = AdminClient({"bootstrap.servers": full.bootstrap.partition(",")[0]})
    leader: int = admin.list_topics(topic, timeout=10).topics[topic].partitions[0].leader
    return leader


def test_a_full_disk_hands_its_leadership_over_and_returns_without_being_fetched_anew(full: FullDisk) -> None:
    topic, replicas = "full", [FULL, 1, 2]
    admin = AdminClient({"bootstrap.servers": full.bootstrap})
    new_topic = NewTopic(topic, 1, replica_assignment=[replicas], config={"min.insync.replicas": "2"})
    admin.create_topics([new_topic])[topic].result(20)
    wait_in_sync(full.bootstrap)
    producer = Producer({"bootstrap.servers": full.bootstrap, "acks": full.acks})
    produce(producer, topic)
    assert leader_of(full, topic) == FULL
    full.errno.write_text("ENOSPC pwrite")
    produce(producer, topic)
    assert leader_of(full, topic) != FULL
    full.errno.unlink()
    wait_in_sync(full.bootstrap)
    produce(producer, topic)
    directories = [full.directory, *full.others.values()]
    deadline = time.monotonic() + WRITES_S_MAX
    while len({content(each / f"{topic}-0") for each in directories}) != 1:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not list(full.directory.glob("*-stray"))
    assert "Traceback" not in full.broker.stderr.read_text()
