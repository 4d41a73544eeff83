"""The warnings of the client as lines on stderr, while a command runs."""

from __future__ import annotations

import logging
from collections.abc import Callable
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


def print_warnings() -> None:
    """Print the warnings of the client from now on."""
    logger = logging.getLogger("pykbroker")
    if not any(isinstance(each, WarningLines) for each in logger.handlers):
        logger.addHandler(WarningLines())
