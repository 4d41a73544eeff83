"""Clusters of one node of Apache Kafka and one of pykbroker. Either of them is the controller."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.interop.test_kafka_directories import java
from tools.bench import peers
from tools.bench.child import Child
from tools.broker_process import BrokerProcess

CLUSTER_ID = "Y2xpZW50LWNsaWVudC1jbA"
PROPERTIES = """node.id={node_id}
listeners=PLAINTEXT://127.0.0.1:{port}{controller_listener}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers={controller}
log.dirs={directory}
offsets.topic.num.partitions=6
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=6
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
num.io.threads=2
num.network.threads=1
"""
SETTINGS = ("offsets.topic.num.partitions=6", "transaction.state.log.num.partitions=6")


class KafkaNode:
    """A node of Apache Kafka: the controller of a new cluster, or a broker of a cluster that has a controller."""

    def __init__(self, work: Path, jars: Path, node_id: int, controller: str, cluster_id: str | None = None) -> None:
        self.port, self._log = peers.free_port(), work / f"kafka{node_id}.log"
        leads = cluster_id is None
        text = PROPERTIES.format(
            node_id=node_id,
            port=self.port,
            controller=controller,
            controller_listener=f",CONTROLLER://{controller}" if leads else "",
            directory=work / f"kafka{node_id}",
        )
        properties = work / f"kafka{node_id}.properties"
        properties.write_text(f"process.roles={'broker,controller' if leads else 'broker'}\n{text}")
        arguments = ("-t", cluster_id or CLUSTER_ID, "-c", str(properties))
        command = java(
            jars,
            "kafka.tools.StorageTool",
            "format",
            *arguments,
            "--standalone" if leads else "--no-initial-controllers",
        )
        completed = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
        assert completed.returncode == 0, completed.stdout + completed.stderr
        self.process = Child(java(jars, "kafka.Kafka", str(properties)), self._log)

    @property
    def address(self) -> str:
        """Return the address for `bootstrap.servers`."""
        return f"127.0.0.1:{self.port}"

    def wait_serving(self) -> None:
        """Wait until the node answers clients."""
        peers.wait_until_serving(self.process, self.port)

    def stop(self) -> None:
        """Stop the node."""
        self.process.stop(30)


def our_node(work: Path, node_id: int, controller: str, *, leads: bool) -> BrokerProcess:
    """Start a node of pykbroker: the controller of a new cluster, or a broker of a cluster that has a controller."""
    directory = work / f"ours{node_id}"
    directory.mkdir()
    options = ["--data-dir", str(directory / "data")]
    if leads:
        options += ["--listen", f"CONTROLLER={controller}"]
    else:
        options += ["--set", "process.roles=broker", "--set", f"controller.quorum.bootstrap.servers={controller}"]
    for setting in (f"node.id={node_id}", *SETTINGS):
        options += ["--set", setting]
    node = BrokerProcess(directory, *options)
    node.start()
    return node


def cluster_id_of(node: BrokerProcess) -> str:
    """Return the cluster id that a node has printed."""
    found = re.search(r"cluster ([\w-]+)", node.stdout.read_text())
    assert found is not None
    return found[1]
