"""The fsyncs of one disk, in few threads: a hop to a thread costs more than an fsync that shares one with others.

1. Syncs that wait while all threads are busy go to the next free thread together.
2. Two callers that sync the same subject, before either sync has begun, share one fsync, which covers both writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from pykbroker.world.off_loop import OffLoop

Subject = tuple[str, ...] | int
"""The files of a sync: by their paths, or one file by its descriptor."""
THREADS_MAX = 8
SYNCS_MAX = 64
"""The number of syncs in one hop to a thread. Their callers go on when the last of them has ended."""


class Sync:
    """One fsync, `function(subject)`. Once `done` is set, it has succeeded if `failure` is None."""

    __slots__ = ("done", "failure", "function", "subject")

    def __init__(self, function: Callable[[Any], None], subject: Subject) -> None:
        self.function, self.subject = function, subject
        self.done = trio.Event()
        self.failure: Exception | None = RuntimeError("it did not run")

    def run(self) -> None:
        """Run in a thread and note a failure."""
        try:
            self.function(self.subject)
            self.failure = None
        except Exception as failure:  # noqa: BLE001 - the callers raise it
            self.failure = failure


class Syncs:
    """The syncs that wait for a thread, by subject, oldest first."""

    def __init__(self, off_loop: OffLoop) -> None:
        self._off_loop = off_loop
        self._waiting: dict[Subject, Sync] = {}
        self._threads = 0

    async def __call__(self, function: Callable[[Any], None], subject: Subject) -> None:
        """Call `function(subject)` in a thread and wait until it has ended, even if the caller is cancelled.

        OSError: `function` raised it. RuntimeError: `function` raised another error, or no thread could be started.
        """
        sync = self._waiting.get(subject)
        if sync is None:
            sync = self._waiting[subject] = Sync(function, subject)
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
        """Take a share of the waiting syncs, so that each thread gets some."""
        count = min(SYNCS_MAX, -(-len(self._waiting) // THREADS_MAX))
        return [self._waiting.pop(subject) for subject in list(self._waiting)[:count]]


def run_all(syncs: list[Sync]) -> None:
    """Run the syncs one after the other."""
    for sync in syncs:
        sync.run()
