"""An Apache Kafka cluster of several nodes, each a process that a test may kill, stop and start again."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import uuid
from pathlib import Path

from tests.interop.kafka_node import java
from tools.bench import peers
from tools.bench.child import Child

CLUSTER_ID = "Y2xpZW50LWNsaWVudC1jbA"
PROPERTIES = """process.roles=broker,controller
node.id={node_id}
listeners=PLAINTEXT://127.0.0.1:{port},PROXIED://127.0.0.1:{proxied},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},PROXIED://127.0.0.1:{proxy}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
controller.quorum.voters={voters}
log.dirs={directory}
broker.rack=rack{node_id}
broker.heartbeat.interval.ms=400
broker.session.timeout.ms=2000
offsets.topic.num.partitions=3
transaction.state.log.num.partitions=3
group.initial.rebalance.delay.ms=0
group.consumer.min.heartbeat.interval.ms=100
group.consumer.heartbeat.interval.ms=200
num.io.threads=2
num.network.threads=1
"""


def new_directory_id() -> str:
    """Return a random id for a log directory."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


class KafkaCluster:
    """A running cluster. The node ids begin with 1, and every node is a broker and a controller.

    `controllers` are the addresses of the controllers' listeners.

    Each node has a second listener, of a port in `proxied`, for clients that connect through a proxy. The proxy's port
    is in `proxies`. `more` is lines of configs that replace those of `PROPERTIES`.
    """

    def __init__(self, work: Path, jars: Path, node_count: int = 3, more: str = "") -> None:
        self._work, self._jars = work, jars
        self.ports = {node_id: peers.free_port() for node_id in range(1, node_count + 1)}
        self.proxied = {node_id: peers.free_port() for node_id in self.ports}
        self.proxies = {node_id: peers.free_port() for node_id in self.ports}
        controllers = {node_id: peers.free_port() for node_id in self.ports}
        self.controllers = ",".join(f"127.0.0.1:{port}" for port in controllers.values())
        voters = ",".join(f"{node_id}@127.0.0.1:{port}" for node_id, port in controllers.items())
        self.nodes: dict[int, Child] = {}
        for node_id, port in self.ports.items():
            text = PROPERTIES.format(
                node_id=node_id,
                port=port,
                proxied=self.proxied[node_id],
                proxy=self.proxies[node_id],
                controller_port=controllers[node_id],
                voters=voters,
                directory=self.directory(node_id),
            )
            self._properties(node_id).write_text(text + more)
        self._format(1)
        for node_id in range(2, node_count + 1):
            self._format_like_first(node_id)
        for node_id in self.ports:
            self.start(node_id)
        for node_id in self.ports:
            self.wait_serving(node_id)

    def directory(self, node_id: int) -> Path:
        """Return the data directory of a node."""
        return self._work / f"data{node_id}"

    def _properties(self, node_id: int) -> Path:
        return self._work / f"server{node_id}.properties"

    def _format(self, node_id: int) -> None:
        arguments = ("format", "-t", CLUSTER_ID, "-c", str(self._properties(node_id)))
        command = java(self._jars, "kafka.tools.StorageTool", *arguments)
        completed = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
        assert completed.returncode == 0, completed.stdout + completed.stderr

    def _format_like_first(self, node_id: int) -> None:
        """Format the directory of a node as that of node 1, without starting a JVM."""
        shutil.copytree(self.directory(1), self.directory(node_id))
        meta = self.directory(node_id) / "meta.properties"
        text = re.sub("^directory.id=.*", f"directory.id={new_directory_id()}", meta.read_text(), flags=re.MULTILINE)
        meta.write_text(text.replace("node.id=1\n", f"node.id={node_id}\n"))

    @property
    def bootstrap(self) -> tuple[tuple[str, int], ...]:
        """Return the addresses of all nodes."""
        return tuple(("127.0.0.1", port) for port in self.ports.values())

    def start(self, node_id: int) -> None:
        """Start a node without waiting for it."""
        command = java(self._jars, "kafka.Kafka", str(self._properties(node_id)))
        self.nodes[node_id] = Child(command, self._work / f"kafka{node_id}.log")

    def wait_serving(self, node_id: int) -> None:
        """Wait until a node answers Metadata with all nodes of the cluster that run."""
        peers.wait_until_serving(self.nodes[node_id], self.ports[node_id])

    def kill(self, node_id: int) -> None:
        """Kill a node as a crash would."""
        self.nodes[node_id].kill()

    def stop(self) -> None:
        """Kill all nodes. To stop in order takes long: the last ones wait for a quorum, which is gone."""
        for node in self.nodes.values():
            node.kill()
