"""A queue and a lock whose waiters take turns by key, such as the addresses of peers."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

import trio

T = TypeVar("T")

NETWORK_BYTES = 8
"""The bytes of an IPv6 address that a peer does not choose: a network has 2**64 addresses (RFC 4291)."""


def key_of_host(host: str) -> str:
    """Return the key of an address. Those of one IPv6 network have the same, since a peer may use all of them."""
    if ":" not in host:
        return host
    try:
        return socket.inet_pton(socket.AF_INET6, host.partition("%")[0])[:NETWORK_BYTES].hex()
    except OSError:
        return host


class FairQueue(Generic[T]):
    """A queue in which the items of one key delay one of another key by one item each.

    The items of a key have the order in which they were added.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, deque[T]] = {}
        """The items of each key. The first key is the next one. It then goes to the end with its other items."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, key: str, item: T) -> None:
        self._waiting.setdefault(key, deque()).append(item)

    def pop(self) -> T:
        """Remove and return the next item."""
        key = next(iter(self._waiting))
        waiting = self._waiting.pop(key)
        item = waiting.popleft()
        if waiting:
            self._waiting[key] = waiting
        return item

    def remove(self, key: str, item: T) -> None:
        """Remove an item that is in the queue."""
        waiting = self._waiting[key]
        waiting.remove(item)
        if not waiting:
            del self._waiting[key]


class FairLock:
    """A lock for tasks with keys, which take turns as in a `FairQueue`."""

    def __init__(self) -> None:
        self._is_held = False
        self._waiting = FairQueue[trio.Event]()

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
        told = trio.Event()
        self._waiting.add(key, told)
        try:
            await told.wait()
        except BaseException:
            if told.is_set():
                self._release()
            else:
                self._waiting.remove(key, told)
            raise

    def _release(self) -> None:
        self._is_held = bool(self._waiting)
        if self._is_held:
            self._waiting.pop().set()
