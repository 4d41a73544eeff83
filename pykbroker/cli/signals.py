"""Signals that arrive before the event loop can handle them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

STOPPING = (signal.SIGINT, signal.SIGTERM)
SIGNAL_EXIT_CODE = 128
"""The exit code of a process that a signal ended is this number and the signal's, as in shells."""


@contextmanager
def noted_signals() -> Iterator[list[int]]:
    """Append each SIGINT or SIGTERM that arrives during the block to the yielded list.

    The signals have no other effect.
    """
    noted: list[int] = []
    before = {number: signal.signal(number, lambda number, frame: noted.append(number)) for number in STOPPING}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
