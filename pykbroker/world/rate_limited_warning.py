"""Rate-limited warnings, for events that peers could use to flood the log."""

from __future__ import annotations

import logging
from collections.abc import Callable

SILENT_S = 60
KINDS_MAX = 1000
"""The maximum number of kinds of warnings that are remembered. All further kinds share one rate limit."""


class RateLimitedWarning:
    """A logger for one kind of warning, which logs it at most once in `SILENT_S`.

    The next line has the number of warnings left out.
    """

    def __init__(self, logger: logging.Logger, ticks: Callable[[], int]) -> None:
        self._logger, self._ticks = logger, ticks
        self._silent_until: int | None = None
        self._left_out = 0

    def warn(self, message: str, *args: object) -> None:
        """Log a warning, or count it if another was logged less than `SILENT_S` ago."""
        now = self._ticks()
        if self._silent_until is not None and now < self._silent_until:
            self._left_out += 1
            return
        more = f" ({self._left_out} more like this since the last such line)" if self._left_out else ""
        self._logger.warning("%s%s", message % args, more)
        self._silent_until, self._left_out = now + SILENT_S * 1_000_000_000, 0


class RateLimitedWarnings:
    """A logger for warnings of many kinds, with a `RateLimitedWarning` for each."""

    def __init__(self, logger: logging.Logger, ticks: Callable[[], int]) -> None:
        self._logger, self._ticks = logger, ticks
        self._of_kinds: dict[tuple[str, ...], RateLimitedWarning] = {}

    def warn(self, kind: tuple[str, ...], message: str, *args: object) -> None:
        """Log a warning, or count it if another of its kind was logged less than `SILENT_S` ago.

        A kind that is one too many is counted as its last part, which is one of a few texts.
        """
        if kind not in self._of_kinds and len(self._of_kinds) >= KINDS_MAX:
            kind = kind[-1:]
        if kind not in self._of_kinds:
            self._of_kinds[kind] = RateLimitedWarning(self._logger, self._ticks)
        self._of_kinds[kind].warn(message, *args)
