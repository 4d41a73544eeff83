"""Signals from the first line of `pykbroker start` on: what comes before a loop listens is noted for it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

STOPPING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def noted_signals() -> Iterator[list[int]]:
    """While the block runs, those that ask for a stop are appended to the list, and do nothing else."""
    noted: list[int] = []
    before = {number: signal.signal(number, lambda number, frame: noted.append(number)) for number in STOPPING}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
