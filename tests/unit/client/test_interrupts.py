"""The interrupts that tests of clients plant: where they occur, and where Python has none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NoReturn

import trio

from tests.unit.client.interrupts import each_interrupt

HERE = "tests/unit/client/test_interrupts.py"


def interrupt() -> NoReturn:
    raise KeyboardInterrupt


def end() -> NoReturn:
    raise SystemExit


def outcomes(call: Any) -> Iterator[Any]:
    """Yield the list that a call has been given, after each interrupt and after the end of the call."""
    for each in each_interrupt([interrupt], HERE, stride=1):
        done: list[int] = []
        try:
            with each:
                call(done)
        except KeyboardInterrupt:
            assert each.at is not None
            assert each.at.startswith(f"{HERE}:")
        yield done


def append_twice(done: list[int]) -> None:
    done.append(1)
    last = 2
    done.append(last)


def append_in_loop(done: list[int]) -> None:
    for each in (1, 2):
        done.append(each)


def append_one_by_one(done: list[int]) -> None:
    for each in numbers():
        append_to(done, each)


def numbers() -> Iterator[int]:
    yield 1
    yield 2


def append_to(done: list[int], each: int) -> None:
    done.append(each)


def test_a_call_is_interrupted_at_its_start_after_each_call_and_when_a_loop_goes_back() -> None:
    assert list(outcomes(append_twice)) == [[], [1], [1, 2], [1, 2]]
    assert list(outcomes(append_in_loop)) == [[], [1], [1], [1, 2], [1, 2], [1, 2]]


def test_functions_and_generators_are_interrupted_where_they_begin_and_go_on() -> None:
    # []: the start, numbers() and its start, the start of append_to. [1]: after append, after append_to, back in the
    # loop, on in numbers, the start of append_to. [1, 2]: the first four of these once more, and the whole call.
    assert list(outcomes(append_one_by_one)) == [[]] * 4 + [[1]] * 5 + [[1, 2]] * 5


def test_no_interrupt_occurs_between_a_lock_of_threading_and_the_block_that_holds_it() -> None:
    lock = threading.RLock()

    def hold(done: list[int]) -> None:
        with lock:
            done.append(1)

    for _ in outcomes(hold):
        assert not lock._is_owned()  # type: ignore[attr-defined]


def test_no_interrupt_occurs_between_the_end_of_a_loop_and_the_end_of_the_block_that_it_is_in() -> None:
    lock = threading.RLock()

    def hold(done: list[int]) -> None:
        with lock:
            while len(done) < 2:
                done.append(1)

    for _ in outcomes(hold):
        assert not lock._is_owned()  # type: ignore[attr-defined]


async def test_no_interrupt_occurs_where_a_coroutine_goes_on_after_an_await() -> None:
    done: list[int] = []

    async def wait() -> None:
        done.append(1)
        await trio.lowlevel.checkpoint()
        value = 2
        done.append(value)

    found = []
    for each in each_interrupt([interrupt], HERE, stride=1):
        done.clear()
        try:
            with each:
                await wait()
        except KeyboardInterrupt:
            pass
        found.append(list(done))
    assert found == [[], [1], [1, 2], [1, 2]]


def test_an_interrupt_that_raises_nothing_lets_the_call_go_on() -> None:
    seen: list[None] = []
    for each in each_interrupt([lambda: seen.append(None)], HERE, stride=1):
        done: list[int] = []
        with each:
            append_twice(done)
        assert done == [1, 2]
    assert len(seen) == 3


def test_each_act_begins_at_a_place_of_its_own_and_takes_one_of_a_stride() -> None:
    found: list[tuple[type[BaseException] | None, list[int]]] = []
    for each in each_interrupt([interrupt, end], HERE, stride=2):
        done: list[int] = []
        raised = None
        try:
            with each:
                append_twice(done)
        except (KeyboardInterrupt, SystemExit) as error:
            raised = type(error)
        found.append((raised, done))
    first = [(KeyboardInterrupt, []), (KeyboardInterrupt, [1, 2]), (None, [1, 2])]
    assert found == [*first, (SystemExit, [1]), (None, [1, 2])]


def test_functions_that_do_not_count_are_passed_over() -> None:
    found: list[list[int]] = []
    done: list[int] = []
    for each in each_interrupt([interrupt], HERE, stride=1, counts=lambda: bool(done)):
        done.clear()
        with suppress(KeyboardInterrupt), each:
            append_one_by_one(done)
        found.append(list(done))
    # the generator as it goes on, the second append_to at its start and after append, the generator, the whole call
    assert found == [[1], [1], [1, 2], [1, 2], [1, 2]]
