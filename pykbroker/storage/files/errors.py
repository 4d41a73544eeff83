"""What may stand between a call and its answer: work that must be waited for, and files that do not hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

from pykbroker.world.disk import NotCached

T = TypeVar("T")
WAITS_MAX = 10
"""As often one call may wait for the same work: what other tasks need meanwhile may undo it."""


class CorruptLog(Exception):
    """Batches that were once stored do not hold any more. Nothing was changed; the partition must not go on."""


class Mismatch(Exception):
    """An index entry points where the log holds something else."""


class Pending(NotCached):
    """A plain call needs something that takes a while: loading, checking, rebuilding.

    `key` says in words what `work` does, and to what; it is the same for the same work.
    """

    waits_max = WAITS_MAX

    def __init__(self, work: Callable[[], Awaitable[None]], *key: Hashable) -> None:
        Exception.__init__(self, *key)
        self._work, self.key = work, key

    async def fetch(self) -> None:
        """Do it."""
        await self._work()


async def patiently(call: Callable[[], T]) -> T:
    """Return the result of a plain call, after waiting for whatever it misses.

    OSError: the page cache never keeps what was read for it. AssertionError: what was done for it is always undone.
    """
    waits: Counter[Hashable] = Counter()
    while True:
        try:
            return call()
        except NotCached as missing:
            if waits[missing.key] == missing.waits_max:
                raise _no_progress(missing) from None
            waits[missing.key] += 1
            await missing.fetch()


def _no_progress(missing: NotCached) -> OSError | AssertionError:
    if isinstance(missing, Pending):
        return AssertionError(
            f"a call had to {' '.join(map(str, missing.args))} {missing.waits_max} times, and "
            "would have to once more: it makes no progress"
        )
    return OSError(f"{missing.waits_max} times, what had just been read was not in memory any more")
