"""The nodes of a simulated cluster: their machines, their starts, and their newest images."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import trio

from pykbroker.broker.parts import Parts
from pykbroker.core.metadata.image import BrokerImage, MetadataImage, PartitionImage
from pykbroker.replica.partition.partition import Partition
from pykbroker.sim.broker_node import BrokerNode
from pykbroker.sim.cluster.plan import CONTROLLER_ID, SwarmPlan, host_of
from pykbroker.sim.history import Place
from pykbroker.sim.machine import SimMachine
from pykbroker.sim.network import Network
from pykbroker.sim.simulation import Simulation

DEVICE_S, STALLS, NOT_CACHED = 0.001, 0.002, 0.02
LOOK_S = 0.5
DOWN_S_MAX = 2.0
"""The longest time in seconds after which a broker that has ended is started again."""


class SimCluster:
    """The nodes by id. `held` has the nodes that stay down until they are removed from it."""

    def __init__(self, simulation: Simulation, network: Network, plan: SwarmPlan, unexpected: list[str]) -> None:
        self._simulation = simulation
        self.nodes: dict[int, BrokerNode] = {}
        self.held: set[int] = set()
        for node_id in plan.node_ids:
            machine = SimMachine(simulation, network, host_of(node_id))
            faults = machine.disk_faults
            faults.wait_s, faults.stalls, faults.not_cached = DEVICE_S, STALLS, NOT_CACHED
            self.nodes[node_id] = BrokerNode(machine, plan.settings(node_id), unexpected)

    @property
    def controller(self) -> BrokerNode:
        """Return the node that is the controller, too."""
        return self.nodes[CONTROLLER_ID]

    def serving(self) -> Iterator[tuple[int, Parts]]:
        """Yield the ids and the parts of the brokers that run and have begun to serve."""
        for node_id, node in self.nodes.items():
            if node.serving and node.parts is not None:
                yield node_id, node.parts

    def image(self) -> MetadataImage | None:
        """Return the newest image that the controller has committed, or None while it is down."""
        node = self.controller
        return node.parts.quorum.images.committed if node.serving and node.parts is not None else None

    def placed(self, place: Place) -> PartitionImage | None:
        """Return a partition in the newest image, or None while the controller is down."""
        image = self.image()
        return None if image is None else image.topics.partition(*place)

    def replica(self, node_id: int, place: Place) -> Partition | None:
        """Return the replica of a partition on a broker that serves, or None."""
        node = self.nodes.get(node_id)  # a partition without a leader names node -1
        if node is None or not node.serving or node.parts is None:
            return None
        for topic in node.parts.replicas.topics():
            if topic.name == place[0]:
                return topic.partitions.get(place[1])
        return None

    @property
    def node_ids(self) -> list[int]:
        """Return the ids of all nodes, that of the controller first."""
        return sorted(self.nodes)

    def start_core(self) -> None:
        """Start all nodes that have ended, except those of `held`."""
        for node_id, node in self.nodes.items():
            if node_id not in self.held:
                node.start()

    def is_expendable(self, node_id: int) -> bool:
        """Whether all replicas of the node's partitions on other brokers can be elected, and there is at least one."""
        image = self.image()
        if image is None:
            return False
        for topic in image.topics.by_name.values():
            for placed in topic.partitions.values():
                others = {*placed.replicas} - {node_id, *placed.adding}
                if node_id in placed.replicas and not (others and others <= electable(image, placed)):
                    return False
        return True

    def is_spare(self, node_id: int) -> bool:
        """Whether the node has left all ISRs, and another broker can lead each of its partitions."""
        image = self.image()
        return image is not None and all(
            electable(image, placed) and node_id not in placed.isr
            for topic in image.topics.by_name.values()
            for placed in topic.partitions.values()
            if node_id in placed.replicas
        )

    def registration(self, node_id: int) -> BrokerImage | None:
        """Return a node's newest registration, or None if it is unknown."""
        image = self.image()
        return None if image is None else image.cluster.brokers.get(node_id)

    def broker_epoch(self, node_id: int) -> int:
        """Return the epoch of a node's newest registration, -1 if it is unknown."""
        known = self.registration(node_id)
        return -1 if known is None else known.epoch

    def is_refilled(self, node_id: int, broker_epoch: int) -> bool:
        """Whether the node has registered since `broker_epoch`, and all replicas of all partitions are in sync."""
        image = self.image()
        return (
            image is not None
            and self.broker_epoch(node_id) > broker_epoch
            and all(
                {*placed.replicas} == electable(image, placed)
                for topic in image.topics.by_name.values()
                for placed in topic.partitions.values()
            )
        )

    async def start_all(self) -> list[str]:
        """Start all nodes at once except those of `held`, and wait until all of them serve. Return no findings."""
        async with trio.open_nursery() as nursery:
            for node_id, node in self.nodes.items():
                if node_id not in self.held:
                    nursery.start_soon(node.wait_serving)
        return []

    async def keep_up(self, dice: Random) -> None:
        """Start nodes that have ended again, a random time later, until cancelled."""
        while True:
            await trio.sleep(dice.uniform(0, DOWN_S_MAX))
            self.start_core()


def electable(image: MetadataImage, placed: PartitionImage) -> set[int]:
    """Return the members of the ISR that can be elected: the controller knows no failure of their directories."""
    brokers = image.cluster.brokers
    return {member for member in placed.isr if brokers[member].is_online(placed.directory(member))}
