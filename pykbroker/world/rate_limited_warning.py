"""Rate-limited warnings, for events that peers could use to flood the log."""

from __future__ import annotations

import logging
from collections.abc import Callable

SILENT_S = 60
NS_PER_S = 1_000_000_000
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

    @property
    def is_silent(self) -> bool:
        """Whether a warning was logged less than `SILENT_S` ago."""
        return self._silent_until is not None and self._ticks() < self._silent_until

    def warn(self, message: str, *args: object) -> None:
        """Log a warning, or count it if another was logged less than `SILENT_S` ago."""
        if self.is_silent:
            self._left_out += 1
            return
        more = f" ({self._left_out} more like this since the last such line)" if self._left_out else ""
        self._logger.warning("%s%s", message % args, more)
        self._silent_until, self._left_out = self._ticks() + SILENT_S * NS_PER_S, 0


class RateLimitedWarnings:
    """A logger for warnings of many kinds, with a `RateLimitedWarning` for each."""

    def __init__(self, logger: logging.Logger, ticks: Callable[[], int]) -> None:
        self._logger, self._ticks = logger, ticks
        self._of_kinds: dict[tuple[str, ...], RateLimitedWarning] = {}
        self._full_until = 0

    def warn(self, kind: tuple[str, ...], message: str, *args: object) -> None:
        """Log a warning, or count it if another of its kind was logged less than `SILENT_S` ago.

        A kind that is one too many is counted as its last part, which is one of a few texts.
        """
        if kind not in self._of_kinds and self._is_full():
            kind = kind[-1:]
        if kind not in self._of_kinds:
            self._of_kinds[kind] = RateLimitedWarning(self._logger, self._ticks)
        self._of_kinds[kind].warn(message, *args)

    def _is_full(self) -> bool:
        """Whether no further kind is remembered. Once in `SILENT_S`, kinds without a recent warning make room."""
        if len(self._of_kinds) >= KINDS_MAX and self._ticks() >= self._full_until:
            self._of_kinds = {kind: warning for kind, warning in self._of_kinds.items() if warning.is_silent}
            self._full_until = self._ticks() + SILENT_S * NS_PER_S
        return len(self._of_kinds) >= KINDS_MAX
