"""A limit on the rate at which background work reads and writes."""

from __future__ import annotations

from collections.abc import Callable

import trio


class Pace:
    """A rate limit. A call with a number of bytes waits until the average rate is within the limit.

    `bytes_per_second` is called for the current limit every time, since the config may change.
    """

    def __init__(self, bytes_per_second: Callable[[], float]) -> None:
        self._bytes_per_second = bytes_per_second
        self._free_at = 0.0

    async def __call__(self, size: int) -> None:
        now = trio.current_time()
        self._free_at = max(now, self._free_at) + size / self._bytes_per_second()
        if self._free_at > now:
            await trio.sleep(self._free_at - now)
