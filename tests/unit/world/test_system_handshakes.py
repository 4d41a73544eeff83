"""Tests of the share of the event loop that handshakes get, and of the end of late ones, with a clock of their own."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from pykbroker.world.system_handshakes import AWAITED_MAX, HANDSHAKE_NS_MAX, HANDSHAKES_MAX, Handshakes


class Pump:
    """A handshake whose step takes a while."""

    def __init__(self, clock: Clock, fd: int, takes: int = 0, key: str = "a") -> None:
        self._clock, self._takes, self.fd, self.key = clock, takes, fd, key
        self.steps = 0
        self.has_begun = False
        self.lost: list[OSError] = []

    def shake(self) -> None:
        self._clock.now += self._takes
        self.steps += 1
        self.has_begun = True

    def lose(self, error: OSError) -> None:
        self.lost.append(error)
        self._clock.handshakes.forget(self)


class Clock:
    def __init__(self) -> None:
        self.now = 1000
        self.answered: list[Pump] = []
        self.handshakes: Any = Handshakes(lambda: self.now)

    def pump(self, takes: int = 0, key: str = "a") -> Pump:
        pump = Pump(self, len(self.handshakes.pumps), takes, key)
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


def test_an_address_with_many_handshakes_delays_another_by_one_step() -> None:
    clock = Clock()
    pumps = [clock.pump(key=key) for key in "aaaab"]
    for pump in pumps:
        clock.handshakes.wait(pump)
    for _ in range(2):
        clock.handshakes.step(others_wait=False)
    assert [pump.steps for pump in pumps] == [1, 0, 0, 0, 1]


def test_of_many_handshakes_some_are_done_before_all_have_begun() -> None:
    clock = Clock()
    pumps = [clock.pump() for _ in range(10)]
    for pump in pumps:
        clock.handshakes.wait(pump)
    for _ in range(10):
        clock.handshakes.step(others_wait=False)
        for pump in pumps:
            if pump.steps == 1 and pump not in clock.answered:  # the client answers at once
                clock.answered.append(pump)
                clock.handshakes.wait(pump)
    assert [pump.steps for pump in pumps] == [2] * 5 + [0] * 5


def test_handshakes_of_many_steps_delay_one_that_has_not_begun_by_one_step() -> None:
    clock = Clock()
    begun = [clock.pump() for _ in range(10)]
    for pump in begun:
        pump.has_begun = True
        clock.handshakes.wait(pump)
    new = clock.pump()
    clock.handshakes.wait(new)
    for _ in range(2):
        clock.handshakes.step(others_wait=False)
    assert (sum(pump.steps for pump in begun), new.steps) == (1, 1)


def test_of_too_many_peers_that_do_not_go_on_the_one_that_is_awaited_the_longest_is_disconnected() -> None:
    clock = Clock()
    outgoing = clock.pump(key="")
    pumps = [clock.pump() for _ in range(AWAITED_MAX)]
    clock.handshakes.wait(pumps[0])
    last = clock.pump()  # the first one has sent its part, and is not awaited
    assert not any(pump.lost for pump in pumps)
    clock.handshakes.step(others_wait=False)
    assert [len(pump.lost) for pump in pumps[:3]] == [0, 1, 0]
    clock.handshakes.forget(pumps[2])
    last = clock.pump()
    assert (outgoing.lost, last.lost) == ([], [])
    assert sum(len(pump.lost) for pump in pumps) == 1


def test_of_too_many_peers_one_of_the_address_that_has_the_most_is_disconnected() -> None:
    clock = Clock()
    slow = [clock.pump(key=key) for key in "bbc"]
    pumps = [clock.pump() for _ in range(AWAITED_MAX)]
    assert not any(pump.lost for pump in slow)
    assert [len(pump.lost) for pump in pumps[:4]] == [1, 1, 1, 0]


def test_no_more_handshakes_may_begin_than_there_is_memory_for() -> None:
    clock = Clock()
    pumps = [clock.pump(key="") for _ in range(HANDSHAKES_MAX)]
    assert clock.handshakes.is_full
    clock.handshakes.forget(pumps[0])
    assert not clock.handshakes.is_full


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
