"""An event for one thread that waits, whose wait a signal handler may interrupt."""

from __future__ import annotations

import threading
from contextlib import suppress


class Latch:
    """An event that is set once or more, and waited for by one thread.

    The wait is one call in C. An error that a signal handler raises in the wait of `threading.Event` may release its
    lock while another thread holds it, which then fails with "release unlocked lock".
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        """End the wait."""
        with suppress(RuntimeError):  # it was set before
            self._lock.release()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the latch is set. Return False after the time-out, at once if it is negative."""
        return self._lock.acquire(timeout=-1 if timeout_s is None else min(max(0.0, timeout_s), threading.TIMEOUT_MAX))
