"""Three broker processes under one controller, with unmodified clients: topics, groups and transactions over all."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import NewTopic as ConfluentTopic
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic

from tests.interop.our_cluster import OurCluster

pytestmark = pytest.mark.timeout(120)
PARTITIONS = 6
READ_S_MAX = 30


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurCluster]:
    running = OurCluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield running
        assert running.stop() == [0, 0, 0]
        logs = [node.stderr.read_text() for node in running.nodes.values()]
        assert not any("Traceback" in log or "ERROR" in log for log in logs), "\n".join(logs)
    finally:
        running.kill()


def leaders(cluster: OurCluster, topic: str) -> set[int]:
    """Return the brokers that lead partitions of a topic."""
    described = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(topic, 10)
    return {partition.leader for partition in described.topics[topic].partitions.values()}


def test_confluent_kafka_uses_the_partitions_of_all_brokers_and_a_group(cluster: OurCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.nodes[2].address})
    admin.create_topics([ConfluentTopic("confluent", PARTITIONS, 1)])["confluent"].result(10)
    assert leaders(cluster, "confluent") == {1, 2, 3}
    producer = Producer({"bootstrap.servers": cluster.nodes[3].address, "acks": "all", "enable.idempotence": True})
    for number in range(600):
        producer.produce("confluent", f"{number}".encode(), partition=number % PARTITIONS)
    assert producer.flush(20) == 0
    for group in ("one", "two", "three"):  # their coordinators are spread over the brokers
        values = consumed(cluster.nodes[1].address, "confluent", group, 600)
        assert sorted(map(int, values)) == list(range(600))
        assert consumed(cluster.nodes[1].address, "confluent", group, 0) == []


def consumed(bootstrap: str, topic: str, group: str, count: int, **configs: Any) -> list[bytes]:
    """Return the values that a member of the group reads up to the ends of its partitions, and commit their offsets.

    The partitions hold `count` values that the group has not read.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            **{name.replace("_", "."): value for name, value in configs.items()},
        }
    )
    consumer.subscribe([topic])
    values: list[bytes] = []
    read: set[int | None] = set()
    deadline = time.monotonic() + READ_S_MAX
    while len(values) < count or len(read) < PARTITIONS:
        message = consumer.poll(0.2)
        assert time.monotonic() < deadline, f"{len(values)} of {count} messages"
        if message is None:
            continue
        if (error := message.error()) is None:
            values.append(message.value() or b"")
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            read.add(message.partition())
    if values:
        consumer.commit(asynchronous=False)
    consumer.close()
    return values


def test_kafka_python_uses_the_partitions_of_all_brokers_and_a_group(cluster: OurCluster) -> None:
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=cluster.nodes[3].address)) as admin:
        admin.create_topics([NewTopic("python", PARTITIONS, 1)])
    producer = KafkaProducer(bootstrap_servers=cluster.nodes[1].address, acks="all")
    sent = [producer.send("python", b"%d" % number, partition=number % PARTITIONS) for number in range(300)]
    assert {future.get(10).partition for future in sent} == set(range(PARTITIONS))
    producer.close()
    consumer = KafkaConsumer(
        "python",
        bootstrap_servers=cluster.nodes[2].address,
        group_id="python",
        auto_offset_reset="earliest",
        consumer_timeout_ms=READ_S_MAX * 1000,
    )
    with contextlib.closing(consumer):
        found = sorted(int(next(consumer).value) for _ in range(300))
    assert found == list(range(300))


def test_transactions_span_the_partitions_and_groups_of_all_brokers(cluster: OurCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.create_topics([ConfluentTopic(name, PARTITIONS, 1) for name in ("in", "out")]).values():
        future.result(10)
    plain = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(60):
        plain.produce("in", b"%d" % number, partition=number % PARTITIONS)
    assert plain.flush(20) == 0
    for name in ("a", "b", "c", "d"):  # their coordinators are spread over the brokers
        copy_in_transactions(cluster.bootstrap, name, "in", "out")
    committed = consumed(cluster.bootstrap, "out", "reader", 4 * 60, isolation_level="read_committed")
    assert sorted(committed) == sorted(
        b"%s %d" % (name, number) for name in (b"a", b"b", b"c", b"d") for number in range(60)
    )
    for name in ("a", "b", "c", "d"):
        assert consumed(cluster.bootstrap, "in", f"copy-{name}-in", 0) == []


def copy_in_transactions(bootstrap: str, name: str, source: str, target: str) -> None:
    """Copy all messages with their offsets in one committed transaction, after an aborted one."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"copy-{name}-{source}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.subscribe([source])
    messages: list[Any] = []
    deadline = time.monotonic() + READ_S_MAX
    while len(messages) < 60:
        assert time.monotonic() < deadline
        messages += consumer.consume(60 - len(messages), 0.2)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"copier-{name}-{source}"})
    producer.init_transactions(20)
    producer.begin_transaction()
    for message in messages:
        producer.produce(target, b"aborted", partition=message.partition())
    producer.flush(10)
    producer.abort_transaction(20)
    producer.begin_transaction()
    for message in messages:
        producer.produce(target, name.encode() + b" " + (message.value() or b""), partition=message.partition())
    producer.send_offsets_to_transaction(
        consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), 20
    )
    producer.commit_transaction(20)
    consumer.close()


def test_a_killed_broker_comes_back_with_its_partitions(cluster: OurCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.nodes[1].address})
    admin.create_topics([ConfluentTopic("killed", PARTITIONS, 1)])["killed"].result(10)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(60):
        producer.produce("killed", b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(20) == 0
    cluster.nodes[3].restart()
    assert sorted(map(int, consumed(cluster.bootstrap, "killed", "after", 60))) == list(range(60))
