"""An Apache Kafka node, a broker and a controller, on a directory that pykbroker has written."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.interop.java_tools import SHORT_LIVED_JVM
from tools.bench import peers
from tools.bench.child import Child

STOP_S_MAX = 60
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
USERS = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.name.users.sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "listener.name.users.scram-sha-256.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
}
"""The configs of a listener on which the users of the metadata log in."""
PROPERTIES = """process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},USERS://127.0.0.1:{users_port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},USERS://127.0.0.1:{users_port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller_port}
log.dirs={directory}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
num.io.threads=2
num.network.threads=1
""" + "".join(f"{name}={value}\n" for name, value in (AUTHORIZER | USERS).items())


@dataclass(frozen=True)
class KafkaNode:
    """The addresses of a running node: that of its plaintext listener, and that on which users log in."""

    bootstrap: str
    users: str


def java(jars: Path, main: str, *arguments: str) -> list[str]:
    """Return the command for a JVM that starts fast, at the cost of speed."""
    return ["java", *SHORT_LIVED_JVM, "-Xmx512m", "-cp", f"{jars}/*", main, *arguments]


@contextlib.contextmanager
def running_kafka(work: Path, jars: Path, more: str = "") -> Iterator[KafkaNode]:
    """Run a node on the directory `data` of `work`, and stop it at the end. `more` is lines of configs."""
    port, users_port, controller_port = peers.free_port(), peers.free_port(), peers.free_port()
    text = PROPERTIES.format(port=port, users_port=users_port, controller_port=controller_port, directory=work / "data")
    properties = work / "server.properties"
    properties.write_text(text + more)
    kafka = Child(java(jars, "kafka.Kafka", str(properties)), work / "kafka.log")
    try:
        peers.wait_until_serving(kafka, port)
        yield KafkaNode(f"127.0.0.1:{port}", f"127.0.0.1:{users_port}")
    finally:
        kafka.stop(STOP_S_MAX)
