"""Reading and writing no faster than a config allows, for work that nobody waits for."""

from __future__ import annotations

from collections.abc import Callable

import trio


class Pace:
    """Called with the bytes that were just moved, waits until they keep within the rate, which is asked each time."""

    def __init__(self, bytes_per_second: Callable[[], float]) -> None:
        self._bytes_per_second = bytes_per_second
        self._free_at = 0.0

    async def __call__(self, size: int) -> None:
        now = trio.current_time()
        self._free_at = max(now, self._free_at) + size / self._bytes_per_second()
        if self._free_at > now:
            await trio.sleep(self._free_at - now)
