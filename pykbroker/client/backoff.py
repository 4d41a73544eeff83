"""Kafka's exponential backoff with jitter (KIP-144, KIP-580)."""

from __future__ import annotations

from collections.abc import Callable

JITTER = 0.2


class Backoff:
    """The delays between failed attempts: doubled at each failure, with a jitter of 20 %, and at most `ms_max`.

    `uniform` returns a random number between its two arguments, as `World.rng.uniform` does.
    """

    def __init__(self, uniform: Callable[[float, float], float], ms: float = 50, ms_max: float = 1000) -> None:
        self._uniform, self._ms, self._ms_max = uniform, min(ms, ms_max), ms_max
        self._failures = 0

    def failed(self) -> float:
        """Return the seconds to wait after another failure."""
        delay_ms = min(self._ms * 2.0**self._failures, self._ms_max)
        if delay_ms < self._ms_max:
            self._failures += 1
        return min(delay_ms * self._uniform(1 - JITTER, 1 + JITTER), self._ms_max) / 1000

    def succeeded(self) -> None:
        """Reset the delay to its minimum, after a successful attempt."""
        self._failures = 0
