"""The result of a call of the application, which may wait for requests."""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.core.producer.transactions.state import TransactionCall


class CallResult:
    """The result of a call, once `is_done` is true. `acknowledge` raises its error."""

    def __init__(self, call: TransactionCall) -> None:
        self.call = call
        self.is_done = False
        self.is_acknowledged = False
        """Whether the application knows the result. Otherwise, its wait ended before, and it must repeat the call."""
        self.error: Exception | None = None
        self._callbacks: list[Callable[[], None]] = []

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call back once the call is done, which may be at once."""
        if self.is_done:
            callback()
        else:
            self._callbacks.append(callback)

    def complete(self, error: Exception | None = None) -> None:
        """Set the result, if there is none yet, and call all waiters."""
        if self.is_done:
            return
        self.is_done, self.error = True, error
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def acknowledge(self) -> None:
        """Note that the application gets the result, and raise the error of the call, if it failed."""
        assert self.is_done, "the call is not done yet"
        self.is_acknowledged = True
        if self.error is not None:
            raise self.error
