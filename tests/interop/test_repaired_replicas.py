"""Replicas that a broker replaces at its start: those of a topic that was created again meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from pykbroker.storage.directory.damaged_logs import DAMAGED
from pykbroker.testing import RunningCluster, running_cluster

PATIENCE_S = 20
COUNT = 50
FOLLOWER = 3


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    with running_cluster(3, data_dir=tmp_path) as running:
        yield running


def fill(cluster: RunningCluster, topic: str, count: int = COUNT) -> None:
    """Send records that all replicas in sync acknowledge."""
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0, "linger.ms": 0})
    for number in range(count):
        producer.produce(topic, b"%d" % number * 100, on_delivery=lambda error, _: errors.append(error))
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    assert errors == [None] * count


def content(directory: Path) -> bytes:
    """Return the batches of a replica."""
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def asides(directory: Path) -> list[Path]:
    """Return the directories of this replica that are set aside."""
    return list(directory.parent.glob(f"{directory.name}.*-stray"))


def test_a_topic_that_is_created_again_while_a_broker_is_stopped_has_a_new_replica_there(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    topic = cluster.topic()
    fill(cluster, topic)
    own = tmp_path / str(FOLLOWER) / f"{topic}-0"
    before = content(own)
    cluster.stop(FOLLOWER)
    cluster.delete([topic])
    cluster.topic(topic)
    fill(cluster, topic, 3)
    cluster.restart(FOLLOWER)
    cluster.wait_in_sync()
    assert cluster.isr(topic) == [1, 2, 3]
    assert len(content(own)) < len(before)
    assert len({content(tmp_path / str(broker) / own.name) for broker in cluster.brokers}) == 1
    (aside,) = asides(own)
    assert content(aside) == before
    assert not (aside / DAMAGED).exists()
