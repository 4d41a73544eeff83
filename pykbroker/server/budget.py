"""The memory that connections hold between two turns of the loop, and how many requests they hold up.

1. Charged are incomplete frames, requests that wait for their answers, and answers that peers do not take. What comes
   and is answered within one turn is not: it is gone when the next connection has its turn.
2. While the bytes are spent, no large frame gets more memory, but for one, the favoured: so what has begun gets in, one
   after the other, and the budget is overdrawn by one request at most. Small requests are served, they hold nothing.
3. While the requests are spent, no connection starts another one.
4. Nothing is dropped here. Who has to wait is not read, stands in line, and is `relieved` when it is its turn.
"""

from __future__ import annotations

from typing import Protocol

from pykbroker.server.ending import ConnectionEnding
from pykbroker.world.net import Peer


class Holder(Protocol):
    """A connection as those see it that watch over the memory."""

    peer: Peer
    moved_at: int
    """When a byte last came or went."""
    begun_at: int | None
    """When the frame began that is incomplete, if one is."""
    wants_input: bool
    behind: bool
    ended: bool

    @property
    def owed_bytes(self) -> int:
        """Bytes of replies that the peer has not taken, in memory and in files."""

    @property
    def incomplete_bytes(self) -> int:
        """What has come of a frame that is incomplete."""

    def relieved(self) -> None:
        """There is room: go on, and ask again for what is needed."""

    def end(self, ending: ConnectionEnding) -> None:
        """Close the connection."""


class Budget:
    """`holders` are those that hold something, and how many bytes."""

    def __init__(self, bytes_max: int, requests_max: int) -> None:
        self.bytes_max, self.requests_max = bytes_max, requests_max
        self.bytes = self.requests = 0
        self.holders: dict[Holder, int] = {}
        self.is_full = False
        """No request may start: a plain attribute, for every connection looks at it in every turn."""
        self._favoured: Holder | None = None
        self._for_bytes: dict[Holder, None] = {}
        self._for_requests: dict[Holder, None] = {}

    @property
    def is_tight(self) -> bool:
        """Whether more than half of the bytes are gone."""
        return 2 * self.bytes >= self.bytes_max

    @property
    def is_spent(self) -> bool:
        """Whether there are no bytes left."""
        return self.bytes >= self.bytes_max

    def charge(self, holder: Holder, size: int) -> None:
        """From now on `holder` holds so many bytes in all."""
        before = self.holders.get(holder, 0)
        self.bytes += size - before
        if size:
            self.holders[holder] = size
        elif before:
            del self.holders[holder]
        if size < before:
            self._relieve()

    def may_grow(self, holder: Holder) -> bool:
        """May it take memory for a large frame? If not, it stands in line."""
        if not self.is_spent or self._favoured is holder:
            return True
        if self._favoured is None:
            self._favoured = holder
            return True
        self._for_bytes[holder] = None
        return False

    def frame_done(self, holder: Holder) -> None:
        """Its large frame is complete: another one is favoured."""
        if self._favoured is holder:
            self._favoured = None
            self._relieve()

    def hold(self) -> None:
        """A request is held."""
        self.requests += 1
        self.is_full = self.requests >= self.requests_max

    def let_go(self) -> None:
        """A request is held no more. Who waits goes on when there is room for many, or all would wake for each."""
        self.requests -= 1
        if self.is_full and self.requests <= self.requests_max // 2:
            self.is_full = False
            waiting, self._for_requests = self._for_requests, {}
            for holder in waiting:
                holder.relieved()

    def wait_for_requests(self, holder: Holder) -> None:
        """It stands in line until `is_full` is over."""
        self._for_requests[holder] = None

    def leave(self, holder: Holder) -> None:
        """It is gone, and stands in no line. What its requests still hold stays charged until they end."""
        self._for_bytes.pop(holder, None)
        self._for_requests.pop(holder, None)
        self.frame_done(holder)

    def _relieve(self) -> None:
        """Let those go on that stand in line, as far as there are bytes, or one that is favoured."""
        while self._for_bytes and (not self.is_spent or self._favoured is None):
            holder = next(iter(self._for_bytes))
            del self._for_bytes[holder]
            if self.is_spent:
                self._favoured = holder
            holder.relieved()
