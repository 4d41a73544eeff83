"""The measurement of the event loop's steps. A step is the work of all tasks between two waits for I/O."""

from __future__ import annotations

from collections.abc import Callable

import trio

from pykbroker.world.net import STEP_NS_SLOW, NetStatistics


class LoopWatch(trio.abc.Instrument):
    """A trio instrument that counts and times the steps of the event loop. `ticks` returns ns of a monotonic clock."""

    def __init__(self, ticks: Callable[[], int]) -> None:
        self._ticks = ticks
        self._woke_at = self._rested_at = ticks()
        self._steps = self._steps_slow = self._step_ns = self._step_ns_longest = self._idle_ns = 0

    def begin(self) -> None:
        """Start to measure the running event loop."""
        self._woke_at = self._ticks()
        trio.lowlevel.add_instrument(self)

    def before_io_wait(self, timeout: float) -> None:
        """Count the step that ends now."""
        self._rested_at = now = self._ticks()
        took_ns = now - self._woke_at
        self._steps += 1
        self._step_ns += took_ns
        if took_ns > self._step_ns_longest:
            self._step_ns_longest = took_ns
        if took_ns > STEP_NS_SLOW:
            self._steps_slow += 1

    def after_io_wait(self, timeout: float) -> None:
        """Count the wait for I/O that ends now."""
        self._woke_at = now = self._ticks()
        self._idle_ns += now - self._rested_at

    def statistics(self) -> NetStatistics:
        """Return the counters since the start."""
        return NetStatistics(self._steps, self._steps_slow, self._step_ns, self._step_ns_longest, self._idle_ns)
