"""The first defect that a callback of a client has met."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType


class ClientInterrupted(RuntimeError):
    """The error of a client that a signal handler has interrupted in the midst of its work."""


class Defect:
    """A block that keeps the first exception of its code, for the task that runs the client. `noted` is called then.

    A connection that calls back would only log the exception, and whoever waits for the response would wait for ever.
    An error that a signal handler raises in the block is passed on, too: what it has interrupted is half done.
    """

    def __init__(self, noted: Callable[[], None]) -> None:
        self._noted = noted
        self._error: BaseException | None = None
        self._interrupt: BaseException | None = None

    def note(self, error: BaseException) -> None:
        """Keep an error, unless there is one, for `check` to raise."""
        self._error = self._error or error
        self._noted()

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, Exception):
            self.note(error)
            return True
        if error is not None:
            self._interrupt = error
            self._noted()
        return False

    def check(self) -> None:
        """Raise the exception, if there is one, or ClientInterrupted for an error that a signal handler has raised."""
        if self._error is not None:
            raise self._error
        if self._interrupt is not None:
            raise ClientInterrupted(f"the client was interrupted while it sent requests: {self._interrupt!r}")
