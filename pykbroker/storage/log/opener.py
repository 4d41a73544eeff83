"""A limit on the number of batches that are decompressed in threads at a time, and of logs that write their last files.

All logs share one `Opener`, which bounds the memory. A batch takes at most `LogConfig.decompressed_bytes_max` bytes of
memory, and up to three times as much while it is recompressed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import trio

from pykbroker.world.off_loop import OffLoop

T = TypeVar("T")
OPENED_AT_ONCE_MAX = 2


class Opener:
    """A limited `OffLoop`: it runs functions that decompress a batch, or write the last files of a log, in threads.

    At most `OPENED_AT_ONCE_MAX` functions run at a time. Later calls wait in order.
    """

    def __init__(self, off_loop: OffLoop) -> None:
        self._off_loop, self._turns = off_loop, trio.Semaphore(OPENED_AT_ONCE_MAX)

    async def __call__(self, function: Callable[..., T], *args: object) -> T:
        """Return the result of `function(*args)`, or raise its error. A call that waits may be cancelled."""
        async with self._turns:
            return await self._off_loop(function, *args)
