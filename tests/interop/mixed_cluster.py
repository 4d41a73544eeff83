"""A broker of Apache Kafka in a cluster of pykbroker, and a broker of pykbroker in a cluster of Apache Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.interop.kafka_cluster import new_directory_id
from tests.interop.our_cluster import REPLICATED, SETTINGS
from tests.interop.test_kafka_directories import java
from tools.bench import peers
from tools.bench.child import Child
from tools.broker_process import PYKBROKER, BrokerProcess

PROPERTIES = """process.roles=broker
node.id={node_id}
listeners=PLAINTEXT://127.0.0.1:{port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers={controller}
log.dirs={directory}
num.io.threads=2
num.network.threads=1
"""
META_PROPERTIES = """version=1
node.id={node_id}
cluster.id={cluster_id}
directory.id={directory_id}
"""
"""The file that `kafka-storage.sh format --no-initial-controllers` writes into a log directory of a broker."""
PARTITIONS_OF_KAFKA = ("offsets.topic.num.partitions=3", "transaction.state.log.num.partitions=3")
"""The settings of `KafkaCluster`. A broker of Kafka that runs already does not learn that another has created more."""


class KafkaBroker:
    """A broker of Apache Kafka in a cluster whose controller is a node of pykbroker."""

    def __init__(self, work: Path, jars: Path, node_id: int, controller: str, cluster_id: str) -> None:
        self.port, self._log = peers.free_port(), work / f"kafka{node_id}.log"
        self.directory = work / f"kafka{node_id}"
        properties = work / f"kafka{node_id}.properties"
        text = PROPERTIES.format(node_id=node_id, port=self.port, controller=controller, directory=self.directory)
        properties.write_text(text + "\n".join((*SETTINGS, *REPLICATED)))
        self.directory.mkdir()
        values = META_PROPERTIES.format(node_id=node_id, cluster_id=cluster_id, directory_id=new_directory_id())
        (self.directory / "meta.properties").write_text(values)
        self._command = java(jars, "kafka.Kafka", str(properties))
        self._process = Child(self._command, self._log)

    @property
    def address(self) -> str:
        """Return the address for `bootstrap.servers`."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Return the pid of the running process."""
        return self._process.pid

    def wait_serving(self) -> None:
        """Wait until the broker answers clients."""
        peers.wait_until_serving(self._process, self.port)

    def kill(self) -> None:
        """Kill the broker as a crash would."""
        self._process.kill()

    def start(self) -> None:
        """Start the broker again, and wait until it answers clients."""
        self._process = Child(self._command, self._log)
        self.wait_serving()

    def stop(self) -> None:
        """Stop the broker."""
        self._process.stop(30)


def our_broker(work: Path, node_id: int, controllers: str, program: Sequence[str] = PYKBROKER) -> BrokerProcess:
    """Start a broker of pykbroker, or of another program, in a cluster that has controllers."""
    options = ["--data-dir", str(work / "data"), "--set", "process.roles=broker"]
    place = (f"node.id={node_id}", f"controller.quorum.bootstrap.servers={controllers}")
    for setting in (*place, *SETTINGS, *REPLICATED, *PARTITIONS_OF_KAFKA):
        options += ["--set", setting]
    node = BrokerProcess(work, *options, program=program)
    node.start()
    return node
