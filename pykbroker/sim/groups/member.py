"""What both kinds of members of a group have in common, for whoever works with them."""

from __future__ import annotations

from typing import Protocol

from pykbroker.sim.client import SimConnection
from pykbroker.sim.groups.offsets import Committer
from pykbroker.sim.history import Place

SESSION_S, REBALANCE_S = 3.0, 3.0
"""Timeouts: how long a member may be silent, and how long the others wait for it to join again."""


class SimMember(Protocol):
    """Owns partitions between `enter` and `leave`, or until it is `Evicted`."""

    @property
    def name(self) -> str:
        """Unlike its id, the same for ever."""

    @property
    def group(self) -> str:
        """Whose member it is."""

    @property
    def owned(self) -> tuple[Place, ...]:
        """What it works on."""

    @property
    def who(self) -> Committer:
        """As coordinators know it."""

    @property
    def lives_until_s(self) -> float:
        """Before that its session cannot have run out: a heartbeat was answered.

        That an assignment was told once more renews no classic session, nor does it in Kafka 4.3.
        """

    async def enter(self, connection: SimConnection) -> None:
        """Join, or go on on another connection. Evicted, LOST."""

    async def beat(self, connection: SimConnection) -> None:
        """Show that it lives. Evicted, LOST."""

    async def leave(self, connection: SimConnection) -> None:
        """Go by itself. LOST."""

    def forget(self, *, forgotten: bool) -> None:
        """It is no member any more; `forgotten`: nor is it known by its id."""
