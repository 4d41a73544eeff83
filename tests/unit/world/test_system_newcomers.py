"""Tests of the order and the time in which clients that have not logged in are served."""

from __future__ import annotations

import os
from typing import Any

import pytest
import trio

from pykbroker.world.system_newcomers import SLICE_NS, Newcomers
from pykbroker.world.system_pump import NOTHING, READS, WRITES
from tests.unit.world.local_network import Line, read_exactly, served


class Pump:
    """A pump whose turn takes a while."""

    def __init__(self, clock: Clock, takes: int = 0, key: str = "a") -> None:
        self._clock, self._takes, self.watched, self.is_open, self.key = clock, takes, READS, True, key
        self.turns: list[int] = []
        """The events that the pump was watched for in its turns."""

    def watch(self, event: int) -> None:
        self.watched = event

    def turn(self) -> None:
        self._clock.now += self._takes
        self.turns.append(self.watched)


class Clock:
    def __init__(self) -> None:
        self.now = 1000
        self.newcomers: Any = Newcomers(lambda: self.now)


@pytest.mark.parametrize(
    ("takes", "turns"), [(SLICE_NS // 4 - 1, 5), (SLICE_NS // 4, 5), (SLICE_NS // 4 + 1, 4), (2 * SLICE_NS, 1)]
)
def test_a_pass_serves_newcomers_in_order_until_its_slice_is_over(takes: int, turns: int) -> None:
    clock = Clock()
    pumps = [Pump(clock, takes) for _ in range(7)]
    for pump in [*pumps, *pumps]:
        clock.newcomers.wait(pump)
    assert [pump.watched for pump in pumps] == [NOTHING] * 7
    clock.newcomers.turn()
    assert [pump.turns for pump in pumps] == [[READS]] * turns + [[]] * (7 - turns)
    clock.newcomers.wait(pumps[0])  # it has sent more, and waits for the turns of the others
    assert list(clock.newcomers.waiting) == [*pumps[turns:], pumps[0]]
    while clock.newcomers.waiting:
        clock.newcomers.turn()
    assert [len(pump.turns) for pump in pumps] == [2, *[1] * 6]


def test_an_address_with_many_newcomers_delays_one_of_another_by_one_turn() -> None:
    clock = Clock()
    pumps = [Pump(clock, 2 * SLICE_NS, key) for key in "aaaab"]
    for pump in pumps:
        clock.newcomers.wait(pump)
    for _ in range(2):
        clock.newcomers.turn()
    assert [len(pump.turns) for pump in pumps] == [1, 0, 0, 0, 1]


def test_a_newcomer_that_has_closed_or_is_watched_for_another_event_since_gets_no_turn() -> None:
    clock = Clock()
    closed, sends, kept = pumps = [Pump(clock) for _ in range(3)]
    for pump in pumps:
        clock.newcomers.wait(pump)
    closed.is_open, sends.watched = False, WRITES
    clock.newcomers.turn()
    assert [pump.turns for pump in pumps] == [[], [], [READS]]
    assert (closed.watched, sends.watched, kept.watched) == (NOTHING, WRITES, READS)


async def test_a_newcomer_is_served_after_all_others_until_it_has_logged_in() -> None:
    order: list[int] = []

    def answer(line: Line, data: bytes) -> None:
        order.append(network.lines.index(line))
        line.out.append(data + b"\n")
        if data == b"log in":
            line.pump.serve_last(last=False)

    async with served(answer) as network:
        streams = [await network.connect() for _ in range(3)]
        while len(network.lines) < 3:
            await trio.lowlevel.checkpoint()
        network.lines[0].pump.serve_last(last=True)
        for text in (b"log in\n", b"request\n"):
            for stream in streams:  # all are ready in the same pass
                os.write(stream.socket.fileno(), text)
            for stream in streams:
                assert await read_exactly(stream, len(text)) == text
        network.lines[1].pump.serve_last(last=True)
        await streams[1].aclose()
        await network.lines[1].gone.wait()
    assert order[:3].index(0) == 2
    assert sorted(order[3:]) == [0, 1, 2]
    assert all(line.gone.is_set() for line in network.lines)
