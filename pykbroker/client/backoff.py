"""Kafka's exponential backoff with jitter (KIP-144, KIP-580)."""

from __future__ import annotations

from pykbroker.core.backoff import Uniform, delay_ms


class Backoff:
    """The delays between failed attempts. A delay is doubled at each failure, up to `ms_max`."""

    def __init__(self, uniform: Uniform, ms: float = 50, ms_max: float = 1000) -> None:
        self._uniform, self._ms, self._ms_max = uniform, min(ms, ms_max), ms_max
        self._failures = 0

    def failed(self) -> float:
        """Return the seconds to wait after another failure."""
        failures, self._failures = self._failures, self._failures + 1
        return delay_ms(failures, self._ms, self._ms_max, self._uniform) / 1000

    def succeeded(self) -> None:
        """Reset the delay to its minimum, after a successful attempt."""
        self._failures = 0
