"""SIGINT and SIGTERM of a command with a job: the job gets KeyboardInterrupt, even if a finalizer gets it first."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from pykbroker.cli.signals import SIGNAL_EXIT_CODE, STOPPING

REPEAT_S = 0.05
"""The time after which an interrupt that Python has ignored is repeated. A finalizer has ended by then."""
REPEAT = signal.SIGURG
"""The signal that repeats an interrupt. It has no effect without a handler, so that it may come late."""


def exit_code(signals: Sequence[int]) -> int:
    """Return the exit code of a process that a signal has ended."""
    return SIGNAL_EXIT_CODE + (signals[0] if signals else signal.SIGINT)


@contextmanager
def raising_interrupts(signals: list[int]) -> Iterator[Interrupts]:
    """Raise KeyboardInterrupt in the block for the first SIGINT or SIGTERM, whose number the list gets.

    Without one, the process of a command, in which SIGINT had its default action, ignores both from then on.
    """
    interrupts, hook = Interrupts(signals), sys.unraisablehook
    before = {number: signal.getsignal(number) for number in (*STOPPING, REPEAT)}
    try:
        sys.unraisablehook = interrupts.ignored
        signal.signal(REPEAT, interrupts.repeated)
        for number in STOPPING:
            signal.signal(number, interrupts.first)
        yield interrupts
    finally:
        interrupts.is_over = True
        sys.unraisablehook = hook
        interrupts.cancel()
        signal.signal(REPEAT, before.pop(REPEAT))
        if before[signal.SIGINT] is signal.SIG_DFL and not signals:
            before = dict.fromkeys(STOPPING, signal.SIG_IGN)
        for number, handler in before.items():
            signal.signal(number, handler)


class Interrupts:
    """The handlers of signals in a block, which raise KeyboardInterrupt. If the block `is_over`, they do nothing.

    Python ignores what a finalizer raises, and what its own hook for such errors raises. Both are repeated.
    """

    def __init__(self, signals: list[int]) -> None:
        self.is_over = False
        self._signals, self._hook = signals, sys.unraisablehook
        self._timers: list[threading.Timer] = []

    def first(self, number: int, frame: FrameType | None) -> None:
        """Note the first signal, and interrupt the block. End the process for the second one."""
        if self.is_over:
            return
        if self._signals:
            os._exit(SIGNAL_EXIT_CODE + number)
        self._signals.append(number)
        self.repeated(number, frame)

    def repeated(self, _: int, frame: FrameType | None) -> None:
        """Interrupt the block, at once or behind the hook."""
        if self.is_over:
            return
        while frame is not None:
            if frame.f_code is Interrupts.ignored.__code__:
                self._repeat()
                return
            frame = frame.f_back
        raise KeyboardInterrupt

    def ignored(self, error: Any) -> None:
        """Repeat an interrupt that Python has ignored, as `sys.unraisablehook`."""
        if error.exc_type is KeyboardInterrupt and self._signals:
            self._repeat()
        else:
            self._hook(error)

    def cancel(self) -> None:
        """Stop repeating interrupts."""
        for each in self._timers:
            each.cancel()

    def _repeat(self) -> None:
        main = threading.main_thread().ident or 0
        self._timers.append(threading.Timer(REPEAT_S, signal.pthread_kill, (main, REPEAT)))
        self._timers[-1].start()
