"""Clusters of three nodes of one kind of broker, each node a child process that a row may kill and start again.

Topics have three replicas, and min.insync.replicas is 2. Kafka's nodes are brokers and controllers. Of pykbroker's
nodes, the first is the controller, too.
"""

from __future__ import annotations

import contextlib
import random
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from pykbroker.cli.cluster.plan import ClusterPlan, of_broker
from pykbroker.core.address import Address
from tools.bench import cluster_requests
from tools.bench.child import Child
from tools.bench.peers import Broker, Peer, java, wait_until_serving
from tools.broker_process import PYKBROKER

HOST = "127.0.0.1"
NODES = (1, 2, 3)
CONTROLLER = 1
"""The node of pykbroker that is the controller."""
START_S_MAX, FULL_S_MAX = 60, 300
STOP_S_MAX = 30
MAJORITY_STOP_S_MAX = 5
"""The time to stop one of Kafka's last nodes. Without a majority of controllers they do not stop by themselves."""
PORTS_FIRST, PORTS_LAST = 20_000, 32_000
"""The range of ports for clusters, below those that the system gives to clients."""

KAFKA_PROPERTIES = """process.roles=broker,controller
node.id={node_id}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters={voters}
log.dirs={log_dir}
default.replication.factor=3
min.insync.replicas=2
group.initial.rebalance.delay.ms=0
"""
KAFKA_CLUSTER_ID = "YmVuY2gtYmVuY2gtYmVuYw"


class ClusterKind(Protocol):
    """The way to run nodes of one kind in `directory`, on the ports from `first_port` on."""

    def prepare(self, directory: Path, first_port: int) -> None:
        """Write configs and format directories."""

    def command(self, directory: Path, first_port: int, node_id: int) -> list[str]:
        """Return the command of a node."""

    def log_dir(self, directory: Path, node_id: int) -> Path:
        """Return the log directory of a node."""


class OurKind:
    """Nodes of pykbroker with the options of `pykbroker cluster`."""

    def __init__(self, replicas: int = len(NODES), program: Sequence[str] = PYKBROKER) -> None:
        self._replicas, self._program = replicas, program

    def prepare(self, directory: Path, first_port: int) -> None:
        """Do nothing, since a start formats the directory."""

    def command(self, directory: Path, first_port: int, node_id: int) -> list[str]:
        plan = ClusterPlan(len(NODES), self._replicas, Address(HOST, first_port))
        options = plan.options(node_id, of_broker(plan.listen, node_id), plan.controller)
        return [*self._program, "start", "--data-dir", str(self.log_dir(directory, node_id)), *options]

    def log_dir(self, directory: Path, node_id: int) -> Path:
        return directory / str(node_id)


class KafkaKind:
    """Nodes of Apache Kafka that are brokers and controllers."""

    def prepare(self, directory: Path, first_port: int) -> None:
        controllers = {node_id: first_port + len(NODES) + node_id - 1 for node_id in NODES}
        for node_id in NODES:
            text = KAFKA_PROPERTIES.format(
                node_id=node_id,
                port=first_port + node_id - 1,
                controller_port=controllers[node_id],
                voters=",".join(f"{voter}@{HOST}:{port}" for voter, port in controllers.items()),
                log_dir=self.log_dir(directory, node_id),
            )
            self._properties(directory, node_id).write_text(text)
            arguments = ("format", "-t", KAFKA_CLUSTER_ID, "-c", str(self._properties(directory, node_id)))
            completed = subprocess.run(
                java("kafka.tools.StorageTool", *arguments), check=False, capture_output=True, text=True
            )
            if completed.returncode:
                raise RuntimeError(f"Kafka's directory could not be formatted:\n{completed.stdout}{completed.stderr}")

    def command(self, directory: Path, first_port: int, node_id: int) -> list[str]:
        return java("kafka.Kafka", str(self._properties(directory, node_id)))

    def log_dir(self, directory: Path, node_id: int) -> Path:
        return directory / f"data{node_id}"

    @staticmethod
    def _properties(directory: Path, node_id: int) -> Path:
        return directory / f"server{node_id}.properties"


KINDS: dict[str, ClusterKind] = {"pykbroker": OurKind(), "kafka": KafkaKind()}
"""The kinds of cluster, by the name of the peer."""


