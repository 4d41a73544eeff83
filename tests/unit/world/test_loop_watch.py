"""Tests of LoopWatch, which measures steps: the work of all tasks between two waits of the event loop."""

from __future__ import annotations

import pytest
import trio

from pykbroker.world.loop_watch import WINDOW_S, LoopWatch
from pykbroker.world.net import STEP_NS_SLOW, NetStatistics


class Clock:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def test_steps_and_waits_are_timed_separately() -> None:
    clock = Clock()
    watch = LoopWatch(clock)
    for worked, waited in ((5, 100), (STEP_NS_SLOW, 0), (STEP_NS_SLOW + 1, 7), (1, 1)):
        clock.now += worked
        watch.before_io_wait(0)
        clock.now += waited
        watch.after_io_wait(0)
    step_ns = 2 * STEP_NS_SLOW + 7
    assert watch.statistics() == NetStatistics(4, 1, step_ns, STEP_NS_SLOW + 1, 108, 108 / (108 + step_ns))


async def test_the_idle_share_is_that_of_the_last_two_windows(autojump_clock: trio.testing.MockClock) -> None:
    clock = Clock()
    watch = LoopWatch(clock)

    def work(worked: int, waited: int) -> None:
        clock.now += worked
        watch.before_io_wait(0)
        clock.now += waited
        watch.after_io_wait(0)

    shares = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        await trio.sleep(WINDOW_S / 2)
        for worked, waited in ((100, 0), (0, 300), (50, 50), (0, 0), (0, 0)):
            work(worked, waited)
            shares.append(watch.statistics().idle_share)
            await trio.sleep(WINDOW_S)
        nursery.cancel_scope.cancel()
    assert shares == [0, 0.75, 350 / 400, 0.5, 1]


async def test_steps_include_the_work_of_all_tasks_until_the_instrument_is_removed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    clock = Clock()
    watch = LoopWatch(clock)

    async def work() -> None:
        clock.now += STEP_NS_SLOW

    clock.now += 10 * STEP_NS_SLOW  # The start of a broker is not a step.
    watch.begin()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        nursery.start_soon(work)
    await trio.sleep(1)
    trio.lowlevel.remove_instrument(watch)
    found = watch.statistics()
    assert (found.steps_slow, found.step_ns_longest) == (1, 2 * STEP_NS_SLOW)
    clock.now += STEP_NS_SLOW
    await trio.sleep(1)
    assert watch.statistics() == found


@pytest.mark.parametrize("waited", [0, 50])
def test_a_loop_watch_that_was_not_started_has_no_steps(waited: int) -> None:
    clock = Clock()
    watch = LoopWatch(clock)
    clock.now += waited
    assert watch.statistics() == NetStatistics(0, 0, 0, 0, 0)
