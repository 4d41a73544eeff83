"""Fixtures of a client's connections and metadata, with a scripted cluster on a network in memory."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from pykbroker.client.metadata import ClusterMetadata, MetadataSettings
from pykbroker.client.node import NodeSettings
from pykbroker.client.nodes import Nodes
from pykbroker.sim.scripted.cluster import ScriptedCluster
from tests.unit.client.loopback import LoopbackNet


def no_jitter(low: float, high: float) -> float:
    """Return the mean, in place of a random number."""
    return (low + high) / 2


class Client:
    """The connections and metadata of one client of `cluster`."""

    def __init__(self, net: LoopbackNet, cluster: ScriptedCluster, nursery: Any) -> None:
        self.net, self.cluster, self._nursery = net, cluster, nursery
        self.uniform: Callable[[float, float], float] = no_jitter

    async def nodes(self, **settings: Any) -> Nodes:
        """Return running connections."""
        nodes = Nodes(self.net, self.uniform, NodeSettings(client_id="test", **settings))
        await self._nursery.start(nodes.run)
        return nodes

    async def metadata(self, nodes: Nodes | None = None, **settings: Any) -> ClusterMetadata:
        """Return running metadata that bootstraps from all nodes, unless `bootstrap` names others."""
        settings.setdefault("bootstrap", self.cluster.bootstrap)
        metadata = ClusterMetadata(nodes or await self.nodes(), self.uniform, MetadataSettings(**settings))
        self._nursery.start_soon(metadata.run)
        return metadata


def started(nursery: Any) -> Client:
    """Return a client of a cluster of three nodes that are up."""
    net = LoopbackNet()
    cluster = ScriptedCluster(lambda _host: net, Random(1), nursery)
    cluster.start()
    return Client(net, cluster, nursery)


@pytest.fixture
async def client(autojump_clock, nursery) -> Client:
    """Return a client of a cluster of three nodes that are up."""
    return started(nursery)
