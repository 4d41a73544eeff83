"""The reply queue of a connection. It appends the buffers of replies to its list `out`, in the order of requests."""

from __future__ import annotations

from pykbroker.server.slot import SLOTS_MAX, Slot
from pykbroker.world.disk import Buffer, FileSlice
from wire.declare import Response


class ReplyQueue:
    """The replies of one connection. Times are in ns of a monotonic clock.

    A reply is written directly to `out` if no earlier reply is outstanding. Otherwise it is kept in a slot.
    """

    __slots__ = ("_unsent_kept_bytes", "out", "slots", "unsent_bytes", "unsent_since")

    def __init__(self, now: int) -> None:
        self.out: list[Buffer | FileSlice] = []
        """The buffers that are ready to be sent. The pump empties the list."""
        self.slots: list[Slot] = []
        self.unsent_since = now
        self.unsent_bytes = 0
        """The number of bytes in replies passed to the pump that are still unsent, in memory and in files."""
        self._unsent_kept_bytes = 0

    def __len__(self) -> int:
        """Return the number of requests that have a slot: waiting requests, and the requests after them."""
        return len(self.slots)

    @property
    def is_full(self) -> bool:
        """Whether no further request may start."""
        return len(self.slots) >= SLOTS_MAX

    @property
    def kept_bytes(self) -> int:
        """Return the memory of waiting requests and of unsent replies."""
        return self._unsent_kept_bytes + sum(slot.kept_bytes for slot in self.slots)

    def answer(self, slot: Slot, response: Response, now: int) -> None:
        """Write the reply of a slot. Then move all replies to `out` that have no waiting request before them."""
        slot.answer(response, now)
        slots = self.slots
        while slots and slots[0].done:
            first = slots.pop(0)
            self.out += first.parts
            first.route.answer_queue_ns += now - first.answered_at

    def hurry(self) -> None:
        """Make each waiting Fetch respond with the records that it has."""
        for slot in self.slots:
            if slot.context.hurry is not None:
                slot.context.hurry()

    def unsent(self, size: int, kept_bytes: int, now: int) -> int:
        """Note that `size` bytes are unsent, `kept_bytes` of them in memory.

        If all bytes are sent now, return the time in ns for which bytes were unsent. Otherwise return 0.
        """
        unsent_ns = 0
        if not self.unsent_bytes:
            self.unsent_since = now
        elif not size:
            unsent_ns = now - self.unsent_since
        self.unsent_bytes, self._unsent_kept_bytes = size, kept_bytes
        return unsent_ns

    def clear(self) -> None:
        """Drop all unsent replies. Requests keep their slots until their work has ended."""
        self.out.clear()
        self.unsent_bytes = self._unsent_kept_bytes = 0
