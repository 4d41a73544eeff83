"""Tests that compose files for Kafka start unchanged: their variables, their health checks and their init containers.

No container engine is needed: a process runs the entry point of the image with the variables of a file. Names of
services stand for 127.0.0.1, and each port for a free one. The texts are our own, with the variables and commands of

- Apache Kafka's examples, docker/examples/docker-compose-files/single-node/plaintext (apache/kafka)
- Confluent's cp-all-in-one-community and its quick start (confluentinc/cp-kafka)
- the README of bitnami/kafka, whose images are archived
- the README of wurstmeister/kafka-docker, whose topics KAFKA_CREATE_TOPICS names
- the tutorials of Confluent and Baeldung with an init container that runs kafka-topics (confluentinc/cp-kafka)
- Testcontainers for Java and Go: the start scripts of apache/kafka, confluentinc/cp-kafka and confluent-local
- Debezium's tutorial, debezium-examples/tutorial (quay.io/debezium/kafka)
- Spring Boot's and Quarkus's development setups (apache/kafka-native)
- kafka-ui's documentation/compose/kafka-ui.yaml by provectus (confluentinc/cp-kafka)
- conduktor's kafka-stack-docker-compose, zk-single-kafka-single (confluentinc/cp-kafka), without its authorizer, a
  class that Kafka 4 does not have either
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.unit.cli.kafka_tools.test_transcript import printed

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
PORT = re.compile(r"\b(9092|9093|9094|19092|29092|29093)\b")
SERVICE = re.compile(r"\b(kafka|broker|kafka0|kafka1)(?=:\d)")
ETC = re.compile(r"/etc/(?=kafka|confluent)")
SECONDS_MAX = 30
pytestmark = pytest.mark.timeout(120)


class ComposeFile(NamedTuple):
    """A compose file: the variables of its broker, its health check, the commands of its init container, its topics.

    `addresses` are those that containers and programs on the host use.
    """

    variables: str
    addresses: tuple[str, ...]
    health: str = ""
    init: tuple[str, ...] = ()
    topics: Mapping[str, int] = {}


APACHE = """
KAFKA_NODE_ID=1
KAFKA_PROCESS_ROLES=broker,controller
KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT
KAFKA_ADVERTISED_LISTENERS=PLAINTEXT_HOST://localhost:9092,PLAINTEXT://broker:19092
KAFKA_CONTROLLER_QUORUM_VOTERS=1@broker:29093
KAFKA_LISTENERS=CONTROLLER://:29093,PLAINTEXT_HOST://:9092,PLAINTEXT://:19092
KAFKA_INTER_BROKER_LISTENER_NAME=PLAINTEXT
KAFKA_CONTROLLER_LISTENER_NAMES=CONTROLLER
CLUSTER_ID=4L6g3nShT-eMCtK--X86sw
KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR=1
KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS=0
KAFKA_TRANSACTION_STATE_LOG_MIN_ISR=1
KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR=1
KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR=1
KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR=1
KAFKA_LOG_DIRS={data}/kraft-combined-logs
"""
CONFLUENT = """
KAFKA_NODE_ID=1
KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT
KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092
KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR=1
KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS=0
KAFKA_TRANSACTION_STATE_LOG_MIN_ISR=1
KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR=1
KAFKA_JMX_PORT=9101
KAFKA_JMX_HOSTNAME=localhost
KAFKA_PROCESS_ROLES=broker,controller
KAFKA_CONTROLLER_QUORUM_VOTERS=1@broker:29093
KAFKA_LISTENERS=PLAINTEXT://broker:29092,CONTROLLER://broker:29093,PLAINTEXT_HOST://0.0.0.0:9092
KAFKA_INTER_BROKER_LISTENER_NAME=PLAINTEXT
KAFKA_CONTROLLER_LISTENER_NAMES=CONTROLLER
KAFKA_LOG_DIRS={data}/kraft-combined-logs
CLUSTER_ID=MkU3OEVBNTcwNTJENDM2Qk
"""
BITNAMI = """
KAFKA_CFG_NODE_ID=0
KAFKA_CFG_PROCESS_ROLES=controller,broker
KAFKA_CFG_LISTENERS=PLAINTEXT://:9092,CONTROLLER://:9093,EXTERNAL://:9094
KAFKA_CFG_ADVERTISED_LISTENERS=PLAINTEXT://kafka:9092,EXTERNAL://localhost:9094
KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP=CONTROLLER:PLAINTEXT,EXTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT
KAFKA_CFG_CONTROLLER_QUORUM_VOTERS=0@kafka:9093
KAFKA_CFG_CONTROLLER_LISTENER_NAMES=CONTROLLER
KAFKA_CFG_INTER_BROKER_LISTENER_NAME=PLAINTEXT
KAFKA_CFG_AUTO_CREATE_TOPICS_ENABLE=true
KAFKA_KRAFT_CLUSTER_ID=abcdefghijklmnopqrstuv
ALLOW_PLAINTEXT_LISTENER=yes
KAFKA_ENABLE_KRAFT=yes
"""
WURSTMEISTER = """
KAFKA_BROKER_ID=1
KAFKA_ZOOKEEPER_CONNECT=zookeeper:2181
KAFKA_ADVERTISED_LISTENERS=INSIDE://kafka:9093,OUTSIDE://localhost:9092
KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT
KAFKA_LISTENERS=INSIDE://0.0.0.0:9093,OUTSIDE://0.0.0.0:9092
KAFKA_INTER_BROKER_LISTENER_NAME=INSIDE
KAFKA_CREATE_TOPICS=orders:3:1,prices:1:1:compact
"""
INIT = """
KAFKA_BROKER_ID=1
KAFKA_ZOOKEEPER_CONNECT=zookeeper:2181
KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=PLAINTEXT:PLAINTEXT,PLAINTEXT_INTERNAL:PLAINTEXT
KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9092,PLAINTEXT_INTERNAL://broker:29092
KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR=1
KAFKA_AUTO_CREATE_TOPICS_ENABLE=false
"""
DEBEZIUM = """
CLUSTER_ID=oh-sxaDRTcyAr6pFRbXyzA
NODE_ID=1
NODE_ROLE=combined
KAFKA_CONTROLLER_QUORUM_VOTERS=1@kafka:9093
KAFKA_LISTENERS=PLAINTEXT://kafka:9092,CONTROLLER://kafka:9093
KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://kafka:9092
"""
SPRING = """
KAFKA_NODE_ID=1
KAFKA_PROCESS_ROLES=broker,controller
KAFKA_LISTENERS=PLAINTEXT://:9092,CONTROLLER://:9093
KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9092
KAFKA_CONTROLLER_LISTENER_NAMES=CONTROLLER
KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
KAFKA_CONTROLLER_QUORUM_VOTERS=1@localhost:9093
KAFKA_NUM_PARTITIONS=3
KAFKA_HEAP_OPTS=-Xmx512M -Xms512M
"""
KAFKA_UI = """
KAFKA_BROKER_ID=1
KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT
KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://kafka0:29092,PLAINTEXT_HOST://localhost:9092
KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR=1
KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS=0
KAFKA_TRANSACTION_STATE_LOG_MIN_ISR=1
KAFKA_JMX_PORT=9997
KAFKA_JMX_OPTS=-Dcom.sun.management.jmxremote -Djava.rmi.server.hostname=kafka0
KAFKA_PROCESS_ROLES=broker,controller
KAFKA_NODE_ID=1
KAFKA_CONTROLLER_QUORUM_VOTERS=1@kafka0:29093
KAFKA_LISTENERS=PLAINTEXT://kafka0:29092,CONTROLLER://kafka0:29093,PLAINTEXT_HOST://0.0.0.0:9092
KAFKA_INTER_BROKER_LISTENER_NAME=PLAINTEXT
KAFKA_CONTROLLER_LISTENER_NAMES=CONTROLLER
KAFKA_LOG_DIRS={data}/kraft-combined-logs
CLUSTER_ID=MkU3OEVBNTcwNTJENDM2Qk
"""
CONDUKTOR = """
KAFKA_ADVERTISED_LISTENERS=INTERNAL://kafka1:19092,EXTERNAL://localhost:9092,DOCKER://127.0.0.1:29092
KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,DOCKER:PLAINTEXT
KAFKA_INTER_BROKER_LISTENER_NAME=INTERNAL
KAFKA_ZOOKEEPER_CONNECT=zoo1:2181
KAFKA_BROKER_ID=1
KAFKA_LOG4J_LOGGERS=kafka.controller=INFO,kafka.producer.async.DefaultEventHandler=INFO
KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR=1
KAFKA_ALLOW_EVERYONE_IF_NO_ACL_FOUND=true
"""
FILES = {
    "apache": ComposeFile(
        APACHE,
        ("broker:19092", "localhost:9092"),
        "/opt/kafka/bin/kafka-broker-api-versions.sh --bootstrap-server localhost:9092",
    ),
    "confluent": ComposeFile(
        CONFLUENT,
        ("broker:29092", "localhost:9092"),
        "kafka-topics --bootstrap-server localhost:9092 --list",
        (
            "cub kafka-ready -b broker:29092 1 20",
            "kafka-configs --bootstrap-server broker:29092 --alter --entity-type brokers --entity-name 1 "
            "--add-config log.retention.ms=600000",
        ),
    ),
    "bitnami": ComposeFile(
        BITNAMI,
        ("kafka:9092", "localhost:9094"),
        "kafka-topics.sh --bootstrap-server kafka:9092 --describe",
        (
            "/opt/bitnami/kafka/bin/kafka-topics.sh --create --topic orders --partitions 2 --replication-factor 1 "
            "--if-not-exists --bootstrap-server kafka:9092",
        ),
        {"orders": 2},
    ),
    "wurstmeister": ComposeFile(
        WURSTMEISTER,
        ("kafka:9093", "localhost:9092"),
        "/opt/kafka/bin/kafka-topics.sh --list --bootstrap-server kafka:9093 --topic orders",
        topics={"orders": 3, "prices": 1},
    ),
    "an init container": ComposeFile(
        INIT,
        ("broker:29092", "localhost:9092"),
        "kafka-consumer-groups --bootstrap-server broker:29092 --list",
        (
            "kafka-topics --bootstrap-server broker:29092 --list",
            "kafka-topics --create --if-not-exists --bootstrap-server broker:29092 --topic users --partitions 4 "
            "--replication-factor 1 --config retention.ms=86400000",
            "kafka-topics --create --if-not-exists --bootstrap-server broker:29092 --topic users --partitions 4",
        ),
        {"users": 4},
    ),
    "debezium": ComposeFile(
        DEBEZIUM, ("kafka:9092",), "", ("/kafka/bin/kafka-topics.sh --bootstrap-server kafka:9092 --list",)
    ),
    "spring": ComposeFile(SPRING, ("localhost:9092",), "nc -z localhost 9092 || exit 1"),
    "kafka-ui": ComposeFile(
        KAFKA_UI, ("kafka0:29092", "localhost:9092"), "kafka-topics --bootstrap-server=kafka0:29092 --list"
    ),
    "conduktor": ComposeFile(
        CONDUKTOR,
        ("kafka1:19092", "localhost:9092", "127.0.0.1:29092"),
        "kafka-broker-api-versions --bootstrap-server=localhost:9092",
    ),
}


TESTCONTAINERS = """
KAFKA_NODE_ID=1
KAFKA_PROCESS_ROLES=broker,controller
KAFKA_LISTENERS=PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094
KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
KAFKA_INTER_BROKER_LISTENER_NAME=BROKER
KAFKA_CONTROLLER_LISTENER_NAMES=CONTROLLER
KAFKA_CONTROLLER_QUORUM_VOTERS=1@localhost:9094
KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR=1
KAFKA_LOG_FLUSH_INTERVAL_MESSAGES=9223372036854775807
KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS=0
"""
ADVERTISE = "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9092,BROKER://kafka:9093\n"
SCRIPTS = {
    "apache": ADVERTISE + "/etc/kafka/docker/run\n",
    "confluent": ADVERTISE + "/etc/confluent/docker/run\n",
    "confluent-local": ". /etc/confluent/docker/bash-config\n"
    + ADVERTISE
    + """\
sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' /etc/confluent/docker/configure
echo 'kafka-storage format --ignore-formatted -t "$(kafka-storage random-uuid)" -c /etc/kafka/kafka.properties' \\
>> /etc/confluent/docker/configure
echo '' > /etc/confluent/docker/ensure
/etc/confluent/docker/configure
/etc/confluent/docker/launch
""",
    "another": ADVERTISE
    + """. /etc/confluent/docker/configure
kafka-storage format -t MkU3OEVBNTcwNTJENDM2Qk -c /etc/kafka/kafka.properties
kafka-server-start /etc/kafka/kafka.properties
""",
}
"""The scripts that Testcontainers copies into a running container, and another one for Confluent's image.

They run once the ports of the container are known.
"""

SERVER_PROPERTIES = """
node.id=1
process.roles=broker,controller
controller.quorum.voters=1@localhost:9093
listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
log.dirs={data}
"""


class Composed:
    """The process of a compose file's broker, in a directory with the scripts of the image."""

    def __init__(self, file: ComposeFile, directory: Path) -> None:
        self._file, self._directory, self._ports = file, directory, dict[str, int]()
        install(directory)
        lines = self.placed(file.variables.format(data=directory / "data")).split("\n")
        self._environ = {
            "PATH": f"{directory}/bin:/usr/bin:/bin",
            "PYTHONPATH": str(ROOT),
            "PYKBROKER_CONTAINER": "1",
            "KAFKA_LOG_DIRS": str(directory / "data"),
            **dict(line.split("=", 1) for line in lines if line),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def placed(self, text: str) -> str:
        """Return a text with the host, the ports and the directories that the test uses."""
        text = SERVICE.sub("127.0.0.1", text)
        text = ETC.sub(f"{self._directory}/etc/", text)
        return PORT.sub(lambda found: str(self._port(found[0])), text)

    def _port(self, name: str) -> int:
        if name not in self._ports:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self._ports[name] = probe.getsockname()[1]
        return self._ports[name]

    def start(self, *command: str) -> None:
        """Start the entry point of the image with a command."""
        with (self._directory / "output").open("wb") as output:
            self._process = subprocess.Popen(
                [str(self._directory / "etc/kafka/docker/run"), *command],
                env=self._environ,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def output(self) -> str:
        """Return what the process has written."""
        return (self._directory / "output").read_text()

    def stop(self) -> None:
        """End the process, also the shells of a start script."""
        assert self._process is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def tool(self, line: str, reads: str = "") -> list[str]:
        """Return the lines that a command prints, with a last line about its exit code.

        A tool of Kafka runs in this process, because the start of Python takes longer than its run.
        """
        path, *words = shlex.split(self.placed(line))
        name = path.rpartition("/")[2]
        if name.startswith("kafka-"):
            return printed([name, *words], reads).splitlines()
        done = subprocess.run(
            ["sh", "-c", self.placed(line)], env=self._environ, capture_output=True, text=True, timeout=SECONDS_MAX
        )
        return [*(done.stdout + done.stderr).splitlines(), f"exit {done.returncode}"]

    def wait_until_healthy(self) -> None:
        """Run the health check, by default that of the image, until it succeeds."""
        if not self._file.health:
            command = ["pykbroker", "wait", "--timeout", str(SECONDS_MAX)]
            subprocess.run(command, env=self._environ, check=True, capture_output=True, timeout=2 * SECONDS_MAX)
            return
        ends_at = time.monotonic() + SECONDS_MAX
        while (found := self.tool(self._file.health))[-1] != "exit 0":
            assert self._process is not None
            assert self._process.poll() is None, self.output()
            assert time.monotonic() < ends_at, found
            time.sleep(0.05)


def install(directory: Path) -> None:
    """Put the scripts of the image into a directory, and programs that run this checkout."""
    scripts = {f"etc/confluent/docker/{path.name}": path for path in (DOCKER / "confluent").iterdir()}
    scripts |= {"etc/kafka/docker/run": DOCKER / "run", "bin/nc": DOCKER / "nc", "bin/cub": DOCKER / "cub"}
    for name in ("kafka-storage", "kafka-server-start"):
        script = DOCKER / name.replace("storage", "tool")
        scripts |= {f"bin/{name}": script, f"bin/{name}.sh": script}
    texts = {place: ETC.sub(f"{directory}/etc/", script.read_text()) for place, script in scripts.items()}
    for name, words in (("python", ""), ("pykbroker", " -m pykbroker")):
        texts[f"bin/{name}"] = f'#!/bin/sh\nexec {sys.executable}{words} "$@"\n'
    for place, text in texts.items():
        path = directory / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)


@pytest.fixture(scope="module")
def composed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Composed]]:
    """Yield the brokers of all files. They start at the same time."""
    found = {name: Composed(file, tmp_path_factory.mktemp("compose")) for name, file in FILES.items()}
    with ExitStack() as stack:
        for each in found.values():
            each.start()
            stack.callback(each.stop)
        yield found


