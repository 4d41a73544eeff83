"""The first defect that a callback of a client has met."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType


class Defect:
    """A block that keeps the first exception of its code, for the task that runs the client. `noted` is called then.

    A connection that calls back would only log the exception, and whoever waits for the response would wait for ever.
    """

    def __init__(self, noted: Callable[[], None]) -> None:
        self._noted = noted
        self._error: Exception | None = None

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self._error = self._error or error
        self._noted()
        return True

    def check(self) -> None:
        """Raise the exception, if there is one."""
        if self._error is not None:
            raise self._error
