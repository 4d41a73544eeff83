"""Unmodified consumers of a partition that moves to another broker while they read it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.our_cluster import OurCluster
from tests.interop.raw_client import RawClient
from tests.interop.scenarios import eventually, eventually_equal
from tests.interop.test_confluent_kafka import ConfluentMember
from tests.interop.test_kafka_python import KafkaPythonMember
from tests.interop.test_mixed_groups import JavaMember
from wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)

pytestmark = pytest.mark.timeout(120)
TOPIC, COUNT = "moved", 20


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[OurCluster]:
    running = OurCluster(tmp_path, 2)
    try:
        yield running
    finally:
        running.kill()


def produce(address: str) -> None:
    producer = Producer({"bootstrap.servers": address})
    for number in range(COUNT):
        producer.produce(TOPIC, b"%d" % number)
    assert producer.flush(20) == 0


def move(cluster: OurCluster, broker: int) -> None:
    """Move the only partition to a broker, and wait until the other one has deleted its replica."""
    asked = ReassignableTopic(TOPIC, [ReassignablePartition(0, [broker])])
    with RawClient(cluster.nodes[1].address) as client:
        answer = client.call(AlterPartitionReassignmentsResponse, AlterPartitionReassignmentsRequest(topics=[asked]), 0)
    assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (0, 0)
    admin = AdminClient({"bootstrap.servers": cluster.nodes[1].address})
    eventually_equal(lambda: admin.list_topics(TOPIC, 10).topics[TOPIC].partitions[0].replicas, [broker])
    eventually(lambda: not (cluster.directory(3 - broker) / f"{TOPIC}-0").exists())


def read_newest(member: Any, count: int) -> None:
    """Poll until the member has read the last records of `count` that were produced."""
    found: set[int] = set()

    def has_all() -> bool:
        found.update(offset for _, offset in member.poll())
        return found == set(range(count - COUNT, count))

    eventually(has_all)


@pytest.mark.parametrize("kind", [JavaMember, ConfluentMember, KafkaPythonMember])
def test_a_consumer_follows_its_partition_to_another_broker(
    cluster: OurCluster, kafka_jars: Path, tmp_path: Path, kind: Any
) -> None:
    address = cluster.nodes[1].address
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(TOPIC, 1, replica_assignment=[[2]])])[TOPIC].result(10)
    produce(address)
    arguments = (kafka_jars, tmp_path, address, TOPIC, "g", "range") if kind is JavaMember else (address, TOPIC, "g")
    with closing(kind(*arguments)) as member:
        read_newest(member, COUNT)
        move(cluster, 1)
        produce(address)
        read_newest(member, 2 * COUNT)
