"""How many may connect, how many of one address, and how fast. Sources: KIP-402, KIP-612.

Over the bounds on all connections and on their rate a peer waits in the backlog; one too many of an address is closed.
"""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.server.limits import UNLIMITED, Limits

SECOND_NS = 1_000_000_000


class ConnectionQuotas:
    """`ticks` gives ns of a clock that only rises."""

    def __init__(self, limits: Limits, ticks: Callable[[], int]) -> None:
        self._ticks = ticks
        self._open = 0
        self._of_host: dict[str, int] = {}
        self.limit(limits)
        self._credit, self._credited_at = self._credit_max, ticks()

    def limit(self, limits: Limits) -> None:
        """These hold from now on. Who is connected stays so, and credit for a second of the new rate at most."""
        self._limits = limits
        self._per_s = limits.connections_per_s_max
        self._credit_max = self._per_s * SECOND_NS

    def has_room(self) -> bool:
        """May another peer be accepted now?"""
        return self._open < self._limits.connections_max and (self._per_s >= UNLIMITED or self._earned() >= SECOND_NS)

    def admit(self, host: str) -> bool:
        """Count a peer that was accepted. False: it is one too many of its address, and counts no more."""
        if self._per_s < UNLIMITED:
            self._credit -= SECOND_NS
        count = self._of_host.get(host, 0)
        if count >= self._limits.connections_per_ip_overrides.get(host, self._limits.connections_per_ip_max):
            return False
        self._of_host[host] = count + 1
        self._open += 1
        return True

    def release(self, host: str) -> None:
        """A peer that was admitted has gone."""
        self._open -= 1
        self._of_host[host] -= 1
        if not self._of_host[host]:
            del self._of_host[host]

    def _earned(self) -> int:
        """The credit: a connection costs SECOND_NS, every ns earns the rate, and a second's worth can be saved up."""
        now = self._ticks()
        self._credit = min(self._credit_max, self._credit + (now - self._credited_at) * self._per_s)
        self._credited_at = now
        return self._credit
