"""The stage of a simulation of clients: a scripted cluster, a network, and a world for each client."""

from __future__ import annotations

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.sim.net import SimNet
from pykbroker.sim.network import Network
from pykbroker.sim.process import Process
from pykbroker.sim.scripted.cluster import ScriptedCluster
from pykbroker.sim.simulation import Simulation
from pykbroker.world.client_world import ClientWorld

START_MS = 1_700_000_000_000
TOPIC, PARTITIONS = "topic", 3


class ClientStage:
    """A cluster of three nodes with the topic `topic`, and the findings of the run."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.network = Network(simulation)
        self.cluster = ScriptedCluster(self._net_of_node, simulation.dice("cluster"), simulation.nursery)
        self.state = self.cluster.state
        self.state.auto_creates = False
        self.state.add_topic(TOPIC, PARTITIONS)
        self.partitions = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
        self.clients: list[str] = []
        self.findings: list[str] = []
        self.cluster.start()

    @property
    def bootstrap(self) -> list[str]:
        """Return the addresses of all nodes."""
        return [f"{host}:{port}" for host, port in self.cluster.bootstrap]

    def world(self, client: str, process: Process | None = None) -> ClientWorld:
        """Return the world of a new client, which runs on a host of its own."""
        self.clients.append(client)
        net = SimNet(self.network, process or Process(client), client, self.simulation.dice(f"net of {client}"))
        clock = self.simulation.clock
        return ClientWorld(
            net,
            lambda: START_MS + int(clock.now * 1000),
            lambda: int(clock.now * 1e9),
            self.simulation.dice(f"client {client}"),
        )

    def expect(self, holds: bool, finding: str) -> None:
        """Add a finding unless a condition holds."""
        if not holds and len(self.findings) < 10:
            self.findings.append(finding)

    def _net_of_node(self, host: str) -> SimNet:
        process = Process(host)
        net = SimNet(self.network, process, host, self.simulation.dice(f"net of {host}"))
        self.simulation.start(process, net.run)
        return net
