"""The limits on the number and rate of connections, for the broker, for each listener and for each client address.

While a limit on the total or on the rate is reached, new clients wait in the backlog. A connection above the limit of
its address is closed. Sources: KIP-402, KIP-612.
"""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.core.security.session import Session
from pykbroker.server.limits import UNLIMITED, ConnectionLimits, Limits

SECOND_NS = 1_000_000_000


class ConnectionCredit:
    """The open connections of a broker or a listener, and how many new ones its rate limit still allows: the credit.

    `ticks` returns the time of a monotonic clock in ns.
    """

    def __init__(self, limits: ConnectionLimits, ticks: Callable[[], int]) -> None:
        self._ticks = ticks
        self.open = 0
        self.limit(limits)
        self._credit, self._credited_at = self._credit_max, ticks()

    def limit(self, limits: ConnectionLimits) -> None:
        """Apply new limits. Open connections stay open. The credit is limited to one second of the new rate."""
        self._limits = limits
        self._per_s = limits.connections_per_s_max
        self._credit_max = self._per_s * SECOND_NS

    def has_room(self) -> bool:
        """Whether another client may be accepted now."""
        return not self.is_crowded and (self._per_s >= UNLIMITED or self._earned() >= SECOND_NS)

    @property
    def is_crowded(self) -> bool:
        """Whether no more clients may be connected, however slowly they come."""
        return self.open >= self._limits.connections_max

    def spend(self) -> None:
        """Subtract one connection from the credit."""
        if self._per_s < UNLIMITED:
            self._credit -= SECOND_NS

    def _earned(self) -> int:
        """Return the current credit.

        A connection costs `SECOND_NS`, and each ns earns the rate, up to the credit of one second.
        """
        now = self._ticks()
        self._credit = min(self._credit_max, self._credit + (now - self._credited_at) * self._per_s)
        self._credited_at = now
        return self._credit


class ConnectionQuotas:
    """The numbers of connections of all listeners, and their limits."""

    def __init__(self, limits: Limits, ticks: Callable[[], int]) -> None:
        self._limits, self._ticks = limits, ticks
        self._broker = ConnectionCredit(limits.connections, ticks)
        self._listeners = {name: ConnectionCredit(own, ticks) for name, own in limits.listeners.items()}
        self._of_host: dict[str, int] = {}

    def limit(self, limits: Limits) -> None:
        """Apply new limits. A new listener gets its own; one that is gone keeps its count until its clients are."""
        self._limits = limits
        self._broker.limit(limits.connections)
        for name, own in limits.listeners.items():
            if name in self._listeners:
                self._listeners[name].limit(own)
            else:
                self._listeners[name] = ConnectionCredit(own, self._ticks)

    def has_room(self, listener: str) -> bool:
        """Whether another peer may be accepted on this listener now."""
        return all(credit.has_room() for credit in self._credits(listener))

    @property
    def is_crowded(self) -> bool:
        """Whether a client of any listener must leave before another one may be accepted."""
        return self._broker.is_crowded

    def is_crowded_on(self, listener: str) -> bool:
        """Whether a client of this listener must leave before another one may be accepted on it."""
        return listener in self._listeners and self._listeners[listener].is_crowded

    def admit(self, session: Session) -> bool:
        """Count a new session and return True. Return False if its address has too many connections."""
        host = session.client_host
        for credit in self._credits(session.listener):
            credit.spend()
        count = self._of_host.get(host, 0)
        if count >= self._limits.connections_per_ip_overrides.get(host, self._limits.connections_per_ip_max):
            return False
        self._of_host[host] = count + 1
        self._count(session, 1)
        return True

    def release(self, session: Session) -> None:
        """Subtract an admitted session that has ended."""
        host = session.client_host
        self._count(session, -1)
        self._of_host[host] -= 1
        if not self._of_host[host]:
            del self._of_host[host]

    def _count(self, session: Session, change: int) -> None:
        """Change the counts of open connections of the broker and of the session's listener."""
        self._broker.open += change
        if session.listener in self._listeners:
            self._listeners[session.listener].open += change

    def _credits(self, listener: str) -> list[ConnectionCredit]:
        """Return the counts and limits that apply to new connections of a listener."""
        own = [self._listeners[listener]] if listener in self._listeners else []
        return [self._broker, *own]
