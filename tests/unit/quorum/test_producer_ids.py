"""Tests of the producer ids that a broker allocates from the controller in blocks."""

from __future__ import annotations

import pytest

from pykbroker.core.errors import ApiError
from pykbroker.quorum.producer_ids import ProducerIds
from wire.error_codes import ErrorCode
from wire.messages.allocate_producer_ids import AllocateProducerIdsResponse


class Controller:
    def __init__(self, *answers):
        self.answers = list(answers)

    async def ask(self, request):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def ids_from(*answers):
    return ProducerIds(Controller(*answers), 1, lambda: 5)


async def test_ids_are_taken_from_one_block_after_another():
    ids = ids_from(
        AllocateProducerIdsResponse(producer_id_start=10, producer_id_len=2),
        AllocateProducerIdsResponse(producer_id_start=30, producer_id_len=1),
    )
    assert not ids.in_hand
    assert ids.next_nowait() is None
    assert [await ids.next() for _ in range(3)] == [10, 11, 30]


@pytest.mark.parametrize(
    "answer",
    [
        AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
        ApiError(ErrorCode.NOT_CONTROLLER),
        ApiError(ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
async def test_a_client_gets_a_retriable_error_while_no_block_is_available(answer):
    ids = ids_from(answer, AllocateProducerIdsResponse(producer_id_start=10, producer_id_len=2))
    with pytest.raises(ApiError) as refused:
        await ids.next()
    assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert await ids.next() == 10
