"""A warning that many peers can provoke, and none may flood the log with."""

from __future__ import annotations

import logging
from collections.abc import Callable

SILENT_S = 60


class Seldom:
    """One kind of warning: said at once, then at most once in `SILENT_S`, with how many were left out meanwhile."""

    def __init__(self, logger: logging.Logger, ticks: Callable[[], int]) -> None:
        self._logger, self._ticks = logger, ticks
        self._silent_until: int | None = None
        self._left_out = 0

    def warn(self, message: str, *args: object) -> None:
        """As a logger's `warning`."""
        now = self._ticks()
        if self._silent_until is not None and now < self._silent_until:
            self._left_out += 1
            return
        more = f" ({self._left_out} more like this since the last such line)" if self._left_out else ""
        self._logger.warning("%s%s", message % args, more)
        self._silent_until, self._left_out = now + SILENT_S * 1_000_000_000, 0
