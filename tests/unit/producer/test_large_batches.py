"""The rows of one call of `send_many` share large batches, and reach topics that accept only small ones."""

from __future__ import annotations

import pytest

from tests.unit.producer.conftest import Producing, refuse
from wire.api import ApiKey
from wire.error_codes import ErrorCode


@pytest.mark.parametrize(("given", "requests"), [({}, 3), ({"batch_size": 400_000}, 6)])
async def test_a_call_fills_large_batches_unless_the_batch_size_is_set(
    autojump_clock, producing: Producing, given: dict[str, int], requests: int
) -> None:
    values = [b"%04d" % row * 100 for row in range(5000)]
    async with producing.producer(**given) as producer:
        result = await (await producer.send_many("topic", values, partition=0))
    assert len(producing.cluster.requests_of(ApiKey.PRODUCE)) == requests
    assert producing.values() == values
    assert result.offsets == list(range(5000))


async def test_rows_reach_a_topic_that_accepts_no_large_batch(autojump_clock, producing: Producing) -> None:
    values = [b"%03d" % row * 100 for row in range(100)]
    async with producing.producer() as producer:
        refuse(producing.cluster, ErrorCode.MESSAGE_TOO_LARGE)
        results = [await (await producer.send_many("topic", values, partition=0)) for _ in range(2)]
        assert producer.statistics().batches_split == 1
    assert [list(result.offsets) for result in results] == [list(range(100)), list(range(100, 200))]
    assert producing.values() == values * 2
    assert len(producing.cluster.requests_of(ApiKey.PRODUCE)) == 5
