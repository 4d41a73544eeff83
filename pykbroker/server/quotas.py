"""The limits on the number of connections, in total and by address, and on their rate. Sources: KIP-402, KIP-612.

Above the total or the rate, a peer waits in the backlog. Above the limit of its address, its connection is closed.
"""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.core.security.session import Session
from pykbroker.server.limits import UNLIMITED, Limits

SECOND_NS = 1_000_000_000


class ConnectionQuotas:
    """The open connections and the credit for new ones. `ticks` returns the ns of a monotonic clock."""

    def __init__(self, limits: Limits, ticks: Callable[[], int]) -> None:
        self._ticks = ticks
        self._open = 0
        self._of_host: dict[str, int] = {}
        self.limit(limits)
        self._credit, self._credited_at = self._credit_max, ticks()

    def limit(self, limits: Limits) -> None:
        """Apply new limits. Open connections stay open, and the credit stays below one second of the new rate."""
        self._limits = limits
        self._per_s = limits.connections_per_s_max
        self._credit_max = self._per_s * SECOND_NS

    def has_room(self) -> bool:
        """Whether another peer may be accepted now."""
        return self._open < self._limits.connections_max and (self._per_s >= UNLIMITED or self._earned() >= SECOND_NS)

    def admit(self, session: Session) -> bool:
        """Count a new session and return True, or return False if its address has too many connections."""
        if self._per_s < UNLIMITED:
            self._credit -= SECOND_NS
        host = session.client_host
        count = self._of_host.get(host, 0)
        if count >= self._limits.connections_per_ip_overrides.get(host, self._limits.connections_per_ip_max):
            return False
        self._of_host[host] = count + 1
        self._open += 1
        return True

    def release(self, session: Session) -> None:
        """Uncount an admitted peer that has gone."""
        host = session.client_host
        self._open -= 1
        self._of_host[host] -= 1
        if not self._of_host[host]:
            del self._of_host[host]

    def _earned(self) -> int:
        """Return the credit: a connection costs `SECOND_NS`, each ns earns the rate, and one second's worth is kept."""
        now = self._ticks()
        self._credit = min(self._credit_max, self._credit + (now - self._credited_at) * self._per_s)
        self._credited_at = now
        return self._credit
