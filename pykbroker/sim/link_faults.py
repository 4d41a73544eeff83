"""The faults of the network between clients and brokers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import ClassVar

import trio

from pykbroker.sim.fault_pace import FaultPace
from pykbroker.sim.network import Network

STALLED, STALL_S_MAX = 0.4, 5.0
"""The fraction of the clients whose connections stall at the same time, and the longest stall in seconds."""


class LinkFaults:
    """Faults that cut, delay or break the connections between a broker and its clients.

    `choose` returns the host of the broker whose connections are cut.
    """

    KINDS: ClassVar = ("isolate", "deafen", "mute", "lose_segments", "stall")

    def __init__(
        self, network: Network, choose: Callable[[], str], clients: list[str], pace: FaultPace, dice: Random
    ) -> None:
        self._network, self._choose, self._clients = network, choose, clients
        self._pace, self._dice = pace, dice

    async def isolate(self) -> None:
        """Cut all traffic between the clients and the broker."""
        await self._cut(deaf=True, mute=True)

    async def deafen(self) -> None:
        """Drop all traffic to the broker."""
        await self._cut(deaf=True, mute=False)

    async def mute(self) -> None:
        """Drop all traffic from the broker."""
        await self._cut(deaf=False, mute=True)

    async def lose_segments(self) -> None:
        """Lose TCP segments and reset connections at random."""
        before = self._network.faults
        self._network.faults = replace(before, lost=0.05, reset=0.01)
        await self._pace.wait_during()
        self._network.faults = before

    async def stall(self) -> None:
        """Delay the sent segments of some clients. Their new connections are not delayed."""
        for client in self._clients:
            if self._dice.random() < STALLED:
                until_s = trio.current_time() + self._dice.uniform(0.2, STALL_S_MAX)
                for end in self._network.ends(client):
                    end.stall(until_s)
        await self._pace.wait_during()

    async def _cut(self, *, deaf: bool, mute: bool) -> None:
        broker = self._choose()
        for client in self._clients:
            if deaf:
                self._network.cut(client, broker)
            if mute:
                self._network.cut(broker, client)
        await self._pace.wait_during()
        self._network.heal()
