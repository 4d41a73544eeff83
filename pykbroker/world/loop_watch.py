"""The measurement of the event loop's steps. A step is the work of all tasks between two waits for I/O."""

from __future__ import annotations

from collections.abc import Callable

import trio

from pykbroker.world.net import STEP_NS_SLOW, NetStatistics

WINDOW_S = 30


class LoopWatch(trio.abc.Instrument):
    """A trio instrument that counts and times the steps of the event loop. `ticks` returns ns of a monotonic clock."""

    def __init__(self, ticks: Callable[[], int]) -> None:
        self._ticks = ticks
        self._woke_at = self._rested_at = ticks()
        self._steps = self._steps_slow = self._step_ns = self._step_ns_longest = self._idle_ns = 0
        self._windows = (0, 0), (0, 0)  # step_ns and idle_ns at the begin of the last two windows

    def begin(self) -> None:
        """Start to measure the running event loop."""
        self._woke_at = self._ticks()
        trio.lowlevel.add_instrument(self)

    async def run(self) -> None:
        """Begin a new window every `WINDOW_S` until cancelled."""
        while True:
            await trio.sleep(WINDOW_S)
            self._windows = self._windows[1], (self._step_ns, self._idle_ns)

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
        step_ns, idle_ns = self._step_ns - self._windows[0][0], self._idle_ns - self._windows[0][1]
        idle_share = idle_ns / (step_ns + idle_ns) if step_ns + idle_ns else 1.0
        return NetStatistics(
            self._steps, self._steps_slow, self._step_ns, self._step_ns_longest, self._idle_ns, idle_share
        )
