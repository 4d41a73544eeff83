"""kafka-reassign-partitions with a throttle, against three brokers: it limits the rate, and `--verify` removes it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from tests.interop.java_tools import ToolsJvm
from tests.interop.our_cluster import SETTINGS, OurCluster

pytestmark = pytest.mark.timeout(180)
TOPIC = "throttled"
BYTES, BYTES_PER_S = 2 << 20, 1 << 20
RESPONSE_BYTES = 256 << 10
FETCHES = (f"replica.fetch.max.bytes={RESPONSE_BYTES}", f"replica.fetch.response.max.bytes={RESPONSE_BYTES}")
RATES = {"leader.replication.throttled.rate", "follower.replication.throttled.rate"}
LISTS = {"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}
MOVED_S_MAX = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurCluster]:
    running = OurCluster(tmp_path_factory.mktemp("cluster"), settings=(*SETTINGS, *FETCHES))
    try:
        yield running
        assert running.stop() == [0, 0, 0]
    finally:
        running.kill()


def overridden(admin: AdminClient, kind: ConfigResource.Type, name: str) -> dict[str, str]:
    """Return the dynamic configs of throttles that are set for a topic or broker."""
    resource = ConfigResource(kind, name)
    found = admin.describe_configs([resource])[resource].result(10)
    return {name: entry.value for name, entry in found.items() if name in RATES | LISTS and entry.value}


def test_a_reassignment_keeps_to_its_throttle_and_verify_removes_it(
    cluster: OurCluster, java: str, kafka_jars: Path, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, replica_assignment=[[1]])])[TOPIC].result(10)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for _ in range(BYTES >> 12):
        producer.produce(TOPIC, bytes(1 << 12), partition=0)
    assert producer.flush(30) == 0
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": TOPIC, "partition": 0, "replicas": [2, 3]}]}))
    place = ["--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(plan)]
    with ToolsJvm(java, kafka_jars, tmp_path) as tools:
        began = time.monotonic()
        output = tools.run("kafka-reassign-partitions", [*place, "--execute", "--throttle", str(BYTES_PER_S)])
        assert "The inter-broker throttle limit was set to 1048576 B/s" in output
        assert f"Successfully started partition reassignment for {TOPIC}-0" in output
        for node_id in (1, 2, 3):
            rates = overridden(admin, ConfigResource.Type.BROKER, str(node_id))
            assert rates == dict.fromkeys(RATES, str(BYTES_PER_S))
        assert overridden(admin, ConfigResource.Type.TOPIC, TOPIC) == {
            "leader.replication.throttled.replicas": "0:1",
            "follower.replication.throttled.replicas": "0:2,0:3",
        }
        while f"Reassignment of partition {TOPIC}-0 is completed." not in output:
            assert time.monotonic() - began < MOVED_S_MAX, output
            output = tools.run("kafka-reassign-partitions", [*place, "--verify"])
    # The leader sends each byte to two followers. Two responses may pass before the quota is exceeded.
    assert time.monotonic() - began > (2 * BYTES - 4 * RESPONSE_BYTES) / BYTES_PER_S
    assert "Clearing broker-level throttles on brokers 1,2,3" in output
    assert f"Clearing topic-level throttles on topic {TOPIC}" in output
    for node_id in (1, 2, 3):
        assert overridden(admin, ConfigResource.Type.BROKER, str(node_id)) == {}
    assert overridden(admin, ConfigResource.Type.TOPIC, TOPIC) == {}
    assert set(replicas(admin)) == {2, 3}


def replicas(admin: AdminClient) -> list[int]:
    """Return the brokers that have a replica of the partition."""
    return list(admin.list_topics(TOPIC, 10).topics[TOPIC].partitions[0].replicas)
