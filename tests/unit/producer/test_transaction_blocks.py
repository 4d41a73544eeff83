"""Blocks of `Producer.transaction()`: what they raise when the block and the abort fail."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tests.unit.producer.conftest import Producing
from wire.api import ApiKey


class Failed(Exception):
    """The error of a block."""


async def never(_node: Any, _request: Any) -> None:
    await trio.sleep_forever()


async def fail_in_a_transaction(producing: Producing) -> None:
    async with producing.producer(transactional_id="t", max_block_ms=2000) as producer:
        await producer.init_transactions()
        producing.cluster.script(ApiKey.END_TXN, never)
        async with producer.transaction():
            await (await producer.send("topic", b"value"))
            raise Failed


async def test_an_abort_that_times_out_leaves_the_error_of_the_block(autojump_clock, producing: Producing) -> None:
    with pytest.raises(Failed):
        await fail_in_a_transaction(producing)


async def test_what_is_no_offset_is_not_committed(autojump_clock, producing: Producing) -> None:
    async with producing.producer(transactional_id="t") as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        with pytest.raises(TypeError, match="topic-0: 5 is no CommittedOffset"):
            await producer.send_offsets_to_transaction({"topic-0": 5}, Member())  # type: ignore[dict-item]


class Member:
    group_id, member_id, epoch, instance_id = "group", "", -1, None
