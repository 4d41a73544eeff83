"""Throttling appends to a partition while a copy of its log in another directory catches up."""

from __future__ import annotations

import trio

SHARE = 2
"""For each byte that is copied, 1/SHARE of a byte may be appended: the copy catches up however fast producers are."""
ALLOWANCE_BYTES_MAX = 1 << 20
"""What may be appended at once after a pause."""


class Throttle:
    """How many bytes may be appended now. The first batch above the allowance is appended and the next ones wait, so
    that a batch larger than every allowance gets through.

    While `is_paused`, nothing is appended, and the log is not flushed on behalf of a client.
    """

    def __init__(self) -> None:
        self._allowance_bytes = ALLOWANCE_BYTES_MAX
        self.is_paused = False
        self._changed = trio.Event()

    def admits(self, size: int) -> bool:
        """Whether a batch of `size` bytes may be appended now, which the caller then does."""
        if self.is_paused or self._allowance_bytes <= 0:
            return False
        self._allowance_bytes -= size
        return True

    async def wait(self) -> None:
        """Wait until more may be appended, the pause ends, or the throttle does."""
        await self._changed.wait()

    def note_copied(self, size: int) -> None:
        """Allow appends after `size` bytes were copied."""
        self._allowance_bytes = min(self._allowance_bytes + size // SHARE, ALLOWANCE_BYTES_MAX)
        self._wake()

    def pause(self) -> None:
        """Admit nothing until `end`."""
        self.is_paused = True

    def end(self) -> None:
        """Let all who wait go on: the partition has no throttle any more."""
        self.is_paused = False
        self._allowance_bytes = ALLOWANCE_BYTES_MAX
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
