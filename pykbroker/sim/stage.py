"""The objects that all clients of a run share: their networks, the clock, and the list of unexpected responses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from random import Random
from typing import TypeVar

from pykbroker.sim.client import Dialer, SimConnection
from pykbroker.sim.history import Place
from pykbroker.sim.net import SimNet
from pykbroker.sim.network import Network
from pykbroker.sim.poison import WALL_S
from pykbroker.sim.process import Process
from pykbroker.sim.simulation import Simulation

T = TypeVar("T")
OVERSEER = "overseer"


class Stage:
    """The objects that all clients share. Clients request the ids of the topics in `topics`.

    `unexpected` has a description of each response that no client should ever get. An operator may have had the records
    below the offsets in `deleted` deleted.
    """

    replicated = False
    """Whether partitions have several replicas."""

    def __init__(self, simulation: Simulation, network: Network, broker: tuple[str, int], topics: list[str]) -> None:
        self._simulation, self._network, self._broker, self.topics = simulation, network, broker, topics
        self._process = Process("clients")
        self._nets: dict[str, SimNet] = {}
        self.unexpected: list[str] = []
        self.deleted: dict[Place, int] = {}

    def dialer(self, name: str, label: str = "") -> Dialer:
        """Return a connector for the client with this name. Its random numbers depend on `name` and `label`."""
        return Dialer(self.net(name), name, self._broker, self.topics, self._simulation.dice(name + label))

    def dialers(self, name: str) -> tuple[Dialer, Dialer]:
        """Return two connectors for a client with two connections."""
        return self.dialer(name), self.dialer(name, " second")

    def net(self, host: str) -> SimNet:
        """Return the network of a client's host, which runs until the simulation ends."""
        if host not in self._nets:
            net = self._nets[host] = SimNet(self._network, self._process, host, self._simulation.dice(f"net of {host}"))
            self._simulation.start(self._process, net.run)
        return self._nets[host]

    def dice(self, label: str) -> Random:
        """Return a random generator for one part of a client."""
        return self._simulation.dice(label)

    def leader_epochs(self, places: Iterable[Place]) -> tuple[int, ...] | None:
        """Return the leader epochs of partitions, or None while they are unknown. One broker leads all for ever."""
        return tuple(0 for _ in places)

    def wall_ms(self) -> int:
        """Return the correct time in milliseconds since 1970."""
        return int((WALL_S + self._simulation.now) * 1000)

    async def until_answered(self, request: Callable[[SimConnection], Awaitable[T]]) -> T:
        """Repeat a request of the checkers until the broker answers."""
        return await self.dialer(OVERSEER).until_answered(request)
