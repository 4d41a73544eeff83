"""How long the loop works between two waits, for all its tasks together: so long may somebody wait who comes then."""

from __future__ import annotations

from collections.abc import Callable

import trio

from pykbroker.world.net import STEP_NS_SLOW, NetStatistics


class LoopWatch(trio.abc.Instrument):
    """`ticks` gives ns of a clock that only rises."""

    def __init__(self, ticks: Callable[[], int]) -> None:
        self._ticks = ticks
        self._woke_at = self._rested_at = ticks()
        self._steps = self._steps_slow = self._step_ns = self._step_ns_longest = self._idle_ns = 0

    def begin(self) -> None:
        """Watch the loop that runs now, from now on."""
        self._woke_at = self._ticks()
        trio.lowlevel.add_instrument(self)

    def before_io_wait(self, timeout: float) -> None:
        """All that could be done is done for now."""
        self._rested_at = now = self._ticks()
        took_ns = now - self._woke_at
        self._steps += 1
        self._step_ns += took_ns
        if took_ns > self._step_ns_longest:
            self._step_ns_longest = took_ns
        if took_ns > STEP_NS_SLOW:
            self._steps_slow += 1

    def after_io_wait(self, timeout: float) -> None:
        """Something has happened, or is due."""
        self._woke_at = now = self._ticks()
        self._idle_ns += now - self._rested_at

    def statistics(self) -> NetStatistics:
        """Since the start."""
        return NetStatistics(self._steps, self._steps_slow, self._step_ns, self._step_ns_longest, self._idle_ns)
