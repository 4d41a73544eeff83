"""Replicas that a broker replaces at its start: damaged, missing, or of a topic that was created again meanwhile."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from pykbroker.core.ids import LOST
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.storage.directory.damaged_logs import ANEW, DAMAGED
from pykbroker.storage.files.partition_directory import METADATA
from pykbroker.storage.files.partition_directory import decode_metadata as decode_directory
from pykbroker.testing import RunningCluster, running_cluster
from tests.interop.scenarios import eventually
from wire.records.batch import batches
from wire.records.record import records
from wire.stored.metadata import decode_metadata
from wire.stored.metadata_topics import PartitionChangeRecord

PATIENCE_S = 20
COUNT = 50
CONTROLLER, LEADER, FOLLOWER = 1, 2, 3
CONFIGS = {"broker.session.timeout.ms": 120_000}
"""A paused leader keeps its session, so that no other replica takes over while a test looks at a repair."""


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def shared(data_dir: Path) -> Iterator[RunningCluster]:
    with running_cluster(3, configs=CONFIGS, data_dir=data_dir) as running:
        yield running


@pytest.fixture
def cluster(shared: RunningCluster) -> Iterator[RunningCluster]:
    """Return a cluster of three brokers that run at the begin of each test."""
    yield shared
    shared.heal()


def led_place(cluster: RunningCluster) -> TopicPartition:
    """Create a topic, and return its partition that is led by LEADER and followed by the others."""
    topic = cluster.topic(partitions=3)
    return next(TopicPartition(topic, index) for index in range(3) if cluster.leader(topic, index) == LEADER)


def fill(cluster: RunningCluster, place: TopicPartition, count: int = COUNT) -> None:
    """Send records that all replicas in sync acknowledge."""
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0, "linger.ms": 0})
    for number in range(count):
        value = b"%d" % number * 100
        producer.produce(
            place.topic, value, partition=place.partition, on_delivery=lambda error, _: errors.append(error)
        )
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    assert errors == [None] * count


def content(directory: Path) -> bytes:
    """Return the batches of a replica."""
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def asides(directory: Path) -> list[Path]:
    """Return the directories of this replica that are set aside."""
    return list(directory.parent.glob(f"{directory.name}.*-stray"))


def reported(data_dir: Path, place: TopicPartition) -> list[bytes]:
    """Return the log directories of a topic's replicas that the metadata log has in changes."""
    topic_id = decode_directory((data_dir / str(CONTROLLER) / str(place) / METADATA).read_bytes())
    found: list[bytes] = []
    for path in (data_dir / str(CONTROLLER) / "__cluster_metadata-0").glob("*.log"):
        for batch in batches(path.read_bytes()):
            for record in () if batch.is_control else records(batch, 1 << 20):
                change = decode_metadata(record.value or b"")
                if isinstance(change, PartitionChangeRecord) and change.topic_id == topic_id:
                    found += change.directories or ()
    return found


@pytest.mark.parametrize("is_missing", [False, True], ids=["damaged", "missing"])
def test_a_replica_that_is_damaged_while_its_broker_is_stopped_is_fetched_anew(
    cluster: RunningCluster, data_dir: Path, is_missing: bool
) -> None:
    place = led_place(cluster)
    fill(cluster, place)
    replicas = {broker: data_dir / str(broker) / str(place) for broker in cluster.brokers}
    own = replicas[FOLLOWER]
    before = content(own)
    cluster.stop(FOLLOWER)
    if is_missing:
        shutil.rmtree(own)
    else:
        os.truncate(max(own.glob("*.log")), 100)
        before = content(own)
    cluster.pause(LEADER)
    cluster.restart(FOLLOWER)
    eventually(lambda: (own / ANEW).exists())
    assert cluster.isr(*place) == [CONTROLLER, LEADER]
    assert LOST in reported(data_dir, place)
    assert content(own) == b""
    if not is_missing:
        (aside,) = asides(own)
        assert (aside / DAMAGED).exists()
        assert content(aside) == before
    cluster.resume(LEADER)
    cluster.wait_in_sync()
    fill(cluster, place, 1)
    eventually(lambda: not (own / ANEW).exists() and not asides(own))
    found = {broker: content(replica) for broker, replica in replicas.items()}
    assert len(found[LEADER]) > len(before)
    assert found[FOLLOWER] == found[LEADER] == found[CONTROLLER]


def test_a_topic_that_is_created_again_while_a_broker_is_stopped_has_a_new_replica_there(
    cluster: RunningCluster, data_dir: Path
) -> None:
    place = TopicPartition(cluster.topic(), 0)
    fill(cluster, place)
    own = data_dir / str(FOLLOWER) / str(place)
    before = content(own)
    cluster.stop(FOLLOWER)
    cluster.delete([place.topic])
    cluster.topic(place.topic)
    fill(cluster, place, 3)
    cluster.restart(FOLLOWER)
    cluster.wait_in_sync()
    assert cluster.isr(place.topic) == [CONTROLLER, LEADER, FOLLOWER]
    assert len(content(own)) < len(before)
    assert len({content(data_dir / str(broker) / own.name) for broker in cluster.brokers}) == 1
    (aside,) = asides(own)
    assert content(aside) == before
    assert not (aside / DAMAGED).exists()
