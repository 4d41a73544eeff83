"""A limit on clients' appends to a partition while its log is copied to another directory."""

from __future__ import annotations

import trio

SHARE = 2
"""The number of bytes that are copied for each byte that clients may append.

The copy then catches up with any producer.
"""
ALLOWANCE_BYTES_MAX = 1 << 20
"""The maximum number of bytes that may be appended at once after an idle time."""


class Throttle:
    """A throttle: an allowance of bytes that clients may append now.

    A batch may be appended while the allowance is above zero, even if the batch is larger than it, so that no batch
    waits for ever. While `is_paused` is true, no client's batch is appended, and no flush on behalf of a client begins.
    """

    def __init__(self) -> None:
        self._allowance_bytes = ALLOWANCE_BYTES_MAX
        self.is_paused = False
        self._changed = trio.Event()

    def admits(self, size: int) -> bool:
        """Whether a batch of `size` bytes may be appended now. If so, the size is subtracted from the allowance."""
        if self.is_paused or self._allowance_bytes <= 0:
            return False
        self._allowance_bytes -= size
        return True

    def take_back(self, size: int) -> None:
        """Add the size of a batch that was admitted, and must be admitted again, since it was not appended."""
        self._allowance_bytes += size

    async def wait(self) -> None:
        """Wait until the allowance grows, or the throttle ends."""
        await self._changed.wait()

    def note_copied(self, size: int) -> None:
        """Add `size` copied bytes to the allowance."""
        self._allowance_bytes = min(self._allowance_bytes + size // SHARE, ALLOWANCE_BYTES_MAX)
        self._wake()

    def pause(self) -> None:
        """Admit no batch until `end` is called."""
        self.is_paused = True

    def end(self) -> None:
        """Remove the limit and wake all waiting appends."""
        self.is_paused = False
        self._allowance_bytes = ALLOWANCE_BYTES_MAX
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
