"""Tests of a broker in a thread, with a fake broker: start, stop, and a failed start."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
import trio

import pykbroker
from pykbroker.core.address import Address
from pykbroker.core.errors import StartError
from pykbroker.core.new_topic import NewTopic
from pykbroker.core.settings import Ready, Serving, Settings
from pykbroker.processes.broker_process import BrokerProcess
from pykbroker.processes.messages import Announcement, StartRefused, Stopped
from pykbroker.testing import RunningCluster, broker_thread, child_broker, running_broker, running_cluster
from pykbroker.testing.broker_thread import BrokerThread
from pykbroker.testing.child_broker import ChildBroker
from pykbroker.testing.cluster_options import checked_cluster_options
from pykbroker.testing.options import BrokerOptions
from pykbroker.world.world import World
from wire.sentinels import BROKER_DEFAULT

ANNOUNCED = msgspec.json.encode(Announcement(Address("127.0.0.1", 9), "c", {}, None)) + b"\n"
STOPPED, REFUSED = (msgspec.json.encode(each) + b"\n" for each in (Stopped(), StartRefused("no")))
SERVING_CHILD = f"import os, sys\nos.write(int(sys.argv[-1]), {ANNOUNCED!r})\nsys.stdin.read()\n"
"""A program that announces a broker, and obeys no order."""


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
    assert settings.topics == (NewTopic("a", BROKER_DEFAULT), NewTopic("b", BROKER_DEFAULT))
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


def test_a_start_that_takes_too_long_is_a_start_error_and_ends(play: Callable[[Any], None]) -> None:
    async def serve(settings: Settings, ready: Ready, *, world: World, stop: trio.Event) -> None:
        await stop.wait()

    play(serve)
    with pytest.raises(StartError) as refused, running_broker(start_timeout=0.05):
        pass
    sentence = "the broker has not started within 0.05 s: it waits for the logs and the metadata in /"
    assert str(refused.value).startswith(sentence)
    assert "pykbroker" not in {thread.name for thread in threading.enumerate()}


def test_a_start_that_is_given_up_before_its_loop_runs_makes_no_directory_anew(
    play: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begins, directory = threading.Event(), tmp_path / "removed"

    class SlowOptions(BrokerOptions):
        def settings(self, directory: str) -> Settings:
            begins.wait()
            return super().settings(directory)

    async def serve(settings: Settings, ready: Ready, *, world: World, stop: trio.Event) -> None:
        raise AssertionError("the start was given up")

    play(serve)
    monkeypatch.setattr(broker_thread, "STOP_S_MAX", 0)
    thread = BrokerThread(str(directory))
    with pytest.raises(StartError, match="within 0.05 s: it waits for its modules. If the machine is busy, set"):
        thread.start(SlowOptions(start_timeout=0.05))
    thread.close()
    (late,) = [each for each in threading.enumerate() if each.name == "pykbroker"]
    begins.set()
    late.join(10)
    assert not late.is_alive()
    assert not directory.exists()


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[BrokerProcess]:
    """Return the child processes that the test starts."""
    started, child = list[BrokerProcess](), child_broker.child

    def noted(directory: str) -> BrokerProcess:
        started.append(child(directory))
        return started[-1]

    monkeypatch.setattr(child_broker, "child", noted)
    return started


def test_a_child_process_that_does_not_answer_is_a_start_error_and_the_next_start_begins_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, children: list[BrokerProcess]
) -> None:
    (tmp_path / "silent_child.py").write_text("import sys\nsys.stdin.read()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(child_broker, "PROGRAM", "silent_child")
    broker = ChildBroker("data")
    late = "has not started within 0.05 s: it waits for its modules, or the logs and the metadata in data, or the"
    for _ in range(2):
        with pytest.raises(StartError, match=late):
            broker.start(BrokerOptions(start_timeout=0.05, controller="127.0.0.1:9093"))
    broker.close()
    assert [process.ended() for process in children] == [-signal.SIGKILL] * 2


def test_a_cluster_that_starts_too_late_is_a_start_error_and_ends_all_its_processes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, children: list[BrokerProcess]
) -> None:
    (tmp_path / "deaf_child.py").write_text("import time\ntime.sleep(600)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(child_broker, "PROGRAM", "deaf_child")
    monkeypatch.setattr(child_broker, "END_S_MAX", 0.05)
    late = pytest.raises(StartError, match="has not started within 0.05 s: it waits for its modules, or the logs")
    with late, running_cluster(2, data_dir=tmp_path / "data", start_timeout=0.05):
        pass
    assert [process.ended() for process in children] == [-signal.SIGKILL] * 2


def test_a_child_process_that_dies_is_replaced_by_the_next_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, children: list[BrokerProcess]
) -> None:
    program = tmp_path / "mortal_child.py"
    program.write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(child_broker, "PROGRAM", "mortal_child")
    broker = ChildBroker("data")
    with pytest.raises(RuntimeError, match=f"the broker's process {children[0].pid} has ended; its stderr may say why"):
        broker.start(BrokerOptions())
    program.write_text(SERVING_CHILD)
    for child in (1, 2):
        broker.start(BrokerOptions())
        assert broker.runs
        assert not broker.has_died
        os.kill(children[child].pid, signal.SIGKILL)
        assert children[child].message() is None
        children[child].ended()
        assert broker.has_died
        broker.pause()
        broker.resume()
    broker.stop()
    assert not broker.has_died
    broker.close()


OBEDIENT_CHILD = f"""
import json, os, sys
place, pipe, serves = sys.argv[1], int(sys.argv[-1]), False
for line in sys.stdin:
    order = json.loads(line)
    if "start" not in order:
        serves, answer = False, {STOPPED!r}
    elif serves or os.path.exists(place + "/refuse"):
        answer = {REFUSED!r}
    else:
        serves, answer = True, {ANNOUNCED!r}
    os.write(pipe, answer)
"""
"""A program that obeys orders as a broker does. It refuses a second start, and each one if its directory says so."""


def test_a_cluster_of_which_a_broker_does_not_start_can_be_started_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "obedient_child.py").write_text(OBEDIENT_CHILD)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(child_broker, "PROGRAM", "obedient_child")
    refuse = tmp_path / "2" / "refuse"
    refuse.parent.mkdir()
    refuse.touch()
    with closing(RunningCluster(checked_cluster_options(3, None, (), None, None, 30, {}), str(tmp_path))) as cluster:
        with pytest.raises(StartError, match="no"):
            cluster.start()
        refuse.unlink()
        for _ in range(2):
            cluster.restart()


def test_a_child_process_that_does_not_stop_is_killed_and_restarts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "stubborn_child.py").write_text(SERVING_CHILD)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(child_broker, "PROGRAM", "stubborn_child")
    monkeypatch.setattr(child_broker, "STOP_S_MAX", 0.05)
    broker = ChildBroker("data")
    for _ in range(2):
        broker.start(BrokerOptions())
        with pytest.raises(RuntimeError, match="has not stopped within 0.05 s: its process was killed"):
            broker.stop()
        assert not broker.runs
    broker.close()
