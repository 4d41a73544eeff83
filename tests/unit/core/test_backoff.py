"""Tests of the exponential backoff."""

import pytest

from pykbroker.core.backoff import DOUBLINGS_MAX, delay_ms


@pytest.mark.parametrize(
    ("failures", "ms", "delay"),
    [(0, 100, 100), (3, 100, 800), (4, 100, 1000), (DOUBLINGS_MAX + 1, 100, 1000), (5000, 100, 1000)]
    + [(failures, 0, 0) for failures in (0, DOUBLINGS_MAX, DOUBLINGS_MAX + 1, 5000)],
)
def test_a_delay_doubles_up_to_the_maximum_and_zero_stays_zero(failures: int, ms: float, delay: float) -> None:
    assert delay_ms(failures, ms, 1000, lambda low, high: 1.0) == delay
