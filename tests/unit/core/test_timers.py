"""Tests of timers, compared with a plain dictionary."""

from __future__ import annotations

from math import inf
from random import Random

from pykbroker.core.timers import Timers


def test_each_key_is_due_at_its_last_deadline() -> None:
    for seed in range(200):
        draw, timers, truth = Random(seed), Timers[int](), dict[int, float]()
        now = 0.0
        for _ in range(100):
            key, deed = draw.randrange(5), draw.randrange(4)
            if deed < 2:
                truth[key] = now + draw.randrange(10)
                timers.set(key, truth[key])
            elif deed == 2:
                truth.pop(key, None)
                timers.cancel(key)
            else:
                now += draw.randrange(8)
                while (due := timers.pop_due(now)) is not None:
                    assert truth.pop(due) <= now
                assert all(deadline > now for deadline in truth.values())
            assert timers.deadline_ms == min(truth.values(), default=inf)
            assert len(timers) == len(truth)
            assert timers.get(key) == truth.get(key, inf)


def test_postponing_a_deadline_does_not_enlarge_the_heap() -> None:
    timers = Timers[str]()
    for time in range(1000):
        timers.set("member", time)
    assert len(timers._heap) == 1
    assert timers.deadline_ms == 999


def test_keys_with_equal_deadlines_are_returned_in_insertion_order() -> None:
    timers = Timers[object]()
    keys = [object() for _ in range(20)]  # The keys are not comparable.
    for key in keys:
        timers.set(key, 5)
    assert [timers.pop_due(5) for _ in keys] == keys
