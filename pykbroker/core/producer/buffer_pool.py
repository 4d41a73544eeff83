"""The memory of a producer: `buffer.memory` bytes, and a line of callers that wait for some of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from pykbroker.core.producer.errors import ProducerClosed, RecordTooLarge


class MemoryTicket:
    """A place in the line for `size` bytes.

    `on_served` is called once the bytes are there or the pool closes, and perhaps again. The owner of a ticket lets it
    leave the line in the end, in any case.
    """

    __slots__ = ("got", "is_closed", "on_served", "size")

    def __init__(self, size: int, on_served: Callable[[], Any]) -> None:
        self.size, self.on_served = size, on_served
        self.got = 0
        self.is_closed = False

    @property
    def is_served(self) -> bool:
        """Whether all bytes are there."""
        return self.got == self.size


class BufferPool:
    """A count of free bytes. Whoever waits longest gets all that is returned, until it has enough.

    An error that a signal handler raises may interrupt each method. The caller then calls `recount`.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = self._free = bytes_max
        self._line: deque[MemoryTicket] = deque()
        self._tickets: dict[MemoryTicket, None] = {}
        """The tickets in line, and those that were served and neither redeemed nor given up."""
        self._is_closed = False

    @property
    def available_bytes(self) -> int:
        """Return the bytes that no batch and no waiting caller has."""
        return self._free

    @property
    def waiting(self) -> int:
        """Return the number of callers in line."""
        return len(self._line)

    def try_take(self, size: int) -> bool:
        """Take the bytes if nobody is in line and so many are free.

        RecordTooLarge: the pool is smaller than `size`. ProducerClosed: the pool is closed.
        """
        self._check(size)
        if self._line or size > self._free:
            return False
        self._free -= size
        return True

    def stand_in_line(self, ticket: MemoryTicket) -> MemoryTicket:
        """Give a ticket the last place in the line, and return it. The errors are those of `try_take`.

        Free bytes go to the line at once, so `on_served` may be called before this returns.
        """
        self._check(ticket.size)
        self._tickets[ticket] = None
        self._line.append(ticket)
        self._serve()
        return ticket

    def leave_line(self, ticket: MemoryTicket) -> None:
        """Give up a place, served or not, and return its bytes, which the next in line gets.

        This does nothing for a ticket that has no place, or that was redeemed.
        """
        if ticket in self._tickets:
            del self._tickets[ticket]
            if ticket in self._line:
                self._line.remove(ticket)
            self.give_back(ticket.got)
        ticket.got = 0

    def redeem(self, ticket: MemoryTicket) -> int:
        """Take the bytes of a served ticket. Raise ProducerClosed if the pool was closed meanwhile."""
        self._check(ticket.size)
        del self._tickets[ticket]
        ticket.got = 0
        return ticket.size

    def give_back(self, size: int) -> None:
        """Return bytes, which serves those in line."""
        self._free += size
        assert self._free <= self.bytes_max, "more bytes came back than were taken"
        self._serve()

    def close(self) -> None:
        """End the wait of everybody in line, and refuse all further requests. Batches still return their bytes."""
        self._is_closed = True
        for ticket in list(self._line):
            ticket.is_closed = True
            ticket.on_served()
            self._free += ticket.got
            ticket.got = 0
            self._tickets.pop(ticket, None)
        self._line.clear()

    def recount(self, held: int) -> None:
        """Complete what was interrupted. `held` are the bytes of all batches."""
        self._line = deque(ticket for ticket in self._line if ticket in self._tickets and not ticket.is_served)
        self._free = self.bytes_max - held - sum(ticket.got for ticket in self._tickets)
        for ticket in self._tickets:
            if ticket.is_served:
                ticket.on_served()
        if self._is_closed:
            self.close()
        self._serve()

    def _serve(self) -> None:
        while self._line and self._free:
            first = self._line[0]
            part = min(self._free, first.size - first.got)
            self._free -= part
            first.got += part
            if not first.is_served:
                return
            self._line.popleft()
            first.on_served()

    def _check(self, size: int) -> None:
        if self._is_closed:
            raise ProducerClosed("the producer is closed")
        if size > self.bytes_max:
            raise RecordTooLarge(f"{size} bytes are more than buffer.memory, which is {self.bytes_max}")
