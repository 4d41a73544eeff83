"""A cluster of pykbroker's own processes: one that is broker and controller, and others that are brokers only."""

from __future__ import annotations

from pathlib import Path

from tools.bench import peers
from tools.broker_process import BrokerProcess

SETTINGS = (
    "offsets.topic.num.partitions=6",
    "transaction.state.log.num.partitions=6",
    "group.initial.rebalance.delay.ms=0",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=200",
)


class OurCluster:
    """A running cluster. The node ids begin with 1, which is the controller, too."""

    def __init__(self, work: Path, node_count: int = 3) -> None:
        self._work = work
        self.controller = f"127.0.0.1:{peers.free_port()}"
        self.nodes: dict[int, BrokerProcess] = {}
        for node_id in range(1, node_count + 1):
            self.start(node_id)

    @property
    def bootstrap(self) -> str:
        """Return the addresses of all brokers."""
        return ",".join(node.address for node in self.nodes.values())

    def start(self, node_id: int) -> BrokerProcess:
        """Start a node for the first time."""
        directory = self._work / f"node{node_id}"
        directory.mkdir()
        if node_id == 1:
            options = ["--listen", f"CONTROLLER={self.controller}"]
        else:
            options = [
                *("--set", "process.roles=broker"),
                *("--set", f"controller.quorum.bootstrap.servers={self.controller}"),
            ]
        for setting in (f"node.id={node_id}", *SETTINGS):
            options += ["--set", setting]
        node = self.nodes[node_id] = BrokerProcess(directory, "--data-dir", str(directory / "data"), *options)
        node.start()
        return node

    def stop(self) -> list[int]:
        """Stop all nodes, the controller last, and return their exit codes."""
        return [node.stop() for _, node in sorted(self.nodes.items(), reverse=True)]

    def kill(self) -> None:
        """Kill all nodes that still run."""
        for node in self.nodes.values():
            node.kill()
