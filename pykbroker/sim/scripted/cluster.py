"""A cluster of scripted nodes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any

import trio

from pykbroker.sim.scripted.groups import ScriptedGroups
from pykbroker.sim.scripted.node import NodeAnswer, ScriptedNode
from pykbroker.sim.scripted.state import ScriptedState
from pykbroker.sim.scripted.transactions import ScriptedTransactions
from pykbroker.world.net import Net
from wire.api import ApiKey
from wire.declare import Response
from wire.header import RequestHeader

PORT = 9092


class ScriptedCluster:
    """A cluster whose nodes 1, 2, … have the hosts `node1`, `node2`, … and the port 9092.

    `net_of` returns the network of a host.
    """

    def __init__(
        self,
        net_of: Callable[[str], Net],
        rng: Random,
        nursery: trio.Nursery,
        node_count: int = 3,
        answers: Mapping[ApiKey, NodeAnswer] | None = None,
    ) -> None:
        hosts = {node_id: f"node{node_id}" for node_id in range(1, node_count + 1)}
        self.state = ScriptedState(rng, {node_id: (host, PORT) for node_id, host in hosts.items()})
        self.groups = ScriptedGroups(self.state, rng, nursery)
        self.transactions = ScriptedTransactions(self.state, self.groups, nursery)
        all_answers = {**self.groups.answers(), **self.transactions.answers(), **(answers or {})}
        self.nodes = {
            node_id: ScriptedNode(node_id, net_of(host), self.state, all_answers, nursery)
            for node_id, host in hosts.items()
        }

    @property
    def bootstrap(self) -> tuple[tuple[str, int], ...]:
        """Return the addresses of all nodes."""
        return tuple(self.state.addresses.values())

    def start(self) -> None:
        for node in self.nodes.values():
            node.start()

    def make_stale(self, node_id: int) -> None:
        """Let a node answer Metadata from the state of this moment, until `make_current`."""
        self.nodes[node_id].stale = self.state.copy()

    def make_current(self, node_id: int) -> None:
        """Let a node answer Metadata from the current state."""
        self.nodes[node_id].stale = None

    def requests_of(self, key: ApiKey) -> list[Any]:
        """Return the bodies of all requests of an API, node by node."""
        return [request for node in self.nodes.values() for request in node.requests_of(key)]

    def script(
        self, key: ApiKey, answer: Callable[[ScriptedNode, Any], Awaitable[Response | None]], times: int | None = None
    ) -> None:
        """Let `answer` answer the requests of an API on all nodes, at most `times` times in total.

        If it returns None, the node answers as usual. It may raise Dropped or NoAnswer.
        """
        left = [times]

        async def scripted(node: ScriptedNode, header: RequestHeader, request: Any) -> Response | None:
            if header.key != key or left[0] == 0:
                return None
            if left[0] is not None:
                left[0] -= 1
            return await answer(node, request)

        for node in self.nodes.values():
            node.scripts.append(scripted)
