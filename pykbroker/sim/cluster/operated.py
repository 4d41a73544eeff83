"""The base of workloads without records: an operator changes metadata, and a client of each broker watches it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import trio

from pykbroker.sim.stage import Stage
from wire.messages.create_topics import CreatableTopic


class OperatedWorkload(ABC):
    """A workload that matches `workload.Workload`. `brokers` has the addresses by node id, the controller's first.

    What goes wrong is among the unexpected responses of the stage.
    """

    operator: str
    """The name of the operator's host."""

    def __init__(self, stage: Stage, brokers: Mapping[int, tuple[str, int]]) -> None:
        self._stage, self._brokers = stage, brokers
        self._dice, self._operator = stage.dice(self.operator), stage.dialer(self.operator)
        self._stopped, self._idle = False, trio.Event()
        self.acknowledged = self.read = 0

    @property
    def clients(self) -> list[str]:
        """Return the names of the clients' hosts."""
        return [self.operator, *map(self.host_of_client, self._brokers)]

    @property
    def topics(self) -> list[CreatableTopic]:
        """Return one topic, to whose leader faults are done. No records are written to it."""
        return [CreatableTopic(name="spectator", num_partitions=1, replication_factor=1)]

    def start(self, nursery: trio.Nursery) -> None:
        """Run the operator and the clients until the nursery is cancelled."""
        nursery.start_soon(self._operate)
        for node_id in self._brokers:
            nursery.start_soon(self._watch, node_id)

    async def judge(self) -> list[str]:
        """Return no findings."""
        return []

    @staticmethod
    @abstractmethod
    def host_of_client(node_id: int) -> str:
        """Return the name of the host of a broker's client."""

    @abstractmethod
    async def _operate(self) -> None:
        """Change metadata until `_stopped`, then set `_idle`."""

    @abstractmethod
    async def _watch(self, node_id: int) -> None:
        """Ask a broker again and again."""
