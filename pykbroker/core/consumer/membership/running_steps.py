"""The steps of a member that run now: a queue of generators, whose steps are answered one after the other."""

from __future__ import annotations

from collections import deque
from typing import Any

from pykbroker.core.consumer.membership.steps import MemberStep, MemberSteps


class RunningSteps:
    """The generators that have begun or wait. `pending` is the step that waits for its answer, or None."""

    def __init__(self) -> None:
        self.pending: MemberStep | None = None
        self._queue: deque[MemberSteps] = deque()

    @property
    def is_idle(self) -> bool:
        return not self._queue

    def add(self, steps: MemberSteps) -> None:
        """Begin these steps after the others, with the next call of `next`."""
        self._queue.append(steps)

    def clear(self) -> None:
        """Drop all steps. The pending one needs no answer."""
        for steps in self._queue:
            steps.close()
        self._queue.clear()
        self.pending = None

    def next(self) -> MemberStep | None:
        """Return the pending step, or begin the next one. Return None if there is none."""
        while self.pending is None and self._queue:
            self._advance(None)
        return self.pending

    def answer(self, value: Any) -> None:
        """Continue after the pending step, with its result. An error of the steps ends them, and is raised."""
        if self.pending is not None:
            self._advance(value)

    def _advance(self, value: Any) -> None:
        self.pending, steps = None, self._queue[0]
        try:
            self.pending = steps.send(value)
        except StopIteration:
            self._queue.popleft()
        except Exception:
            self._queue.popleft()
            raise
