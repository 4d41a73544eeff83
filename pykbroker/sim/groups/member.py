"""The interface that members of both group protocols share."""

from __future__ import annotations

from typing import Protocol

from pykbroker.sim.client import SimConnection
from pykbroker.sim.groups.offsets import Committer
from pykbroker.sim.history import Place

SESSION_S, REBALANCE_S = 3.0, 3.0
"""Timeouts: how long a member may be silent, and how long the others wait for it to join again."""


class SimMember(Protocol):
    """A member of a group. It owns partitions between `enter` and `leave`, or until it is `Evicted`."""

    @property
    def name(self) -> str:
        """Return a name that, unlike the member id, never changes."""

    @property
    def group(self) -> str:
        """Return the member's group id."""

    @property
    def owned(self) -> tuple[Place, ...]:
        """Return the partitions that the member owns."""

    @property
    def who(self) -> Committer:
        """Return the member as coordinators know it."""

    @property
    def lives_until_s(self) -> float:
        """Return the time before which the session cannot expire, because a heartbeat was answered.

        A repeated assignment does not renew a classic session, in Kafka 4.3 either.
        """

    async def enter(self, connection: SimConnection) -> None:
        """Join, or continue on another connection. Evicted, LOST."""

    async def beat(self, connection: SimConnection) -> None:
        """Send a heartbeat. Evicted, LOST."""

    async def leave(self, connection: SimConnection) -> None:
        """Leave the group. LOST."""

    def forget(self, *, forgotten: bool) -> None:
        """End the membership. `forgotten`: the coordinator does not know the member id any more either."""
