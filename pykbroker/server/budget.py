"""The memory budget for requests and replies, and the limit on the number of requests that block their connections.

1. The budget is charged for incomplete frames, for requests without a response, and for replies that clients have not
   read. A request that is answered at once is not charged, since its memory is free before the next connection is
   served.
2. While no bytes are left, only one connection at a time, the favoured one, gets memory for a large frame. Large frames
   then arrive one after the other, and the budget is exceeded by at most one request. Small requests are still served,
   because they are not charged.
3. While the limit on requests is reached, no connection starts a request. A request that waits for another node does
   not count, although it blocks its connection: each connection has at most one, and all are charged for their bytes.
4. No request is dropped. A connection that has to wait is not read, and is queued until its `relieved` is called.
"""

from __future__ import annotations

from typing import Protocol

from pykbroker.core.security.session import Session
from pykbroker.server.ending import ConnectionEnding


class Holder(Protocol):
    """The interface of a connection that the budget and the idle check use."""

    session: Session
    moved_at: int
    """The time at which bytes were last received or sent."""
    begun_at: int | None
    """The time at which the first byte of the incomplete frame was received, or None without an incomplete frame."""
    wants_input: bool
    wants_turn: bool
    ended: bool

    @property
    def unsent_bytes(self) -> int:
        """Return the number of unsent bytes of replies, in memory and in files."""

    @property
    def incomplete_bytes(self) -> int:
        """Return the number of received bytes of incomplete frames."""

    def relieved(self) -> None:
        """Continue, because the budget has room again. The connection asks again before it takes more memory."""

    def end(self, ending: ConnectionEnding) -> None:
        """Close the connection for this reason."""


class Budget:
    """The memory budget of all connections. `holders` maps each charged connection to its bytes."""

    def __init__(self, bytes_max: int, requests_max: int) -> None:
        self.bytes_max, self.requests_max = bytes_max, requests_max
        self.bytes = self.requests = 0
        self.holders: dict[Holder, int] = {}
        self.is_full = False
        """Whether no request may start. It is a plain attribute, since every connection reads it for each request."""
        self._favoured: Holder | None = None
        self._for_bytes: dict[Holder, None] = {}
        self._for_requests: dict[Holder, None] = {}

    @property
    def is_tight(self) -> bool:
        """Whether at least half of the bytes are charged."""
        return 2 * self.bytes >= self.bytes_max

    @property
    def is_spent(self) -> bool:
        """Whether all bytes are charged."""
        return self.bytes >= self.bytes_max

    def charge(self, holder: Holder, size: int) -> None:
        """Set the number of bytes that `holder` is charged."""
        before = self.holders.get(holder, 0)
        self.bytes += size - before
        if size:
            self.holders[holder] = size
        elif before:
            del self.holders[holder]
        if size < before:
            self._relieve()

    def may_grow(self, holder: Holder) -> bool:
        """Whether `holder` may take memory for a large frame. If not, it is queued until its `relieved` is called."""
        if not self.is_spent or self._favoured is holder:
            return True
        # One connection may always complete its frame. Otherwise all could wait, each with a part of a frame.
        if self._favoured is None:
            self._favoured = holder
            return True
        self._for_bytes[holder] = None
        return False

    def frame_done(self, holder: Holder) -> None:
        """Note that the large frame of `holder` is complete, so that another connection may be favoured."""
        if self._favoured is holder:
            self._favoured = None
            self._relieve()

    def hold(self) -> None:
        """Count a request that blocks its connection."""
        self.requests += 1
        self.is_full = self.requests >= self.requests_max

    def let_go(self) -> None:
        """Subtract a request that no longer blocks its connection.

        Waiting connections continue only after room for many requests is free. Otherwise all of them would wake up for
        each request.
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
        """Let queued connections continue while bytes are left, or until one of them is favoured."""
        while self._for_bytes and (not self.is_spent or self._favoured is None):
            holder = next(iter(self._for_bytes))
            del self._for_bytes[holder]
            if self.is_spent:
                self._favoured = holder
            holder.relieved()
