"""A fork is refused by the clients on trio."""

from __future__ import annotations

import os
import warnings

import pytest

from pykbroker.world.one_process import OneProcess
from tests.unit.consumer.conftest import Consuming, consuming
from tests.unit.producer.conftest import Producing, producing

__all__ = ["consuming", "producing"]
REFUSAL = "was made in process .*, and a forked process cannot use its connections: make another one"


def test_a_fork_is_noticed_in_the_child_only() -> None:
    called: list[str] = []
    older, forgotten = OneProcess("older", lambda: called.append("older")), OneProcess("forgotten", called.clear)
    del forgotten
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other tests may have left threads
        child = os.fork()
    if not child:
        code = 1
        try:
            if called == ["older"] and not older.is_current and OneProcess("newer").is_current:
                code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert older.is_current
    assert not called


async def test_a_producer_refuses_to_send_in_a_forked_process(
    autojump_clock, producing: Producing, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with producing.producer(client_id="ours") as producer:
        await (await producer.send("topic", b"value", partition=0))
        with monkeypatch.context() as forked:
            forked.setattr(producer._shell.process, "is_current", False)
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
            forked.setattr(consumer._shell.process, "is_current", False)
            with pytest.raises(RuntimeError, match=REFUSAL):
                await consumer.poll(1)
            with pytest.raises(RuntimeError, match=REFUSAL):
                await consumer.aclose()
