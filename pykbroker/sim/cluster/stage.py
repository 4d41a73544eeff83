"""The objects that all clients of a simulated cluster share."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pykbroker.core.metadata.image import PartitionImage
from pykbroker.sim.client import Dialer
from pykbroker.sim.cluster.connection import ClusterDialer
from pykbroker.sim.cluster.producer_ids import IssuedProducerIds
from pykbroker.sim.history import Place
from pykbroker.sim.network import Network
from pykbroker.sim.simulation import Simulation
from pykbroker.sim.stage import Stage


class ClusterStage(Stage):
    """A stage whose clients connect to all brokers. `brokers` has their addresses.

    `placed` returns a partition in the newest committed metadata, or None while the controller is down.
    """

    placed: Callable[[Place], PartitionImage | None]

    def __init__(
        self, simulation: Simulation, network: Network, brokers: list[tuple[str, int]], topics: list[str]
    ) -> None:
        super().__init__(simulation, network, brokers[0], topics)
        self._brokers = brokers
        self._producer_ids = IssuedProducerIds(self.unexpected)
        self.replicated = len(brokers) > 1

    def leader_epochs(self, places: Iterable[Place]) -> tuple[int, ...] | None:
        """Return the leader epochs of partitions, or None while they are unknown."""
        found = [self.placed(place) for place in places]
        known = tuple(one.leader_epoch for one in found if one is not None)
        return known if len(known) == len(found) else None

    def dialer(self, name: str, label: str = "") -> Dialer:
        """Return a connector for the client with this name. Its random numbers depend on `name` and `label`."""
        dice = self.dice(name + label)
        return ClusterDialer(self.net(name), name, self._brokers, self.topics, dice, self._producer_ids)
