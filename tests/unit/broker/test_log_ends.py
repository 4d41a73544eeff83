"""The requests for the ends of logs that only other brokers know."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from pykbroker.broker.log_ends import ENDS_A_REQUEST, LOG_ENDS_S_MAX, log_ends
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode
from wire.messages.list_offsets import ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse


class Leaders:
    """Other brokers, whose logs end at 7. After some requests they fail, and broker 3 is silent."""

    def __init__(self, answers: int = 1000) -> None:
        self._answers = answers
        self.sizes: list[int] = []

    async def ask(self, node_id: int, request: Any) -> Any:
        self.sizes.append(sum(len(topic.partitions) for topic in request.topics))
        if len(self.sizes) > self._answers:
            if node_id == 3:
                await trio.sleep_forever()
            raise ApiError(ErrorCode.NETWORK_EXCEPTION)
        names = [topic.name for topic in request.topics]
        assert len(set(names)) == len(names)
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    topic.name,
                    [ListOffsetsPartitionResponse(each.partition_index, offset=7) for each in topic.partitions],
                )
                for topic in request.topics
            ]
        )


def partitions(count: int) -> dict[TopicPartition, None]:
    return {TopicPartition(f"t{number % 3}", number): None for number in range(count)}


@pytest.mark.parametrize(
    ("count", "sizes"),
    [
        (ENDS_A_REQUEST - 1, [ENDS_A_REQUEST - 1]),
        (ENDS_A_REQUEST, [ENDS_A_REQUEST]),
        (ENDS_A_REQUEST + 1, [ENDS_A_REQUEST, 1]),
    ],
)
async def test_many_ends_are_asked_for_in_several_requests(count: int, sizes: list[int]) -> None:
    leaders = Leaders()
    assert await log_ends({2: partitions(count)}, leaders) == dict.fromkeys(partitions(count), 7)
    assert leaders.sizes == sizes


async def test_a_leader_that_fails_is_not_asked_again() -> None:
    leaders = Leaders(answers=1)
    assert len(await log_ends({2: partitions(3 * ENDS_A_REQUEST)}, leaders)) == ENDS_A_REQUEST
    assert len(leaders.sizes) == 2


async def test_ends_that_come_too_late_are_left_out(autojump_clock: trio.testing.MockClock) -> None:
    leaders = Leaders(answers=2)
    began = trio.current_time()
    assert len(await log_ends({3: partitions(3 * ENDS_A_REQUEST)}, leaders)) == 2 * ENDS_A_REQUEST
    assert trio.current_time() - began == LOG_ENDS_S_MAX
