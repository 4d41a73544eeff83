"""Kafka's exponential backoff with jitter (KIP-144, KIP-580), as a formula."""

from __future__ import annotations

from collections.abc import Callable

JITTER = 0.2
"""The share by which a pause is longer or shorter at random, as in Kafka (`RETRY_BACKOFF_JITTER`)."""
DOUBLINGS_MAX = 64
"""The number of doublings after which no pause grows, since 2.0**1024 raises OverflowError."""
Uniform = Callable[[float, float], float]
"""A function that returns a random number between its two arguments, as `World.rng.uniform` does."""


def delay_ms(failures: int, ms: float, ms_max: float, uniform: Uniform) -> float:
    """Return the ms to wait after so many earlier failures: doubled at each, with a jitter of 20 %, up to `ms_max`."""
    doubled = min(ms * 2.0 ** min(failures, DOUBLINGS_MAX), ms_max)
    return min(doubled * uniform(1 - JITTER, 1 + JITTER), ms_max)
