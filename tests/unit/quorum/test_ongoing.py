"""Tests of work that goes on after its callers have stopped waiting for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from pykbroker.core.errors import ApiError
from pykbroker.quorum.ongoing import ONGOING_MAX, WAIT_S_MAX, OngoingWork
from wire.error_codes import ErrorCode


@asynccontextmanager
async def running() -> AsyncIterator[OngoingWork]:
    ongoing = OngoingWork()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ongoing.run)
        await trio.testing.wait_all_tasks_blocked()
        yield ongoing
        nursery.cancel_scope.cancel()


class Work:
    """A work that ends after a time, and counts how often it was begun and ended."""

    def __init__(self, seconds: float, error: Exception | None = None) -> None:
        self.seconds, self.error = seconds, error
        self.begun = self.ended = 0

    async def __call__(self) -> int:
        self.begun += 1
        await trio.sleep_until(trio.current_time() + self.seconds)
        self.ended += 1
        if self.error is not None:
            raise self.error
        return self.begun


async def refusal(ongoing: OngoingWork, key: str, work: Work) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        await ongoing.result(key, work)
    return refused.value.code


@pytest.mark.parametrize("seconds", [0, WAIT_S_MAX - 0.01])
async def test_the_result_of_work_that_ends_in_time_is_returned(autojump_clock: object, seconds: float) -> None:
    async with running() as ongoing:
        assert await ongoing.result("a", work := Work(seconds)) == 1
        assert await ongoing.result("a", work) == 2


async def test_work_that_takes_longer_goes_on_and_is_not_begun_again(autojump_clock: object) -> None:
    async with running() as ongoing:
        work = Work(WAIT_S_MAX + 1)
        began = trio.current_time()
        assert await refusal(ongoing, "a", work) is ErrorCode.REQUEST_TIMED_OUT
        assert trio.current_time() - began == pytest.approx(WAIT_S_MAX)
        assert (work.begun, work.ended) == (1, 0)
        assert await ongoing.result("a", work) == 1
        assert (work.begun, work.ended) == (1, 1)


@pytest.mark.parametrize("error", [ApiError(ErrorCode.NOT_CONTROLLER), ValueError("a defect")])
async def test_each_caller_gets_the_error_of_the_work(autojump_clock: object, error: Exception) -> None:
    async with running() as ongoing:
        work = Work(1, error)
        async with trio.open_nursery() as nursery:
            for _ in range(2):

                async def fails() -> None:
                    with pytest.raises(type(error)):
                        await ongoing.result("a", work)

                nursery.start_soon(fails)
        assert work.begun == 1


async def test_the_number_of_works_is_limited(autojump_clock: object) -> None:
    async with running() as ongoing:
        long = Work(10 * WAIT_S_MAX)
        refused: list[ErrorCode] = []

        async def ask(key: str) -> None:
            refused.append(await refusal(ongoing, key, long))

        async with trio.open_nursery() as nursery:
            for number in range(ONGOING_MAX):
                nursery.start_soon(ask, f"{number}")
            await trio.testing.wait_all_tasks_blocked()
            assert (long.begun, refused) == (ONGOING_MAX, [])
            await ask("one more")
            await ask("two more")
            assert (long.begun, refused) == (ONGOING_MAX, [ErrorCode.REQUEST_TIMED_OUT] * 2)
        await trio.sleep(10 * WAIT_S_MAX)
        assert await ongoing.result("one more", Work(0)) == 1
