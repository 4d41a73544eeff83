"""The interface of members of both group protocols."""

from __future__ import annotations

from typing import Protocol

from pykbroker.sim.client import SimConnection
from pykbroker.sim.groups.offsets import Committer
from pykbroker.sim.history import Place

SESSION_S, REBALANCE_S = 3.0, 3.0
"""The session timeout and the rebalance timeout, in seconds."""


class SimMember(Protocol):
    """A member of a group. It owns partitions from `enter` until `leave`, or until an error `Evicted`."""

    @property
    def name(self) -> str:
        """Return the name of the client. Unlike the member id it never changes."""

    @property
    def group(self) -> str: ...

    @property
    def owned(self) -> tuple[Place, ...]:
        """Return the partitions that the member owns."""

    @property
    def identity(self) -> Committer:
        """Return the identity of the member in requests to the coordinator."""

    @property
    def lives_until_s(self) -> float:
        """Return the time before which the session cannot expire, since a heartbeat was answered.

        A repeated SyncGroup response does not renew a classic session, as in Kafka 4.3.
        """

    async def enter(self, connection: SimConnection) -> None:
        """Join the group, or continue the membership on another connection. Raise Evicted or an error of LOST."""

    async def beat(self, connection: SimConnection) -> None:
        """Send a heartbeat. Raise Evicted or an error of LOST."""

    async def leave(self, connection: SimConnection) -> None:
        """Leave the group. Raise an error of LOST if the connection is lost."""

    def forget(self, *, forgotten: bool) -> None:
        """End the membership. `forgotten` is true if the coordinator has removed the member id."""
