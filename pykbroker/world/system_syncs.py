"""The fsyncs of one disk, in a few threads.

A thread runs several fsyncs, since a call in a thread may cost more than the fsync.

1. Fsyncs that wait while all threads are busy are run together by the next free thread.
2. Two callers that sync the same file before the fsync has begun share one fsync, which covers the writes of both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from pykbroker.world.off_loop import OffLoop

Subject = tuple[str, ...] | int
"""The files of an fsync: their paths, or the descriptor of one file."""
THREADS_MAX = 8
SYNCS_MAX = 64
"""The maximum number of fsyncs in one call in a thread. Their callers continue when the last of them has ended."""


class Sync:
    """One fsync, `function(subject)`. Once `done` is set, it has succeeded if `failure` is None."""

    __slots__ = ("done", "failure", "function", "subject")

    def __init__(self, function: Callable[[Any], None], subject: Subject) -> None:
        self.function, self.subject = function, subject
        self.done = trio.Event()
        self.failure: Exception | None = RuntimeError("the fsync did not run")

    def run(self) -> None:
        """Run the fsync and note its failure. A thread calls this."""
        try:
            self.function(self.subject)
            self.failure = None
        except Exception as failure:  # noqa: BLE001 - the callers raise it
            self.failure = failure


class Syncs:
    """The fsyncs that wait for a thread, by subject, oldest first."""

    def __init__(self, off_loop: OffLoop) -> None:
        self._off_loop = off_loop
        self._waiting: dict[tuple[Callable[[Any], None], Subject], Sync] = {}
        self._threads = 0

    async def __call__(self, function: Callable[[Any], None], subject: Subject) -> None:
        """Call `function(subject)` in a thread and wait until the call has ended, even if the caller is cancelled.

        Raise the OSError that `function` raised. Raise RuntimeError if `function` raised another error, or if no thread
        could be started.
        """
        sync = self._waiting.get((function, subject))
        if sync is None:
            sync = self._waiting[function, subject] = Sync(function, subject)
            if self._threads < THREADS_MAX:
                self._threads += 1
                trio.lowlevel.spawn_system_task(self._work)
        with trio.CancelScope(shield=True):
            await sync.done.wait()
        if isinstance(sync.failure, OSError):
            raise OSError(*sync.failure.args) from sync.failure
        if sync.failure is not None:
            raise RuntimeError(f"{subject} is not synced: {sync.failure!r}") from sync.failure

    async def _work(self) -> None:
        try:
            while self._waiting:
                taken = self._take()
                try:
                    await self._off_loop(run_all, taken)
                except Exception as failure:  # noqa: BLE001 - a system task that raises ends the whole process
                    for sync in taken:
                        sync.failure = failure
                finally:
                    for sync in taken:
                        sync.done.set()
        finally:
            self._threads -= 1

    def _take(self) -> list[Sync]:
        """Remove and return a part of the waiting fsyncs, so that each free thread gets some."""
        count = min(SYNCS_MAX, -(-len(self._waiting) // THREADS_MAX))
        return [self._waiting.pop(key) for key in list(self._waiting)[:count]]


def run_all(syncs: list[Sync]) -> None:
    """Run the fsyncs one after the other."""
    for sync in syncs:
        sync.run()
