"""The warnings of the client as lines on stderr, while a command runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from time import monotonic

import click

REPEAT_S = 60.0
"""The time for which the same warning is not printed again. A broker that is down causes several in a second."""


class WarningLines(logging.Handler):
    """A handler that prints each message once a minute."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        super().__init__(logging.WARNING)
        self._now = now
        self._printed: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Print a message, unless it was printed within the last minute."""
        message, now = record.getMessage(), self._now()
        if now - self._printed.get(message, -inf) >= REPEAT_S:
            self._printed = {text: at for text, at in self._printed.items() if now - at < REPEAT_S}
            self._printed[message] = now
            click.echo(f"Warning: {message}", err=True)


@contextmanager
def warning_lines() -> Iterator[None]:
    """Print the warnings of the client during the block."""
    logger, handler = logging.getLogger("pykbroker"), WarningLines()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
