"""The latch of one waiting thread: set before, set twice, and never."""

from __future__ import annotations

from math import inf

import pytest

from pykbroker.world.latch import Latch


def test_a_latch_that_was_set_twice_ends_one_wait() -> None:
    latch = Latch()
    latch.set()
    latch.set()
    assert latch.wait()


@pytest.mark.timeout(10)
@pytest.mark.parametrize("timeout_s", [0, -1, -0.5])
def test_a_wait_for_a_latch_that_is_never_set_times_out(timeout_s: float) -> None:
    assert not Latch().wait(timeout_s)


@pytest.mark.parametrize("timeout_s", [None, 1e12, inf])
def test_a_wait_may_be_longer_than_any_lock_permits(timeout_s: float | None) -> None:
    latch = Latch()
    latch.set()
    assert latch.wait(timeout_s)
