"""Signals at any moment of a command that runs a job, from the installation of the handlers to the exit code."""

from __future__ import annotations

import dis
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from itertools import count
from types import FrameType, SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from pykbroker.cli.pipeline import job_signals, run
from pykbroker.cli.pipeline.job_signals import REPEAT, Interrupts, raising_interrupts
from pykbroker.cli.pipeline.run import run_job
from pykbroker.cli.signals import STOPPING
from pykbroker.pipeline import session
from pykbroker.pipeline.report import JobReport

FILES = {each.__file__ for each in (job_signals, run)}
HANDLERS = {each.__code__ for each in (Interrupts.first, Interrupts.repeated)}
CHECKING = ("RESUME", "CALL", "CALL_KW", "CALL_FUNCTION_EX", "JUMP_BACKWARD")
"""The instructions behind which Python looks for signals. Functions in C do so, too."""


class Moments:
    """The moments of the code of FILES at which Python looks for signals. An action is done at the one with a number.

    `is_done` tells whether there was such a moment.
    """

    def __init__(self, number: int, action: Callable[[], object]) -> None:
        self.is_done = False
        self._left, self._action = number, action
        self._last: dict[FrameType, str] = {}

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch the code that runs in the block."""
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(before)

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename not in FILES or frame.f_code in HANDLERS or self.is_done:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            last, now = self._last.get(frame, ""), dis.opname[frame.f_code.co_code[frame.f_lasti]]
            self._last[frame] = now
            if last in CHECKING or now.startswith("CALL"):
                self._left -= 1
                if self._left == 0:
                    self.is_done = True
                    self._action()
        return self._trace


@click.command("fake")
def fake() -> None:
    run_job(None, lambda *_: JobReport("fake"), as_json=False)  # type: ignore[arg-type]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let signals have their default action, as in the process of a command."""
    monkeypatch.setattr(session, "pipeline_session", lambda *_: nullcontext())
    before = {number: signal.getsignal(number) for number in STOPPING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("command")
@pytest.mark.timeout(60)
def test_a_signal_at_any_moment_is_an_interruption_or_comes_too_late() -> None:
    """The job takes no time. From its end on, its report is printed."""
    answers = list[tuple[int, str]]()
    for number in count(1):
        for each in STOPPING:
            signal.signal(each, signal.SIG_DFL)
        handlers = list[Any]()

        def interrupt(handlers: list[Any] = handlers) -> None:
            handlers.append(signal.getsignal(signal.SIGINT))
            if handlers != [signal.SIG_DFL]:
                signal.raise_signal(signal.SIGINT)

        moments = Moments(number, interrupt)
        with moments.watched():
            result = CliRunner().invoke(fake)
        if not moments.is_done:
            break
        if handlers != [signal.SIG_DFL]:
            answers.append((result.exit_code, result.output.partition(" in ")[0]))
        assert signal.getsignal(REPEAT) is signal.SIG_DFL
    too_late = answers.index((0, "fake: done"))
    assert answers[:too_late] == [(130, "fake: interrupted\n")] * too_late
    assert answers[too_late:] == [(0, "fake: done")] * (len(answers) - too_late)
    assert 10 < too_late < len(answers) - 10


class Finalized:
    """An object whose finalizer does something."""

    def __init__(self, action: Callable[[], object]) -> None:
        self._action = action

    def __del__(self) -> None:
        self._action()


@pytest.mark.timeout(10)
def test_an_interrupt_in_the_hook_for_errors_of_finalizers_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python ignores what the hook raises, too."""
    signals, hooked = list[int](), list[Any]()

    def hook(error: Any) -> None:
        hooked.append(error.exc_type)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(sys, "unraisablehook", hook)
    with suppress(KeyboardInterrupt), raising_interrupts(signals):
        Finalized(lambda: 1 // 0)
        threading.Event().wait()
    assert (signals, hooked) == ([signal.SIGTERM], [ZeroDivisionError])


def test_an_interrupt_that_is_repeated_behind_the_block_has_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    signals, repeats, late = list[int](), list[Callable[[], None]](), list[int]()
    timer = SimpleNamespace(start=lambda: None, cancel=lambda: repeats[0]())

    def timed(_: float, function: Callable[..., None], arguments: tuple[int, ...]) -> SimpleNamespace:
        repeats.append(lambda: function(*arguments))
        return timer

    monkeypatch.setattr(threading, "Timer", timed)
    before = signal.signal(signal.SIGINT, lambda number, _: late.append(number))
    try:
        with raising_interrupts(signals):
            Finalized(lambda: os.kill(os.getpid(), signal.SIGINT))
        repeats[0]()
    finally:
        signal.signal(signal.SIGINT, before)
    assert (signals, len(repeats), late) == ([signal.SIGINT], 1, [])
