"""The longest steps of an event loop, in CPU time, so that other processes do not matter."""

from __future__ import annotations

import gc
import time
from types import CoroutineType
from typing import Any

import trio


class StepWatch(trio.abc.Instrument):
    """The longest step of a task, and the longest pass of the event loop, since `begin`, in ms of CPU time.

    Garbage collections are counted apart: the heap of three brokers is three times as large as that of one.
    """

    def __init__(self) -> None:
        self._collecting_ns = self._collected_ns = 0
        gc.callbacks.append(self._note_collection)
        self.longest_collection_ms = 0.0
        self.begin()

    def _note_collection(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._collecting_ns = time.thread_time_ns()
        else:
            took_ns = time.thread_time_ns() - self._collecting_ns
            self._collected_ns += took_ns
            self.longest_collection_ms = max(self.longest_collection_ms, took_ns / 1e6)

    def _now_ns(self) -> int:
        """Return the CPU time without that of garbage collections."""
        return time.thread_time_ns() - self._collected_ns

    def begin(self) -> None:
        """Forget all steps so far."""
        self._pass_ns = self._step_ns = self._now_ns()
        self.longest_pass_ms = self.longest_ms = self.longest_collection_ms = 0.0
        self.task = ""

    def after_io_wait(self, timeout: float) -> None:
        self._pass_ns = self._now_ns()

    def before_io_wait(self, timeout: float) -> None:
        self.longest_pass_ms = max(self.longest_pass_ms, (self._now_ns() - self._pass_ns) / 1e6)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._step_ns = self._now_ns()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        took_ms = (self._now_ns() - self._step_ns) / 1e6
        if took_ms > self.longest_ms:
            self.longest_ms, self.task = took_ms, f"{task.name} {waits_in(task)}"

    def found(self) -> dict[str, Any]:
        """Return the longest step with its task, the longest pass, and the longest garbage collection."""
        collection_ms = round(self.longest_collection_ms, 1)
        longest_ms, pass_ms = round(self.longest_ms, 1), round(self.longest_pass_ms, 1)
        return {"step": longest_ms, "pass": pass_ms, "collection": collection_ms, "task": self.task}


def waits_in(task: trio.lowlevel.Task) -> str:
    """Return the functions in which a task waits, the outermost first."""
    names = []
    coroutine: Any = task.coro
    while isinstance(coroutine, CoroutineType):
        if coroutine.cr_frame is None:  # it has ended
            break
        names.append(f"{coroutine.cr_code.co_name}:{coroutine.cr_frame.f_lineno}")
        coroutine = coroutine.cr_await
    return " > ".join(names)
