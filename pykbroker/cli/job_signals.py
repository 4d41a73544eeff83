"""SIGINT and SIGTERM of a command that runs a job: the job gets KeyboardInterrupt, also if a finalizer got it first."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pykbroker.cli.signals import SIGNAL_EXIT_CODE, STOPPING

REPEAT_S = 0.05
"""The time after which an interrupt that Python has ignored is repeated. A finalizer has ended by then."""


def exit_code(signals: Sequence[int]) -> int:
    """Return the exit code of a process that a signal has ended."""
    return SIGNAL_EXIT_CODE + (signals[0] if signals else signal.SIGINT)


@contextmanager
def raising_interrupts(signals: list[int]) -> Iterator[None]:
    """Raise KeyboardInterrupt in the block for the first SIGINT or SIGTERM. The list gets the numbers.

    Without one, the process of a command, in which SIGINT had its default action, ignores both from then on.
    """
    before = {number: signal.getsignal(number) for number in STOPPING}
    with repeated_if_ignored(signals) as is_repeated:
        _handle(signals, is_repeated)
        try:
            yield
        finally:
            if before[signal.SIGINT] is signal.SIG_DFL and not signals:
                ignore_signals()
            else:
                for number, handler in before.items():
                    signal.signal(number, handler)


def _handle(signals: list[int], is_repeated: threading.Event) -> None:
    def interrupt(number: int, _: object) -> None:
        if not is_repeated.is_set():
            if signals:
                os._exit(SIGNAL_EXIT_CODE + number)
            signals.append(number)
        is_repeated.clear()
        raise KeyboardInterrupt

    for number in STOPPING:
        signal.signal(number, interrupt)


@contextmanager
def repeated_if_ignored(signals: Sequence[int]) -> Iterator[threading.Event]:
    """Send a signal again in the block if Python ignores its KeyboardInterrupt, as that of a finalizer.

    The yielded event is set when the next signal is one that is sent again.
    """
    hook, is_repeated, main = sys.unraisablehook, threading.Event(), threading.main_thread()
    timers: list[threading.Timer] = []

    def repeat() -> None:
        is_repeated.set()
        signal.pthread_kill(main.ident or 0, signals[0])

    def ignored(error: Any) -> None:
        if error.exc_type is KeyboardInterrupt and signals:
            timers.append(threading.Timer(REPEAT_S, repeat))
            timers[-1].start()
        else:
            hook(error)

    sys.unraisablehook = ignored
    try:
        yield is_repeated
    finally:
        sys.unraisablehook = hook
        for each in timers:
            each.cancel()


def ignore_signals() -> None:
    """Ignore SIGINT and SIGTERM."""
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)