def serve_all(broker: Composed, addresses: tuple[str, ...]) -> None:
    """Check that clients of each address are told that address, and that all see the records of each other."""
    create = f"kafka-topics --bootstrap-server {addresses[0]} --create --topic sides --partitions 1"
    assert broker.tool(create) == ["Created topic sides.", "exit 0"]
    for address in addresses:
        assert broker.tool(f"kafka-broker-api-versions --bootstrap-server {address}")[0].startswith(
            broker.placed(f"{address} (id: ")
        )
        produce = f"kafka-console-producer --bootstrap-server {address} --topic sides"
        assert broker.tool(produce, f"from {address}\n") == ["exit 0"]
    for address in addresses:
        consume = (
            f"kafka-console-consumer --bootstrap-server {address} --topic sides --from-beginning --timeout-ms 20000"
        )
        found = broker.tool(f"{consume} --max-messages {len(addresses)}")
        assert found[: len(addresses)] == [f"from {address}" for address in addresses]


@pytest.mark.parametrize("name", FILES)
def test_a_compose_file_starts_and_serves_both_sides(composed: Mapping[str, Composed], name: str) -> None:
    file, broker = FILES[name], composed[name]
    broker.wait_until_healthy()
    for command in file.init:
        assert broker.tool(command)[-1] == "exit 0"
    for topic, partitions in file.topics.items():
        describe = f"kafka-topics --bootstrap-server {file.addresses[0]} --describe --topic {topic}"
        assert f"\tPartitionCount: {partitions}\t" in broker.tool(describe)[0]
    serve_all(broker, file.addresses)


