"""Crashes of this process before each of its file-system operations, by an audit hook of Python."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

OPERATIONS = frozenset(("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "ctypes.dlopen"))
"""The audited operations. `ctypes.dlopen` comes before renameat2, which is not audited itself."""
OPERATIONS_MAX = 2_000


class Crash(BaseException):
    """The end of the process."""


class Crashes:
    """The hook. It ends a run before its operation number `ends_at`, and then refuses all others of that run."""

    def __init__(self) -> None:
        self.operations, self.ends_at = 0, 0
        self._thread = threading.main_thread()
        sys.addaudithook(self._hook)

    def _hook(self, event: str, _: Any) -> None:
        if self.ends_at and event in OPERATIONS and threading.current_thread() is self._thread:
            self.operations += 1
            if self.operations >= self.ends_at:
                raise Crash

    def run(self, action: Callable[[], object], ends_at: int) -> bool:
        """Run an action, and return whether it crashed."""
        self.operations, self.ends_at = 0, ends_at
        try:
            action()
        except Crash:
            return True
        finally:
            self.ends_at = 0
        return False


CRASHES = Crashes()
"""The hook of this process, since hooks cannot be removed."""
