"""The rates of an authorizer's decisions, as Kafka has them (KIP-877)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import trio

from pykbroker.core.security.acl.authorizer import AclAuthorizer

WINDOW_S = 30
MINUTE_NS = 60_000_000_000


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
        self._windows = self._now(), self._now()

    async def run(self) -> None:
        """Begin a new window every `WINDOW_S` until cancelled."""
        while True:
            await trio.sleep(WINDOW_S)
            self._windows = self._windows[1], self._now()

    def statistics(self) -> AuthorizerStatistics:
        """Return the current rates."""
        begin, now = self._windows[0], self._now()
        minutes = max(now.at - begin.at, 1) / MINUTE_NS
        return AuthorizerStatistics(
            self._authorizer.acl_count, (now.allowed - begin.allowed) / minutes, (now.denied - begin.denied) / minutes
        )

    def _now(self) -> _Begin:
        return _Begin(self._ticks(), self._authorizer.allowed, self._authorizer.denied)
