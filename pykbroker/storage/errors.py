"""What may stand between a call and its answer: work that must be waited for, and files that do not hold."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from pykbroker.world.disk import NotCached

T = TypeVar("T")
TRIES_MAX = 10_000


class CorruptLog(Exception):
    """Batches that were once stored do not hold any more. Nothing was changed; the partition must not go on."""


class Mismatch(Exception):
    """An index entry points where the log holds something else."""


class Pending(NotCached):
    """A plain call needs something that takes a while: loading, checking, rebuilding."""

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        Exception.__init__(self, work)
        self._work = work

    async def fetch(self) -> None:
        """Do it."""
        await self._work()


async def patiently(call: Callable[[], T]) -> T:
    """The result of a plain call, after waiting for whatever it misses. OSError: it never has enough."""
    for _ in range(TRIES_MAX):
        try:
            return call()
        except NotCached as missing:
            await missing.fetch()
    raise OSError(f"{TRIES_MAX} times in a row, what had just been read was not in memory any more")
