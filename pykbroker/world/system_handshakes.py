"""The handshakes of TLS, which get at most a quarter of the event loop while other connections wait for it.

A step of a handshake takes from 0.1 to 1 ms, as long as fifty small requests. When a broker or a network comes back,
many clients connect at once. Addresses take turns, so that a stranger who opens thousands of connections delays the
handshake of another address by one step. Handshakes that have begun take turns with those that have not: of thousands,
many are then done in time. If all began first, each would take as long as all of them.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Protocol

import trio

from pykbroker.world.fair_lock import FairQueue
from pykbroker.world.system_pump import SocketPump

OTHERS_SHARE = 3
"""The time that others get while they wait, as a multiple of that of the handshake before."""
HANDSHAKE_NS_MAX = 10_000_000_000
"""The time after which a connection ends whose handshake is not done."""
HANDSHAKES_MAX = 10_000
"""The number of handshakes above which further peers wait in the backlog. One that has not begun takes 11 KiB."""
AWAITED_MAX = 1000
"""The number of handshakes that wait for peers who have connected. One that OpenSSL has answered takes 46 KiB.

When there is one more, the longest waiting one ends of the address that has the most of them: a stranger ends its own.
An honest peer answers within a round trip, unless it opens as many connections at once. It then has to connect again
with some of them.
"""
LOOK_S = 1.0
"""The interval at which late handshakes are looked for."""


class Handshake(Protocol):
    """A pump whose handshake is not done."""

    fd: int
    key: str
    """The key of the peer's address, for its turns. It is empty if this process has opened the connection."""

    @property
    def has_begun(self) -> bool:
        """Whether the first message of a client has been sent or handled."""

    def shake(self) -> None:
        """Do a step of the handshake."""

    def lose(self, error: OSError) -> None:
        """Close the connection."""


class Handshakes:
    """The handshakes of a network that are not done. `ticks` returns ns of a monotonic clock."""

    def __init__(self, ticks: Callable[[], int]) -> None:
        self._ticks = ticks
        self.pumps: dict[int, SocketPump] = {}
        """The pumps of these connections, by descriptor."""
        self.waiting = 0
        """The number of pumps that have a step to do."""
        self._begun_waiting, self._new_waiting = FairQueue[Handshake](), FairQueue[Handshake]()
        """The pumps of handshakes that have begun, and those of all others."""
        self._is_turn_of_new = True
        self._awaited: dict[str, dict[Handshake, None]] = {}
        """The pumps that wait for peers who have connected, by key, the longest waiting first."""
        self._awaited_count = 0
        self._late_at: dict[Handshake, int] = {}
        self._begun = trio.Event()
        self._rested_at = ticks()
        self._owed_ns = 0

    @property
    def is_full(self) -> bool:
        """Whether no further handshake may begin now."""
        return len(self._late_at) >= HANDSHAKES_MAX

    def begin(self, pump: Handshake) -> None:
        """Note that a handshake begins."""
        self._late_at[pump] = self._ticks() + HANDSHAKE_NS_MAX
        self._begun.set()
        self._await(pump)

    def wait(self, pump: Handshake) -> None:
        """Queue a handshake for its next step."""
        self._await_no_more(pump)
        self.waiting += 1
        (self._begun_waiting if pump.has_begun else self._new_waiting).add(pump.key, pump)

    def forget(self, pump: Handshake) -> None:
        """Note that a handshake is done, or has failed."""
        if self._late_at.pop(pump, None) is not None:
            self.pumps.pop(pump.fd, None)
            self._await_no_more(pump)

    def _await(self, pump: Handshake) -> None:
        """Note that a handshake waits for its peer, and end another one if there are too many."""
        if not pump.key:
            return
        awaited = self._awaited.setdefault(pump.key, {})
        self._awaited_count += pump not in awaited
        awaited[pump] = None
        if self._awaited_count > AWAITED_MAX:
            most: dict[Handshake, None] = max(self._awaited.values(), key=len)
            next(iter(most)).lose(ConnectionAbortedError(errno.ECONNABORTED, "too many handshakes of TLS"))

    def _await_no_more(self, pump: Handshake) -> None:
        awaited = self._awaited.get(pump.key, {})
        if pump in awaited:
            del awaited[pump]
            self._awaited_count -= 1
            if not awaited:
                del self._awaited[pump.key]

    def _pop(self) -> Handshake:
        self.waiting -= 1
        turn, other = self._begun_waiting, self._new_waiting
        if self._is_turn_of_new:
            turn, other = other, turn
        self._is_turn_of_new = not self._is_turn_of_new
        return turn.pop() if turn else other.pop()

    def step(self, *, others_wait: bool) -> None:
        """Do one step, unless other connections wait and have not had their share since the step before."""
        now = self._ticks()
        self._owed_ns = max(0, self._owed_ns - (now - self._rested_at)) if others_wait else 0
        if not self._owed_ns:
            pump = self._pop()
            if pump in self._late_at:
                pump.shake()
            if pump in self._late_at:
                self._await(pump)
            self._owed_ns = OTHERS_SHARE * (self._ticks() - now)
        self._rested_at = self._ticks()

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """End late handshakes until cancelled."""
        while True:
            await self._begun.wait()
            await trio.sleep(LOOK_S)
            now = self._ticks()
            for pump in [pump for pump, late_at in self._late_at.items() if late_at <= now]:
                pump.lose(TimeoutError(errno.ETIMEDOUT, "the handshake of TLS took too long"))
            if not self._late_at:
                self._begun = trio.Event()
