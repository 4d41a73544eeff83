"""Errors of synchronous calls into a log: `Pending` if the caller must await work first, `CorruptLog` for damage."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

from pykbroker.world.disk import NotCached

T = TypeVar("T")
WAITS_MAX = 10
"""The maximum number of times that one call awaits the same work.

Another task may undo the work before the call is repeated.
"""


class CorruptLog(Exception):
    """An error for damaged stored batches. The call changed nothing, and the partition goes offline."""


class LacksBegin(CorruptLog):
    """An error for a log whose first segments may be missing. The call changed nothing."""


class Mismatch(Exception):
    """An error for an index entry that contradicts the log."""


class Pending(NotCached):
    """An error of a synchronous call whose caller must first await some work, such as the loading of an index.

    `key` names the work and the object of the work. Two errors with equal keys need the same work.
    """

    waits_max = WAITS_MAX

    def __init__(self, work: Callable[[], Awaitable[None]], *key: Hashable) -> None:
        Exception.__init__(self, *key)
        self._work, self.key = work, key

    async def fetch(self) -> None:
        """Do the work that the failed call needs."""
        await self._work()


async def patiently(call: Callable[[], T]) -> T:
    """Return the result of a synchronous call.

    After Pending or NotCached, await the work that the call needs and repeat the call. Raise OSError if the page cache
    repeatedly dropped the bytes that were read for the call. Raise AssertionError if other tasks repeatedly undid the
    work done for the call.
    """
    waits: dict[Hashable, int] = {}
    while True:
        try:
            return call()
        except NotCached as missing:
            count = waits.get(missing.key, 0)
            if count == missing.waits_max:
                raise _no_progress(missing) from None
            waits[missing.key] = count + 1
            await missing.fetch()


def _no_progress(missing: NotCached) -> OSError | AssertionError:
    if isinstance(missing, Pending):
        return AssertionError(
            f"a call had to {' '.join(map(str, missing.args))} {missing.waits_max} times, and "
            "would have to once more: it makes no progress"
        )
    return OSError(f"{missing.waits_max} times, bytes that had just been read were no longer in memory")
