"""An error that is held until the user's task asks for it."""

from __future__ import annotations


class HeldError:
    """The error that a heartbeat has left for the user, if there is one."""

    def __init__(self) -> None:
        self._error: Exception | None = None

    def hold(self, error: Exception) -> None:
        """Keep an error instead of an earlier one."""
        self._error = error

    def raise_once(self) -> None:
        """Raise the error, and forget it."""
        error, self._error = self._error, None
        if error is not None:
            raise error
