"""Tests of the checker of logs: it names each anomaly, accepts correct histories, and is fast on long ones."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pykbroker.sim.checkers import check
from pykbroker.sim.history import History, Lapse, PollResult, Send, SendOutcome

T = ("t", 0)


def send(
    values: str, base_offset: int = -1, outcome: SendOutcome = SendOutcome.ACKNOWLEDGED, producer: str = "p"
) -> Send:
    return Send(producer, T, tuple(value.encode() for value in values), outcome, base_offset)


def poll(
    offset: int, found: str, high_watermark: int = 9, at: tuple[float, float] = (0, 0), first: int = -1
) -> PollResult:
    first = offset if first < 0 else first
    return PollResult(
        "c", T, offset, [(first + at, value.encode()) for at, value in enumerate(found)], high_watermark, *at
    )


def kinds(sends: list[Send], polls: list[PollResult], final: str) -> set[str]:
    history = History()
    history.sends, history.polls = sends, polls
    return {anomaly.kind for anomaly in check(history, [poll(0, final)])}


@pytest.mark.parametrize(
    ("expected", "sends", "polls", "final"),
    [
        (set(), [send("ab", 0), send("c", 2)], [poll(0, "ab", 2), poll(2, "c", 3)], "abc"),
        (set(), [send("a", outcome=SendOutcome.UNKNOWN)], [], ""),
        (set(), [send("a", outcome=SendOutcome.UNKNOWN)], [], "a"),
        (set(), [send("a"), send("b", producer="q")], [], "ba"),
        ({"lost write"}, [send("a", 0), send("b", 1)], [], "a"),
        ({"lost write", "moved write"}, [send("a", 0), send("b", 1)], [], "b"),
        ({"duplicate"}, [send("ab")], [], "aba"),
        ({"order"}, [send("a"), send("b")], [], "ba"),
        ({"order"}, [send("ab")], [], "ba"),
        ({"invented"}, [send("a")], [], "ax"),
        ({"refused, yet there"}, [send("a", outcome=SendOutcome.REFUSED)], [], "a"),
        ({"two values at one offset"}, [send("a", 0), send("b", 1, SendOutcome.UNKNOWN)], [poll(0, "b")], "a"),
        ({"unread"}, [send("ab", outcome=SendOutcome.UNKNOWN)], [poll(0, "ab")], "a"),
        ({"skipped"}, [send("abc", 0)], [poll(0, "b", first=1)], "abc"),
        ({"went back"}, [send("abc", 0)], [poll(1, "a", first=0)], "abc"),
        ({"high watermark back"}, [send("abc", 0)], [poll(0, "a", 3, (0, 1)), poll(0, "a", 2, (2, 3))], "abc"),
        (set(), [send("abc", 0)], [poll(0, "a", 3, (0, 2)), poll(0, "a", 2, (1, 3))], "abc"),
    ],
)
def test_each_anomaly_of_a_log_is_named(expected, sends, polls, final):
    assert kinds(sends, polls, final) == expected


def test_each_partition_is_checked_as_a_log_of_its_own():
    history = History()
    history.sends = [send("a", 0), Send("p", ("u", 0), (b"b",), SendOutcome.ACKNOWLEDGED, 0)]
    crossed = [PollResult("c", T, 0, [(0, b"b")], 1, 0, 0), PollResult("c", ("u", 0), 0, [(0, b"b")], 1, 0, 0)]
    assert {(each.kind, each.place) for each in check(history, crossed)} == {("invented", T), ("lost write", T)}


def test_a_long_history_is_checked_without_findings():
    dice, history = Random(1), History()
    log: list[Any] = []
    positions: dict[Any, int] = {}
    for number in range(50_000):
        value = f"v{number}".encode()
        if dice.random() < 0.5:
            history.sends.append(Send(f"p{number % 8}", T, (value,), SendOutcome.ACKNOWLEDGED, len(log)))
            log.append(value)
        else:
            consumer, start = f"c{number % 3}", positions.get(number % 3, 0)
            found = list(enumerate(log[start : start + 20], start))
            positions[number % 3] = start + len(found)
            history.polls.append(PollResult(consumer, T, start, found, len(log), number, number))
    assert check(history, [PollResult("c", T, 0, list(enumerate(log)), len(log), 60_000, 60_000)]) == []


def judged(deleted: int, first: int, sends: list[Send], lapse: tuple[int, int] | None = None) -> set[str]:
    """Return the kinds of anomalies if the complete read begins at `first`, and has c at 2 and d at 3."""
    history = History(deleted={T: deleted})
    history.sends = sends
    history.lapses = [Lapse("c", T, *lapse)] if lapse else []
    return {each.kind for each in check(history, [poll(first, "abcd"[first:])])}


@pytest.mark.parametrize(
    ("expected", "deleted", "first", "lapse"),
    [
        (set(), 2, 2, None),
        (set(), 3, 2, None),
        ({"lost begin"}, 1, 2, None),
        ({"lost begin"}, 0, 1, None),
        (set(), 2, 1, (1, 2)),
        ({"out of range"}, 2, 2, (2, 2)),
        ({"out of range"}, 2, 2, (0, 3)),
    ],
)
def test_only_records_that_were_deleted_may_be_gone(expected, deleted, first, lapse):
    assert judged(deleted, first, [send("abcd", 0)], lapse) == expected


def test_a_record_above_the_log_start_may_not_be_gone():
    assert judged(2, 2, [send("ab", 0), send("x", 4)]) == {"lost write", "invented"}
    assert judged(2, 2, [send("abcd", 0), send("x", 1)]) == set()
