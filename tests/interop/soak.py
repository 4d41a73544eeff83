"""Faults that a test injects one after another: each once, or random ones for a time that a developer sets."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from random import Random
from typing import TypeVar

import pytest

FaultT = TypeVar("FaultT")

SOAK_S = float(os.environ.get("PYKBROKER_TEST_SOAK_S", "0"))
"""The time for which each test with a soak injects its faults, in seconds."""
TIMEOUT_S = 240 + 3 * SOAK_S
"""The timeout of a test with a soak."""
soak = pytest.mark.skipif(not SOAK_S, reason="PYKBROKER_TEST_SOAK_S is not set")
"""The mark of a test that runs in a soak only."""


def faults_of_soak(planned: Sequence[FaultT], rarer: Sequence[FaultT], dice: Random) -> Iterator[FaultT]:
    """Yield each planned fault once, and then random ones, also the rarer ones, until the time of a soak is over."""
    until = time.monotonic() + SOAK_S
    yield from planned
    while time.monotonic() < until:
        yield dice.choice([*planned, *rarer])
