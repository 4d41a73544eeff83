"""A client that commits and fetches offsets of a group without being a member, as tools do."""

from __future__ import annotations

import trio

from pykbroker.sim.client import LOST, Dialer, SimConnection
from pykbroker.sim.groups.history import Commit, GroupHistory
from pykbroker.sim.groups.offsets import NOBODY, commit_offsets, fetch_offsets
from pykbroker.sim.groups.refusal import Evicted
from pykbroker.sim.groups.worker import THINK_S
from pykbroker.sim.history import Place
from wire.messages.find_coordinator import CoordinatorType

COMMITS = 0.7
"""The chance that a commit is sent between two fetches."""


class OffsetClient:
    """A client that is no member.

    If `stable` is true, it always requests stable offsets, which no open transaction can change.
    """

    def __init__(
        self,
        name: str,
        group: str,
        dialers: tuple[Dialer, Dialer],
        history: GroupHistory,
        places: tuple[Place, ...],
        *,
        stable: bool = False,
    ) -> None:
        self.name, self._group, self._dialers, self._dice = name, group, dialers, dialers[0].dice
        self._history, self._places, self._marks, self._stable = history, places, 0, stable

    async def run(self) -> None:
        """Commit and fetch until cancelled."""
        one, other = self._dialers
        while True:
            try:
                async with one.connected() as first, other.connected() as second:
                    await first.find_coordinator(self._group, CoordinatorType.GROUP)
                    while True:
                        await trio.sleep(self._dice.expovariate(1 / THINK_S))
                        await self._act(first, second)
            except* (*LOST, Evicted):
                pass

    async def _act(self, first: SimConnection, second: SimConnection) -> None:
        """Fetch offsets on one connection while a commit is in flight on the other."""
        async with trio.open_nursery() as nursery:
            if self._dice.random() < COMMITS:
                nursery.start_soon(self._commit, first)
            nursery.start_soon(self._fetch, second)

    async def _commit(self, connection: SimConnection) -> None:
        commits = []
        for place in sorted(self._dice.sample(self._places, self._dice.randrange(1, len(self._places) + 1))):
            self._marks += 1
            commits.append(
                Commit(
                    self._group, place, self._dice.randrange(1000), f"{self.name}/{self._marks}", trio.current_time()
                )
            )
        await commit_offsets(connection, self._history, commits, NOBODY)

    async def _fetch(self, connection: SimConnection) -> None:
        await fetch_offsets(
            connection,
            self._history,
            self.name,
            self._group,
            self._places,
            stable=self._stable or self._dice.random() < 0.5,
        )
