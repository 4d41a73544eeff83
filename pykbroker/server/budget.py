"""The memory that connections hold between two turns of the loop, and the number of requests that hold connections.

1. The budget is charged for incomplete frames, for requests without a response, and for replies that peers do not take.
   A request that is answered within its turn is not charged: its memory is free before the next connection's turn.
2. While the bytes are spent, only one large frame gets more memory: the frame of the favoured connection. So large
   frames arrive one after the other, and the budget is overdrawn by one request at most. Small requests are served,
   because they hold nothing.
3. While the requests are spent, no connection starts a request.
4. Nothing is dropped here. A connection that has to wait is not read; it stands in a queue until it is `relieved`.
"""

from __future__ import annotations

from typing import Protocol

from pykbroker.core.security.session import Session
from pykbroker.server.ending import ConnectionEnding


class Holder(Protocol):
    """A connection as the budget and the idle check see it."""

    session: Session
    moved_at: int
    """The time at which bytes last came or went."""
    begun_at: int | None
    """The time at which the incomplete frame began; None if there is none."""
    wants_input: bool
    wants_turn: bool
    ended: bool

    @property
    def unsent_bytes(self) -> int:
        """Return the bytes of replies that the peer has not taken, in memory and in files."""

    @property
    def incomplete_bytes(self) -> int:
        """Return the bytes of incomplete frames that have come."""

    def relieved(self) -> None:
        """Go on, because the budget has room; ask again before taking more."""

    def end(self, ending: ConnectionEnding) -> None:
        """Close the connection for this reason."""


class Budget:
    """The budget of one listener. `holders` maps each connection that is charged to its bytes."""

    def __init__(self, bytes_max: int, requests_max: int) -> None:
        self.bytes_max, self.requests_max = bytes_max, requests_max
        self.bytes = self.requests = 0
        self.holders: dict[Holder, int] = {}
        self.is_full = False
        """Whether no request may start: a plain attribute, because every connection reads it in every turn."""
        self._favoured: Holder | None = None
        self._for_bytes: dict[Holder, None] = {}
        self._for_requests: dict[Holder, None] = {}

    @property
    def is_tight(self) -> bool:
        """Whether at least half of the bytes are spent."""
        return 2 * self.bytes >= self.bytes_max

    @property
    def is_spent(self) -> bool:
        """Whether no bytes are left."""
        return self.bytes >= self.bytes_max

    def charge(self, holder: Holder, size: int) -> None:
        """Set the bytes that `holder` is charged for."""
        before = self.holders.get(holder, 0)
        self.bytes += size - before
        if size:
            self.holders[holder] = size
        elif before:
            del self.holders[holder]
        if size < before:
            self._relieve()

    def may_grow(self, holder: Holder) -> bool:
        """Whether `holder` may take memory for a large frame. If not, it is queued until it is relieved."""
        if not self.is_spent or self._favoured is holder:
            return True
        if self._favoured is None:
            self._favoured = holder
            return True
        self._for_bytes[holder] = None
        return False

    def frame_done(self, holder: Holder) -> None:
        """Favour another connection: the large frame of `holder` is complete."""
        if self._favoured is holder:
            self._favoured = None
            self._relieve()

    def hold(self) -> None:
        """Count a request that holds its connection."""
        self.requests += 1
        self.is_full = self.requests >= self.requests_max

    def let_go(self) -> None:
        """Uncount a request that held its connection.

        Waiting connections go on only once there is room for many, or else all would wake for each request.
        """
        self.requests -= 1
        if self.is_full and self.requests <= self.requests_max // 2:
            self.is_full = False
            waiting, self._for_requests = self._for_requests, {}
            for holder in waiting:
                holder.relieved()

    def wait_for_requests(self, holder: Holder) -> None:
        """Queue `holder` until `is_full` is false again."""
        self._for_requests[holder] = None

    def leave(self, holder: Holder) -> None:
        """Remove a closed connection from all queues. It stays charged for its requests until they end."""
        self._for_bytes.pop(holder, None)
        self._for_requests.pop(holder, None)
        self.frame_done(holder)

    def _relieve(self) -> None:
        """Relieve queued connections while there are bytes left, or until one of them is favoured."""
        while self._for_bytes and (not self.is_spent or self._favoured is None):
            holder = next(iter(self._for_bytes))
            del self._for_bytes[holder]
            if self.is_spent:
                self._favoured = holder
            holder.relieved()
