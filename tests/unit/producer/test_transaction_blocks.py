"""Blocks of `Producer.transaction()`: what they raise when the block and the abort fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio

from pykbroker.core.producer.errors import IllegalCall
from pykbroker.producer import Producer
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


async def late(_node: Any, _request: Any) -> None:
    """Let a node answer a request after 2 s of virtual time."""
    with trio.move_on_after(2):
        await trio.sleep_forever()


async def test_a_transaction_is_possible_after_a_commit_that_was_cancelled(
    autojump_clock, producing: Producing
) -> None:
    async with producing.producer(transactional_id="t") as producer:
        await producer.init_transactions()
        producing.cluster.script(ApiKey.END_TXN, late)
        with trio.move_on_after(1) as scope:
            async with producer.transaction():
                await producer.send("topic", b"first", partition=0)
        assert (scope.cancelled_caught, producing.elapsed() >= 2) == (True, True)
        async with producer.transaction():
            await producer.send("topic", b"second", partition=0)
    assert producing.committed() == [b"first", b"second"]


async def cancel_a_commit(producing: Producing, producer: Producer, answer: Callable[..., Any]) -> None:
    """Commit a record, and cancel the call after a second, before the broker answers."""
    await producer.init_transactions()
    producing.cluster.script(ApiKey.END_TXN, answer)
    await producer.begin_transaction()
    await producer.send("topic", b"value", partition=0)
    with trio.move_on_after(1):
        await producer.commit_transaction()


async def test_close_waits_for_a_commit_that_was_cancelled(autojump_clock, producing: Producing) -> None:
    async with producing.producer(transactional_id="t") as producer:
        await cancel_a_commit(producing, producer, late)
        with pytest.raises(IllegalCall, match="commit_transaction ended without a result; repeat it to get its result"):
            await producer.begin_transaction()
    assert producing.committed() == [b"value"]


async def test_close_waits_for_a_commit_no_longer_than_its_own_time_out(autojump_clock, producing: Producing) -> None:
    async with producing.producer(transactional_id="t") as producer:
        await cancel_a_commit(producing, producer, never)
        begun = producing.elapsed()
        await producer.aclose(3)
        assert producing.elapsed() - begun < 30  # max_block_ms is 60 s
