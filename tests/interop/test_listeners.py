"""Tests of a broker with several listeners: each client gets the advertised addresses of its own listener."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from tools.broker_process import PYKBROKER, BrokerProcess

START_S_MAX = 30
BROKER_HOST, CLIENT_HOST = "10.87.31.1", "10.87.31.2"
SEND_AND_READ = """
import json, sys
from kafka import KafkaConsumer, KafkaProducer, KafkaAdminClient
bootstrap, topic = sys.argv[1:]
producer = KafkaProducer(bootstrap_servers=bootstrap)
producer.send(topic, b"from elsewhere").get(10)
producer.close()
consumer = KafkaConsumer(
    topic, bootstrap_servers=bootstrap, group_id="elsewhere", auto_offset_reset="earliest", consumer_timeout_ms=10_000
)
values = [next(consumer).value.decode()]
consumer.close()
brokers = KafkaAdminClient(bootstrap_servers=bootstrap).describe_cluster()["brokers"]
print(json.dumps([values, [[broker["host"], broker["port"]] for broker in brokers]]))
"""
"""A program for another network namespace: it sends a message, reads it in a group, and prints it and the brokers."""


def brokers(bootstrap: str) -> list[tuple[str, int]]:
    """Return the broker addresses that a client of this bootstrap server gets."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        return [(broker["host"], broker["port"]) for broker in admin.describe_cluster()["brokers"]]
    finally:
        admin.close()


def listeners(broker: BrokerProcess) -> dict[str, str]:
    """Map the name of each listener to HOST:PORT."""
    return {name: str(address) for name, address in broker.announced.listeners.items()}


def exchange(writes: str, reads: str, topic: str) -> None:
    """Send a message through one address, and read it in a group through another."""
    producer = KafkaProducer(bootstrap_servers=writes)
    producer.send(topic, writes.encode()).get(10)
    producer.close()
    consumer: Any = KafkaConsumer(
        topic, bootstrap_servers=reads, group_id=topic, auto_offset_reset="earliest", consumer_timeout_ms=10_000
    )
    assert next(consumer).value == writes.encode()
    consumer.close()


def test_clients_of_each_listener_get_its_advertised_address(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker("--memory", "--listen", "EXTERNAL=127.0.0.2:0", "--topic", "a:1", "--topic", "b:1")
    found = listeners(broker)
    assert found["PLAINTEXT"] == broker.address
    assert found["EXTERNAL"].startswith("127.0.0.2:")
    for address in found.values():
        host, port = address.split(":")
        assert brokers(address) == [(host, int(port))]
    exchange(found["PLAINTEXT"], found["EXTERNAL"], "a")
    exchange(found["EXTERNAL"], found["PLAINTEXT"], "b")


def test_a_broker_starts_with_the_listeners_of_a_container_in_a_properties_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "node.id=1\nprocess.roles=broker,controller\ncontroller.quorum.voters=1@localhost:9093\n"
        "listeners=PLAINTEXT://127.0.0.1:0,PLAINTEXT_HOST://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT\n"
        "controller.listener.names=CONTROLLER\ninter.broker.listener.name=PLAINTEXT\n"
        "offsets.topic.replication.factor=1\n"
    )
    command = [*PYKBROKER, "start", "--memory", "--config", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        found = dict(re.findall(r"(\w+)://([^, ]+)", running.stdout.readline()))
        assert list(found) == ["PLAINTEXT", "PLAINTEXT_HOST"]
        for address in found.values():
            assert [f"{host}:{port}" for host, port in brokers(address)] == [address]
        running.terminate()
        assert running.wait(START_S_MAX) == 0


@pytest.fixture
def namespace() -> Iterator[str]:
    """Yield the name of a network namespace that is connected to this one by a pair of virtual interfaces."""
    name, ours, theirs = "pykbroker-test", "pykbroker-a", "pykbroker-b"

    def ip(*arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True, capture_output=True)

    try:
        ip("netns", "add", name)
    except (OSError, subprocess.CalledProcessError) as refusal:
        pytest.skip(f"this user cannot make network namespaces: {refusal}")
    try:
        ip("link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", name)
        ip("address", "add", f"{BROKER_HOST}/30", "dev", ours)
        ip("link", "set", ours, "up")
        ip("-n", name, "address", "add", f"{CLIENT_HOST}/30", "dev", theirs)
        ip("-n", name, "link", "set", theirs, "up")
        yield name
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False)
        subprocess.run(["ip", "link", "del", ours], check=False, capture_output=True)


def test_clients_in_another_network_namespace_use_the_listener_that_they_can_reach(
    namespace: str, start_broker: Callable[..., BrokerProcess]
) -> None:
    broker = start_broker("--memory", "--listen", f"EXTERNAL={BROKER_HOST}:0", "--topic", "a:1")
    external = listeners(broker)["EXTERNAL"]
    client = ["ip", "netns", "exec", namespace, sys.executable, "-c", SEND_AND_READ, external, "a"]
    values, advertised = json.loads(
        subprocess.run(client, check=True, capture_output=True, text=True, timeout=60).stdout
    )
    assert values == ["from elsewhere"]
    assert advertised == [[BROKER_HOST, int(external.rpartition(":")[2])]]
    assert brokers(broker.address) == [("127.0.0.1", broker.port)]
    exchange(broker.address, broker.address, "a2")
