"""The rates of an authorizer's decisions, as Kafka has them (KIP-877)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import trio

from pykbroker.core.security.acl.authorizer import AclAuthorizer

WINDOW_S = 30
SECOND_NS, MINUTE_NS = 1_000_000_000, 60_000_000_000


class AuthorizerStatistics(msgspec.Struct, frozen=True):
    """The number of ACLs, and the decisions per minute in the last 30 to 60 s."""

    acls: int
    allowed_per_minute: float
    denied_per_minute: float


class _Begin(NamedTuple):
    """The time of the beginning of a window, and the decisions until then."""

    at: int
    allowed: int
    denied: int


class DecisionRates:
    """The rates of one authorizer. `ticks` returns ns of a monotonic clock."""

    def __init__(self, authorizer: AclAuthorizer, ticks: Callable[[], int]) -> None:
        self._authorizer, self._ticks = authorizer, ticks
        now = self._now()
        # As in Kafka, an empty window precedes the start: the first decisions would otherwise be thousands per minute.
        self._windows = now._replace(at=now.at - WINDOW_S * SECOND_NS), now

    async def run(self) -> None:
        """Begin a new window every `WINDOW_S` until cancelled."""
        while True:
            await trio.sleep(WINDOW_S)
            self._windows = self._windows[1], self._now()

    def statistics(self) -> AuthorizerStatistics:
        """Return the current rates."""
        begin, now = self._windows[0], self._now()
        minutes = (now.at - begin.at) / MINUTE_NS
        return AuthorizerStatistics(
            self._authorizer.acl_count, (now.allowed - begin.allowed) / minutes, (now.denied - begin.denied) / minutes
        )

    def _now(self) -> _Begin:
        return _Begin(self._ticks(), self._authorizer.allowed, self._authorizer.denied)
