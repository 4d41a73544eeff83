"""A fork is refused by the clients on trio."""

from __future__ import annotations

import os

import pytest

from tests.unit.consumer.conftest import Consuming, consuming
from tests.unit.producer.conftest import Producing, producing

__all__ = ["consuming", "producing"]
REFUSAL = "was made in process .*, and a forked process cannot use its connections: make another one"


async def test_a_producer_refuses_to_send_in_a_forked_process(
    autojump_clock, producing: Producing, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with producing.producer(client_id="ours") as producer:
        await (await producer.send("topic", b"value", partition=0))
        with monkeypatch.context() as forked:
            forked.setattr(os, "getpid", lambda: -1)
            with pytest.raises(RuntimeError, match=f"ours {REFUSAL}"):
                await producer.send("topic", b"forked", partition=1)
            with pytest.raises(RuntimeError, match=REFUSAL):
                await producer.aclose()
        assert producing.all_values() == [b"value"]


async def test_a_consumer_refuses_to_poll_in_a_forked_process(
    autojump_clock, consuming: Consuming, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with consuming.member() as consumer:
        consuming.append(b"value")
        assert await consumer.poll(10)
        with monkeypatch.context() as forked:
            forked.setattr(os, "getpid", lambda: -1)
            with pytest.raises(RuntimeError, match=REFUSAL):
                await consumer.poll(1)
            with pytest.raises(RuntimeError, match=REFUSAL):
                await consumer.aclose()
