"""Tests of the share of the event loop that handshakes get, and of the end of late ones, with a clock of their own."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from pykbroker.world.system_handshakes import HANDSHAKE_NS_MAX, Handshakes


class Pump:
    """A handshake whose step takes a while."""

    def __init__(self, clock: Clock, fd: int, takes: int = 0) -> None:
        self._clock, self._takes, self.fd = clock, takes, fd
        self.steps = 0
        self.lost: list[OSError] = []

    def shake(self) -> None:
        self._clock.now += self._takes
        self.steps += 1

    def lose(self, error: OSError) -> None:
        self.lost.append(error)
        self._clock.handshakes.forget(self)


class Clock:
    def __init__(self) -> None:
        self.now = 1000
        self.handshakes: Any = Handshakes(lambda: self.now)

    def pump(self, takes: int = 0) -> Pump:
        pump = Pump(self, len(self.handshakes.pumps), takes)
        self.handshakes.pumps[pump.fd] = pump
        self.handshakes.begin(pump)
        return pump


def test_others_that_wait_get_three_quarters_of_the_loop() -> None:
    clock = Clock()
    pump = clock.pump(takes=100)
    for _ in range(1000):
        if not clock.handshakes.waiting:
            clock.handshakes.wait(pump)
        clock.now += 25  # a pass over other connections
        clock.handshakes.step(others_wait=True)
    share = pump.steps * 100 / (clock.now - 1000)
    assert share == pytest.approx(0.25, abs=0.01)


def test_without_others_each_pass_has_a_step() -> None:
    clock = Clock()
    pump = clock.pump(takes=100)
    for _ in range(10):
        clock.handshakes.wait(pump)
        clock.handshakes.step(others_wait=False)
    assert (pump.steps, clock.now) == (10, 2000)


def test_handshakes_take_turns_and_one_that_has_ended_gets_none() -> None:
    clock = Clock()
    pumps = [clock.pump() for _ in range(3)]
    for pump in pumps:
        clock.handshakes.wait(pump)
    clock.handshakes.forget(pumps[1])
    for _ in pumps:
        clock.handshakes.step(others_wait=False)
    assert [pump.steps for pump in pumps] == [1, 0, 1]
    assert list(clock.handshakes.pumps.values()) == [pumps[0], pumps[2]]


async def test_a_late_handshake_ends_and_no_other(autojump_clock: trio.testing.MockClock) -> None:
    clock = Clock()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(clock.handshakes.run)
        late = clock.pump()
        clock.now += HANDSHAKE_NS_MAX - 1
        in_time = clock.pump()
        await trio.sleep(3)
        assert (late.lost, in_time.lost) == ([], [])
        clock.now += 1
        await trio.sleep(3)
        assert [type(error) for error in late.lost] == [TimeoutError]
        assert in_time.lost == []
        nursery.cancel_scope.cancel()
