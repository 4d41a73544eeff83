"""A lock whose waiters take turns by key."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


class FairLock:
    """A lock for tasks with keys, such as addresses. The waiters of one key delay one of another key by one turn each.

    The waiters of a key have the order of their calls.
    """

    def __init__(self) -> None:
        self._is_held = False
        self._waiting: dict[str, deque[trio.Event]] = {}
        """The waiters of each key. The first key is the next one. It then goes to the end with its other waiters."""

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        """Hold the lock during the block."""
        await self._acquire(key)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, key: str) -> None:
        if not self._is_held:
            self._is_held = True
            return
        told, waiting = trio.Event(), self._waiting.setdefault(key, deque())
        waiting.append(told)
        try:
            await told.wait()
        except BaseException:
            if told.is_set():
                self._release()
            else:
                waiting.remove(told)
                if not waiting:
                    del self._waiting[key]
            raise

    def _release(self) -> None:
        self._is_held = bool(self._waiting)
        if self._is_held:
            key = next(iter(self._waiting))
            waiting = self._waiting.pop(key)
            waiting.popleft().set()
            if waiting:
                self._waiting[key] = waiting