class Cluster(Broker):
    """A running cluster of three nodes. `start_seconds` is the time until all nodes serve with an ISR of all."""

    def __init__(
        self, peer: Peer, directory: Path, kind: ClusterKind | None = None, replicas: int = len(NODES)
    ) -> None:
        """Create and start a cluster in a new directory, with topics of this replication factor."""
        peer.fetch()
        directory.mkdir(parents=True)
        self.kind = kind or KINDS[peer.name]
        self._first_port = free_ports(2 * len(NODES) + 1)
        self.nodes: dict[int, Child] = {}
        self.kind.prepare(directory, self._first_port)
        begun = time.monotonic()
        self.directory = directory
        try:
            self.launch()
            for node_id in NODES:
                self.wait_serving(node_id)
        except BaseException:
            self.kill_all()
            raise
        super().__init__(peer, self.nodes[1], self._first_port, directory, time.monotonic() - begun, replicas)

    @property
    def bootstrap(self) -> str:
        """Return the addresses of all nodes."""
        return ",".join(f"{HOST}:{port}" for port in self.ports)

    @property
    def ports(self) -> list[int]:
        return [self.port_of(node_id) for node_id in NODES]

    def port_of(self, node_id: int) -> int:
        """Return the port of a node for clients."""
        return self._first_port + node_id - 1

    def leader_ports(self, topic: str, partitions: int) -> list[int]:
        """Return the port of the leader of each partition, once each has all its replicas in the ISR."""
        found = self.wait_full(topic, partitions)
        return [self.port_of(leader) for leader in found]

    def wait_full(self, topic: str, partitions: int) -> list[int]:
        """Wait until every partition has a leader and a full ISR in the metadata of all nodes; return the leaders.

        Raise RuntimeError after `FULL_S_MAX`.
        """
        deadline = time.monotonic() + FULL_S_MAX
        while time.monotonic() < deadline:
            views = [cluster_requests.describe(port, topic) for port in self.ports]
            known = [view for view in views if view is not None]
            if len(known) == len(views) and all(view.is_full(partitions, self.replicas) for view in known):
                return known[0].leaders
            time.sleep(0.005)
        raise RuntimeError(f"{topic} has no full ISR after {FULL_S_MAX} s: {views}")

    def cpu_seconds(self) -> float:
        """Return the CPU time that all nodes have used so far."""
        return sum(node.cpu_seconds() for node in self.nodes.values())

    # ---- nodes

    def launch(self) -> None:
        """Start all nodes without waiting for them."""
        for node_id in NODES:
            self.start(node_id)

    def pids(self) -> list[int]:
        return [node.pid for node in self.nodes.values()]

    def start(self, node_id: int) -> None:
        """Start a node without waiting for it."""
        command = self.kind.command(self.directory, self._first_port, node_id)
        self.nodes[node_id] = Child(command, self.directory / f"node{node_id}.log")

    def wait_serving(self, node_id: int) -> None:
        """Wait until a node answers and names all nodes that run; raise RuntimeError after `START_S_MAX`."""
        node, port = self.nodes[node_id], self.port_of(node_id)
        self.wait_answering(node_id)
        deadline = time.monotonic() + START_S_MAX
        while (cluster_requests.broker_count(port) or 0) < sum(one.alive for one in self.nodes.values()):
            if time.monotonic() > deadline:
                raise RuntimeError(f"node {node_id} does not know the others after {START_S_MAX} s:\n{node.tail()}")
            time.sleep(0.005)

    def wait_answering(self, node_id: int) -> None:
        """Wait until a node answers and names a broker."""
        wait_until_serving(self.nodes[node_id], self.port_of(node_id))

    def kill(self, node_id: int) -> None:
        """Kill a node as a crash would."""
        self.nodes[node_id].kill()

    def controller(self) -> int:
        """Return the node that is the active controller."""
        return CONTROLLER if isinstance(self.kind, OurKind) else cluster_requests.raft_leader(self.port)

    def stop(self) -> None:
        """Stop all nodes, the controller last; keep the directory."""
        last = self.controller()
        order = [node_id for node_id in NODES if node_id != last] + [last]
        for index, node_id in enumerate(order):
            few = self.peer.name == "kafka" and index > 0
            self.nodes[node_id].stop(MAJORITY_STOP_S_MAX if few else STOP_S_MAX)

    def kill_all(self) -> None:
        for node in self.nodes.values():
            node.kill()


class Supervised(Cluster):
    """A cluster that is run by `pykbroker cluster`, as a user runs it. No node is killed or started alone."""

    def launch(self) -> None:
        address = f"{HOST}:{self._first_port}"
        command = [*PYKBROKER, "cluster", "--listen", address, "--data-dir", str(self.directory)]
        supervisor = Child(command, self.directory / "cluster.log")
        self.nodes = dict.fromkeys(NODES, supervisor)

    def pids(self) -> list[int]:
        return self.nodes[CONTROLLER].descendants()

    def wait_serving(self, node_id: int) -> None:
        self.wait_answering(node_id)

    def stop(self) -> None:
        self.nodes[CONTROLLER].stop()


def free_ports(count: int) -> int:
    """Return the first of `count` consecutive ports on which no process listens."""
    while True:
        first = random.randrange(PORTS_FIRST, PORTS_LAST)
        with contextlib.ExitStack() as probes, contextlib.suppress(OSError):
            for port in range(first, first + count):
                probes.enter_context(socket.socket()).bind((HOST, port))
            return first
