"""Tests of the start and stop of a broker: what a failed start leaves, and the order of writes in a clean stop."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from pykbroker import broker
from pykbroker.broker import lifecycle
from pykbroker.broker.parts import Parts
from pykbroker.core.address import Address
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.errors import StartError
from pykbroker.core.new_topic import NewTopic
from pykbroker.core.settings import Serving, Settings
from pykbroker.quorum.controller import JournalFailed
from pykbroker.quorum.lifecycle import Lifecycle
from pykbroker.storage.directory import log_directory
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.storage.log.log import Log
from pykbroker.world.net import Bound
from pykbroker.world.system import system_world
from pykbroker.world.system_disk import SystemDisk, SystemFile
from pykbroker.world.system_net import SystemListener
from pykbroker.world.world import World
from tests.unit import directories
from tests.unit.apis.conftest import Client, batch, serving, serving_with, settings
from wire.error_codes import ErrorCode

CLEAN = ".kafka_cleanshutdown"


async def refused(chosen: Settings, world: World | None = None) -> StartError:
    with pytest.raises(StartError) as caught:
        await broker.serve(chosen, lambda serving: None, world=world)
    return caught.value


async def test_a_start_that_fails_for_an_invalid_topic_does_not_change_the_directory(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(NewTopic("a_b", 1),)):
        pass
    assert (tmp_path / CLEAN).exists()
    error = await refused(settings(tmp_path, topics=(NewTopic("a.b", 1),)))
    assert "a.b" in str(error)
    assert (tmp_path / CLEAN).exists()
    async with serving(tmp_path, topics=(NewTopic("a_b", 1),)) as local_broker:
        assert local_broker.serving.port


async def test_a_start_that_fails_in_its_second_directory_unlocks_the_first(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    async with serving(first):
        pass
    world = system_world((str(first), str(second)), durable=False)
    other = world.disks[1]
    other.lock(".lock")
    error = await refused(settings(first), world)
    assert "in use by another broker" in str(error)
    other.unlock(".lock")
    assert (first / CLEAN).exists()
    async with serving(first) as local_broker:
        assert local_broker.serving.port


async def test_a_start_that_fails_for_a_port_in_use_changes_no_file(tmp_path: Path) -> None:
    async with serving(tmp_path / "one") as local_broker:
        chosen = settings(tmp_path / "two")
        taken = Settings(
            chosen.config,
            chosen.data_dirs,
            listeners=(ListenerSettings(address=Address("127.0.0.1", local_broker.serving.port)),),
            memory=True,
        )
        error = await refused(taken)
    assert str(local_broker.serving.port) in str(error)
    assert not any((tmp_path / "two").glob("*"))


class Probing:
    """A task that tries to connect to a broker during its start.

    `refused` counts the attempts, all of which must be refused.
    """

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refused = 0
        self._bind = world.net.bind
        monkeypatch.setattr(world.net, "bind", self._note)

    def _note(self, *args: Any) -> Bound:
        self.bound = self._bind(*args)
        return self.bound

    async def probe(self) -> None:
        with trio.socket.socket() as client, pytest.raises(ConnectionRefusedError):
            await client.connect(("127.0.0.1", self.bound.port))
        self.refused += 1


async def test_connections_are_refused_until_the_partitions_are_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, topics=(NewTopic("a", 3),)):
        pass
    world, stop = system_world((str(tmp_path),), durable=False), trio.Event()
    probing, open_log, unfence = Probing(world, monkeypatch), LogDirectory.open_log, Lifecycle.unfence

    async def probed_open(*args: Any) -> Log:
        await probing.probe()
        return await open_log(*args)

    async def probed_unfence(lifecycle: Lifecycle) -> None:
        await unfence(lifecycle)
        await probing.probe()

    monkeypatch.setattr(LogDirectory, "open_log", probed_open)
    monkeypatch.setattr(Lifecycle, "unfence", probed_unfence)
    async with trio.open_nursery() as nursery:
        serving_now = trio.Event()
        serve = partial(broker.serve, settings(tmp_path), lambda _: serving_now.set(), world=world, stop=stop)
        nursery.start_soon(serve)
        await serving_now.wait()
        assert probing.refused == 4
        await (await trio.open_tcp_stream("127.0.0.1", probing.bound.port)).aclose()
        stop.set()


async def test_connections_are_refused_by_a_broker_that_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = system_world((str(tmp_path / "one"),), durable=False)
    probing = Probing(world, monkeypatch)

    async def probed_register(_parts: Parts) -> None:
        await probing.probe()
        raise StartError("the end")

    monkeypatch.setattr(lifecycle, "register", probed_register)
    assert str(await refused(settings(tmp_path / "one"), world)) == "the end"
    assert probing.refused == 1


async def test_an_address_that_another_process_takes_during_the_start_is_a_start_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = system_world((str(tmp_path),), durable=False)

    def lost(_listener: SystemListener, _accept: Any, _tls: Any) -> None:
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))

    monkeypatch.setattr(SystemListener, "listen", lost)
    assert "is in use" in str(await refused(settings(tmp_path), world))
    assert (tmp_path / CLEAN).exists()


async def test_no_file_is_written_after_a_directory_is_unlocked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: list[str] = []
    rename, unlock = SystemDisk.rename, SystemDisk.unlock

    def note_rename(disk: SystemDisk, old: str, new: str) -> None:
        changes.append(new)
        rename(disk, old, new)

    def note_unlock(disk: SystemDisk, path: str) -> None:
        changes.append("unlocked")
        unlock(disk, path)

    async with serving(tmp_path, topics=(NewTopic("a", 1),)):
        monkeypatch.setattr(SystemDisk, "rename", note_rename)
        monkeypatch.setattr(SystemDisk, "unlock", note_unlock)
    assert changes[-2:] == [CLEAN, "unlocked"]
    assert any(path.startswith("__cluster_metadata-0/") for path in changes)


async def test_a_stop_after_which_no_start_follows_writes_neither_logs_nor_checkpoints(tmp_path: Path) -> None:
    def files() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name not in lost}

    lost = {".lock", "quorum-state"}
    chosen = msgspec.structs.replace(settings(tmp_path, topics=(NewTopic("a", 3),)), discards=True)
    async with serving_with(chosen) as local_broker:
        await (await local_broker.connect()).produce("a", batch(b"x"))
        left, descriptors = files(), len(os.listdir("/dev/fd"))
    assert files() == left
    assert len(os.listdir("/dev/fd")) < descriptors - 3
    assert not (tmp_path / ".lock").exists()


async def test_a_stop_does_not_wait_for_waiting_fetches(tmp_path: Path) -> None:
    from tests.unit.apis.conftest import fetch_request

    async with serving(tmp_path, topics=(NewTopic("a", 1),)) as local_broker:
        client = await local_broker.connect()
        await client.send(fetch_request("a", 0, max_wait_ms=50_000), 12)
        await trio.testing.wait_all_tasks_blocked()
        local_broker.stop.set()
        with pytest.raises(ConnectionResetError):
            await client.receive()


async def test_a_stop_during_the_start_is_clean_and_the_broker_is_never_ready(tmp_path: Path) -> None:
    stop = trio.Event()
    stop.set()
    ready: list[Serving] = []
    await broker.serve(settings(tmp_path, topics=(NewTopic("a", 1),)), ready.append, stop=stop)
    assert ready == []
    assert (tmp_path / CLEAN).exists()
    async with serving(tmp_path) as local_broker:
        assert local_broker.serving.port


def of_topic(directory: Path) -> list[int]:
    """Return the partitions of topic t in this directory."""
    return [int(path.name.removeprefix("t-")) for path in directory.glob("t-*")]


@asynccontextmanager
async def losing_one(failing: Path, paths: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    """Run a broker with two partitions in two log directories, one of which cannot be flushed."""
    sync = SystemFile.sync

    async def refuse(file: SystemFile) -> None:
        if file.path.startswith(f"{failing}/t-"):
            raise OSError(errno.EIO, "broken", file.path)
        await sync(file)

    monkeypatch.setattr(log_directory, "CHORE_INTERVAL_S", 0)
    async with directories.serving(*paths, configs={}) as client:
        await client.create("t", 2, flush_messages="1")
        monkeypatch.setattr(SystemFile, "sync", refuse)
        (lost,) = of_topic(failing)
        assert (await client.produce("t", batch(b"v"), partition=lost)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        yield client


async def test_a_failed_log_directory_does_not_affect_the_other_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = tmp_path / "first", tmp_path / "second"
    async with losing_one(paths[1], paths, monkeypatch) as client:
        (kept,) = of_topic(paths[0])
        for _ in range(20):
            assert (await client.produce("t", batch(b"v"), partition=kept)).error_code == 0


async def test_a_broker_stops_when_the_log_directory_of_its_metadata_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = tmp_path / "first", tmp_path / "second"
    expected = pytest.RaisesExc(
        JournalFailed, match="first, the directory of the metadata log, failed: .* Repair the disk"
    )
    with pytest.RaisesGroup(expected, flatten_subgroups=True):
        async with losing_one(paths[0], paths, monkeypatch):
            await trio.sleep_forever()


async def test_a_broker_without_re2_serves_and_says_what_it_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pykbroker.core.name_pattern.find_spec", lambda name: None)
    async with serving(tmp_path):
        (sentence,) = [line for line in caplog.messages if "google-re2" in line]
    assert sentence.endswith("are refused with INVALID_REGULAR_EXPRESSION")
    caplog.clear()
    monkeypatch.undo()
    async with serving(tmp_path):
        assert "google-re2" not in caplog.text
