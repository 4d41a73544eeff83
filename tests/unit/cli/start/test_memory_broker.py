"""Tests of the broker of a command: a start that takes too long."""

from __future__ import annotations

import threading

import pytest
import trio

from pykbroker import broker
from pykbroker.cli.start import memory_broker
from pykbroker.core.errors import StartError
from pykbroker.core.settings import Ready, Settings


def test_a_start_that_takes_too_long_is_a_start_error_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def serve(settings: Settings, ready: Ready, *, stop: trio.Event) -> None:
        await stop.wait()

    monkeypatch.setattr(broker, "serve", serve)
    monkeypatch.setattr(memory_broker, "START_S_MAX", 0)
    sentence = "has not started within 0 s: it waits for its modules, or for the files in /"
    with pytest.raises(StartError, match=sentence), memory_broker.memory_broker([]):
        pass
    assert "broker" not in {thread.name for thread in threading.enumerate()}


async def test_a_stop_signal_that_is_set_before_the_loop_runs_is_not_lost() -> None:
    stop = memory_broker.StopSignal()
    stop.set()
    assert stop.open().is_set()
