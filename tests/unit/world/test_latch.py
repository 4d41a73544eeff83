"""The latch of one waiting thread: set before, set twice, and never."""

from __future__ import annotations

from pykbroker.world.latch import Latch


def test_a_latch_that_was_set_twice_ends_one_wait() -> None:
    latch = Latch()
    latch.set()
    latch.set()
    assert latch.wait()


def test_a_wait_for_a_latch_that_is_never_set_times_out() -> None:
    assert not Latch().wait(0)
