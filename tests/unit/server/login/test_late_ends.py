"""Tests of the delays of failed log-ins, which end a few at a time."""

from __future__ import annotations

from collections import Counter

import pytest
import trio
import trio.testing

from pykbroker.server.login.late_ends import ENDS_MAX, LateEnds

DELAY_S = 0.5


class Steps(trio.abc.Instrument):
    """The number of steps that the event loop has made."""

    def __init__(self) -> None:
        self.count = 0

    def before_io_wait(self, timeout: float) -> None:
        self.count += 1


@pytest.mark.parametrize("count", [1, ENDS_MAX - 1, ENDS_MAX, ENDS_MAX + 1, 3 * ENDS_MAX])
async def test_delays_end_in_their_order_after_their_time_and_at_most_a_few_in_a_step(
    autojump_clock: trio.testing.MockClock, count: int
) -> None:
    steps, begun = Steps(), trio.current_time()
    ended: list[tuple[int, float, int]] = []

    async def fail(number: int) -> None:
        await late_ends.wait()
        ended.append((number, trio.current_time() - begun, steps.count))

    trio.lowlevel.add_instrument(steps)
    try:
        async with trio.open_nursery() as nursery:
            late_ends = LateEnds(DELAY_S, nursery)
            for number in range(2 * count):
                nursery.start_soon(fail, number)
                await trio.testing.wait_all_tasks_blocked()
                if number == count - 1:
                    await trio.sleep(DELAY_S / 2)
        async with trio.open_nursery() as nursery:  # the delays before have all ended
            late_ends = LateEnds(DELAY_S, nursery)
            nursery.start_soon(fail, 2 * count)
    finally:
        trio.lowlevel.remove_instrument(steps)
    assert sorted(number for number, _, _ in ended[:count]) == list(range(count))
    assert [round(time, 9) for _, time, _ in ended] == [DELAY_S] * count + [1.5 * DELAY_S] * count + [2.5 * DELAY_S]
    assert max(Counter(step for *_, step in ended).values()) == min(count, ENDS_MAX)
