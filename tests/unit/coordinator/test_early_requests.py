"""Tests of requests to a coordinator that is still loading: their order, how long they wait, and who refuses them."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest
import trio
import trio.testing

from pykbroker.coordinator.runtime import COMMIT_S_MAX
from pykbroker.core.errors import ApiError
from tests.unit.coordinator.memory_log import MemoryLog
from tests.unit.coordinator.test_runtime import commit, commit_request, fetch, hosting, offset
from wire.declare import Response
from wire.error_codes import ErrorCode


async def loading(log: MemoryLog) -> None:
    """Fill a log, so that its coordinator loads until the gate is opened."""
    async with hosting(log) as runtime:
        commit(runtime)
    log.gate = trio.Event()


async def test_requests_that_wait_for_a_coordinator_reach_it_in_their_order() -> None:
    log = MemoryLog()
    await loading(log)
    async with hosting(log) as runtime, trio.open_nursery() as nursery:
        answers = [runtime.answer("g", commit_request(number)) for number in range(2, 12)]
        codes: list[int] = []
        for answer in answers:
            assert not isinstance(answer, Response)
            nursery.start_soon(note_code, answer, codes)
        await trio.testing.wait_all_tasks_blocked()
        assert log.gate is not None
        log.gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert codes == [0] * 10
        assert offset(fetch(runtime).result()) == 11
        assert isinstance(runtime.answer("g", commit_request(12)), Response)


async def note_code(answer: Coroutine[Any, Any, Any], codes: list[int]) -> None:
    codes.append((await answer).topics[0].partitions[0].error_code)


@pytest.mark.parametrize("cancelled", [False, True], ids=["kept for too long", "cancelled"])
async def test_a_request_that_no_longer_waits_never_reaches_the_coordinator(
    autojump_clock: trio.testing.MockClock, cancelled: bool
) -> None:
    log = MemoryLog()
    await loading(log)
    async with hosting(log) as runtime:
        answer, begun = runtime.answer("g", commit_request(2)), trio.current_time()
        assert not isinstance(answer, Response)
        if cancelled:
            with trio.move_on_after(COMMIT_S_MAX - 0.1):
                await answer
        else:
            with pytest.raises(ApiError) as refused:
                await answer
            assert refused.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert trio.current_time() == pytest.approx(begun + COMMIT_S_MAX)
        assert log.gate is not None
        log.gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert offset(fetch(runtime).result()) == 1


async def test_a_request_that_waits_for_a_coordinator_is_refused_when_the_leadership_ends() -> None:
    log = MemoryLog()
    await loading(log)
    async with hosting(log) as runtime:
        answer = runtime.answer("g", commit_request(2))
        assert not isinstance(answer, Response)
        runtime.follow(1, {})
        with pytest.raises(ApiError) as refused:
            await answer
        assert refused.value.code == ErrorCode.NOT_COORDINATOR
        with pytest.raises(ApiError) as refused:
            runtime.answer("g", commit_request(2))
        assert refused.value.code == ErrorCode.NOT_COORDINATOR
