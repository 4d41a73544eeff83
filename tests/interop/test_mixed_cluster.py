"""A broker of pykbroker under Apache Kafka's controller, and a broker of Apache Kafka under ours."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.mixed_cluster import KafkaNode, cluster_id_of, our_node
from tests.interop.test_cluster import PARTITIONS, consumed, copy_in_transactions
from tools.bench import peers
from tools.broker_process import BrokerProcess

pytestmark = pytest.mark.timeout(180)
MESSAGES = 60


def exchange(bootstraps: list[str]) -> None:
    """Write to and read from the partitions of both brokers in groups and transactions, each begun at one of them."""
    for place, bootstrap in enumerate(bootstraps):
        admin = AdminClient({"bootstrap.servers": bootstrap})
        topics = [f"in{place}", f"out{place}"]
        for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in topics]).values():
            future.result(20)
        described = admin.list_topics(topics[0], 10).topics[topics[0]].partitions.values()
        assert {partition.leader for partition in described} == {1, 2}
        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})
        for number in range(MESSAGES):
            producer.produce(topics[0], b"%d" % number, partition=number % PARTITIONS)
        assert producer.flush(20) == 0
        for group in ("one", "two", "three", "four"):
            values = consumed(bootstrap, topics[0], f"{group}{place}", MESSAGES)
            assert sorted(map(int, values)) == list(range(MESSAGES))
        for name in ("a", "b", "c"):
            copy_in_transactions(bootstrap, name, *topics)
        copies = consumed(bootstrap, topics[1], f"copies{place}", 3 * MESSAGES, isolation_level="read_committed")
        assert sorted(copies) == sorted(
            b"%s %d" % (name, number) for name in (b"a", b"b", b"c") for number in range(MESSAGES)
        )


def test_a_broker_of_pykbroker_serves_under_kafkas_controller(tmp_path: Path, kafka_jars: Path) -> None:
    controller = f"127.0.0.1:{peers.free_port()}"
    kafka = KafkaNode(tmp_path, kafka_jars, 1, controller)
    ours: BrokerProcess | None = None
    try:
        kafka.wait_serving()
        ours = our_node(tmp_path, 2, controller, leads=False)
        exchange([kafka.address, ours.address])
        assert ours.stop() == 0
    finally:
        if ours is not None:
            ours.kill()
        kafka.stop()


def test_a_broker_of_kafka_serves_under_the_controller_of_pykbroker(tmp_path: Path, kafka_jars: Path) -> None:
    controller = f"127.0.0.1:{peers.free_port()}"
    ours = our_node(tmp_path, 1, controller, leads=True)
    kafka: KafkaNode | None = None
    try:
        kafka = KafkaNode(tmp_path, kafka_jars, 2, controller, cluster_id_of(ours))
        kafka.wait_serving()
        exchange([ours.address, kafka.address])
        kafka.stop()
        assert ours.stop() == 0
    finally:
        ours.kill()
        if kafka is not None:
            kafka.stop()
