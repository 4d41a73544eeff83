"""Tests of the producer ids that a broker allocates from the controller in blocks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from pykbroker.core.errors import ApiError
from pykbroker.quorum.ongoing import WAIT_S_MAX, OngoingWork
from pykbroker.quorum.producer_ids import ProducerIds
from wire.error_codes import ErrorCode
from wire.messages.allocate_producer_ids import AllocateProducerIdsResponse


class Controller:
    """A controller that gives each answer after `delay_s`."""

    def __init__(self, *answers: AllocateProducerIdsResponse | ApiError, delay_s: float = 0) -> None:
        self.answers, self._delay_s = list(answers), delay_s

    async def ask(self, _: Any) -> Any:
        answer = self.answers.pop(0)
        await trio.sleep_until(trio.current_time() + self._delay_s)
        if isinstance(answer, ApiError):
            raise answer
        return answer


@asynccontextmanager
async def ids_from(*answers: AllocateProducerIdsResponse | ApiError, delay_s: float = 0) -> AsyncIterator[ProducerIds]:
    ongoing = OngoingWork()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ongoing.run)
        await trio.testing.wait_all_tasks_blocked()
        yield ProducerIds(Controller(*answers, delay_s=delay_s), 1, lambda: 5, ongoing)
        nursery.cancel_scope.cancel()


async def refusal(ids: ProducerIds) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        await ids.next()
    return refused.value.code


async def test_ids_are_taken_from_one_block_after_another() -> None:
    async with ids_from(
        AllocateProducerIdsResponse(producer_id_start=10, producer_id_len=2),
        AllocateProducerIdsResponse(producer_id_start=30, producer_id_len=1),
    ) as ids:
        assert not ids.in_hand
        assert ids.next_nowait() is None
        assert [await ids.next() for _ in range(3)] == [10, 11, 30]


async def test_an_error_that_only_a_newer_controller_knows_is_one_that_clients_retry() -> None:
    async with ids_from(AllocateProducerIdsResponse(error_code=9999)) as ids:
        assert await refusal(ids) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_a_caller_that_cannot_wait_begins_the_allocation_of_a_block() -> None:
    block = AllocateProducerIdsResponse(producer_id_start=10, producer_id_len=2)
    async with ids_from(ApiError(ErrorCode.NOT_CONTROLLER), block) as ids:
        found = []
        for _ in range(3):
            found.append(ids.next_nowait())
            await trio.testing.wait_all_tasks_blocked()
    assert found == [None, None, 10], "the first allocation is refused"


@pytest.mark.parametrize(
    "answer",
    [
        AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
        ApiError(ErrorCode.NOT_CONTROLLER),
        ApiError(ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
async def test_a_client_gets_a_retriable_error_while_no_block_is_available(
    answer: AllocateProducerIdsResponse | ApiError,
) -> None:
    async with ids_from(answer, AllocateProducerIdsResponse(producer_id_start=10, producer_id_len=2)) as ids:
        assert await refusal(ids) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await ids.next() == 10


async def test_a_client_that_retries_gets_an_id_of_the_block_that_was_allocated_meanwhile(
    autojump_clock: object,
) -> None:
    block = AllocateProducerIdsResponse(producer_id_start=10, producer_id_len=2)
    async with ids_from(block, delay_s=WAIT_S_MAX + 1) as ids:
        assert await refusal(ids) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert [await ids.next(), await ids.next()] == [10, 11]


async def test_clients_that_wait_concurrently_share_a_block(autojump_clock: object) -> None:
    found = list[int]()
    async with ids_from(AllocateProducerIdsResponse(producer_id_start=10, producer_id_len=3), delay_s=1) as ids:

        async def take() -> None:
            found.append(await ids.next())

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(take)
    assert sorted(found) == [10, 11, 12]
