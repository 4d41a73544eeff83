"""Tests of a broker in a thread, with a fake broker: start, stop, and a failed start."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import trio

import pykbroker
from pykbroker.core.errors import StartError
from pykbroker.core.new_topic import NewTopic
from pykbroker.core.settings import Ready, Serving, Settings
from pykbroker.testing import running_broker
from pykbroker.world.world import World


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Return a function that replaces `broker.serve`."""

    def put(serve: Any) -> None:
        broker = ModuleType("pykbroker.broker")
        broker.serve = serve  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "pykbroker.broker", broker)
        monkeypatch.setattr(pykbroker, "broker", broker, raising=False)

    return put


def test_a_broker_serves_until_its_block_ends(play: Callable[[Any], None]) -> None:
    seen: list[Settings] = []
    stopped = []

    async def serve(settings: Settings, ready: Ready, *, world: World, stop: trio.Event) -> None:
        seen.append(settings)
        ready(Serving("127.0.0.1", 12345, "c", 1, dict))
        await stop.wait()
        stopped.append(True)

    play(serve)
    with running_broker(topics={"a": 2}, configs={"num.partitions": "5"}) as broker:
        assert broker.bootstrap == "127.0.0.1:12345"
        assert not stopped
    assert stopped
    (settings,) = seen
    assert (settings.listeners[0].address.port, settings.memory, settings.topics) == (0, True, (NewTopic("a", 2),))
    assert (settings.config.num_partitions, settings.config.offsets_topic_replication_factor) == (5, 1)
    assert "pykbroker" not in {thread.name for thread in threading.enumerate()}
    broker.stop()


def test_topics_and_configs_may_be_python_values(play: Callable[[Any], None]) -> None:
    seen: list[Settings] = []

    async def serve(settings: Settings, ready: Ready, *, world: World, stop: trio.Event) -> None:
        seen.append(settings)
        ready(Serving("127.0.0.1", 12345, "c", 1, dict))
        await stop.wait()

    play(serve)
    with running_broker(topics=["a", "b"], configs={"num.partitions": 5, "auto.create.topics.enable": False}):
        pass
    (settings,) = seen
    assert settings.topics == (NewTopic("a", 1), NewTopic("b", 1))
    assert (settings.config.num_partitions, settings.config.get("auto.create.topics.enable")) == (5, False)


@pytest.mark.parametrize(
    ("configs", "reason"),
    [
        ({"num.partition": 5}, "There is no broker config num.partition; did you mean num.partitions?"),
        ({"num.partitions": "many"}, "num.partitions"),
    ],
)
def test_invalid_configs_are_refused_in_a_sentence(configs: dict[str, Any], reason: str) -> None:
    with pytest.raises(StartError) as refused, running_broker(configs=configs):
        pass
    assert reason in str(refused.value)


def test_a_start_error_reaches_the_caller(play: Callable[[Any], None]) -> None:
    async def serve(settings: Settings, ready: Ready, *, world: World, stop: trio.Event) -> None:
        raise StartError("no")

    play(serve)
    with pytest.raises(StartError, match="no"), running_broker():
        pass
    assert "pykbroker" not in {thread.name for thread in threading.enumerate()}