def test_the_start_scripts_of_testcontainers_start_a_broker(tmp_path: Path) -> None:
    file = ComposeFile(TESTCONTAINERS, (), "kafka-broker-api-versions --bootstrap-server localhost:9092")
    with ExitStack() as stack:
        brokers = []
        for name, script in SCRIPTS.items():
            broker = Composed(file, tmp_path / name)
            path = tmp_path / name / "start.sh"
            broker.start("sh", "-c", f"while [ ! -f {path} ]; do sleep 0.05; done; sh {path}")
            stack.callback(broker.stop)
            path.with_suffix(".new").write_text(broker.placed(script))
            path.with_suffix(".new").rename(path)
            brokers.append(broker)
        for broker in brokers:
            broker.wait_until_healthy()
            assert "Transitioning from RECOVERY to RUNNING" in broker.output()
            serve_all(broker, ("localhost:9092", "kafka:9093"))


def test_a_node_is_formatted_and_started_as_by_kafkas_scripts(tmp_path: Path) -> None:
    topic = "kafka-topics.sh --bootstrap-server localhost:9092 --topic a"
    broker = Composed(ComposeFile("", (), f"{topic} --create --if-not-exists"), tmp_path / "image")
    file = tmp_path / "server.properties"
    file.write_text(broker.placed(SERVER_PROPERTIES.format(data=tmp_path / "formatted")))
    formatted = f"kafka-storage.sh format -t MkU3OEVBNTcwNTJENDM2Qk -c {file}"
    broker.start("sh", "-c", f"{formatted} && kafka-server-start.sh {file} --override num.partitions=3")
    try:
        broker.wait_until_healthy()
        assert "PartitionCount: 3" in broker.tool(f"{topic} --describe")[0]
    finally:
        broker.stop()
    assert "cluster.id=MkU3OEVBNTcwNTJENDM2Qk" in (tmp_path / "formatted/meta.properties").read_text()
    refused = broker.tool(f"sh -c 'kafka-server-start.sh -daemon {file}'")
    usage = "write kafka-server-start.sh FILE [--override NAME=VALUE]..."
    assert refused == [f"kafka-server-start.sh: this image has no -daemon: {usage}", "exit 1"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("nc -vz -w 1 127.0.0.1 9092", "exit 1"),
        ("nc 127.0.0.1 9092", "nc: this image only has nc -z [-w SECONDS] HOST PORT"),
        ("cub zk-ready zookeeper:2181 30", "cub: this image only has cub kafka-ready -b HOST:PORT,... BROKERS SECONDS"),
        ("cub kafka-ready -b 127.0.0.1:9092 1 0", "Error: no broker has answered on 127.0.0.1:"),
    ],
)
def test_a_health_check_fails_without_a_broker(tmp_path: Path, line: str, found: str) -> None:
    *lines, code = Composed(ComposeFile("", ()), tmp_path / "image").tool(line)
    assert code == "exit 1"
    assert any(each.startswith(found) for each in [*lines, code])
