"""Tests of log directories that contradict the metadata, of full disks, and of topics with many partitions."""

from __future__ import annotations

import errno
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from pykbroker.core.metadata.image import Delta
from pykbroker.replica.care import upkeep
from pykbroker.replica.replicas import Replicas
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.storage.log.log import Log
from pykbroker.world import system
from pykbroker.world.system_disk import SystemDisk, SystemFile
from tests.unit.apis.conftest import batch, serving
from wire.error_codes import ErrorCode
from wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState


async def test_a_directory_of_a_deletion_that_a_kill_interrupted_is_renamed_as_stray(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path) as local_broker:
        client = await local_broker.connect()
        topic_id = await client.create("t", 2)
        await client.produce("t", batch(b"old"), partition=1)
        shutil.copytree(tmp_path / "t-1", tmp_path / "kept")
        await client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000), 6)
        (tmp_path / "kept").rename(tmp_path / "t-1")
    async with serving(tmp_path) as local_broker:
        client = await local_broker.connect()
        stray = tmp_path / f"t-1.{topic_id.hex()}-stray"
        assert (stray / f"{0:020d}.log").stat().st_size > 0
        assert f"is set aside as {stray.name}" in caplog.text
        await client.create("t", 2)
        assert (await client.produce("t", batch(b"new"), partition=1)).base_offset == 0


async def test_a_directory_with_another_topic_id_is_offline_and_not_renamed(tmp_path: Path) -> None:
    async with serving(tmp_path) as local_broker:
        client = await local_broker.connect()
        await client.create("t", 1)
        await client.produce("t", batch(b"precious"))
    (tmp_path / "t-0" / "partition.metadata").write_bytes(b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    async with serving(tmp_path) as local_broker:
        client = await local_broker.connect()
        assert (await client.fetch("t", 0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert [name for name in os.listdir(tmp_path) if name.startswith("t-0")] == ["t-0"]


async def test_a_topic_created_on_a_full_disk_is_served_once_there_is_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "OPENING_RETRY_INTERVAL_S", 0.01)
    opened = SystemDisk.open

    def full(disk: SystemDisk, path: str, *, create: bool = False) -> SystemFile:
        if path.startswith("t-1/"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return opened(disk, path, create=create)

    async with serving(tmp_path) as local_broker:
        client = await local_broker.connect()
        with monkeypatch.context() as patch:
            patch.setattr(SystemDisk, "open", full)
            await client.create("t", 2)
            answers = [(await client.produce("t", batch(b"v"), partition=index)).error_code for index in range(2)]
            assert answers == [0, ErrorCode.KAFKA_STORAGE_ERROR]
        code = -1
        while code:
            code = (await client.produce("t", batch(b"v"), partition=1)).error_code
        assert len((await client.fetch("t", 0, partition=1)).records) == len(batch(b"v"))
    assert (tmp_path / ".kafka_cleanshutdown").exists()


async def test_other_tasks_run_while_a_topic_is_created_and_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, seen = 0, []

    async def others() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    created, abandoned = LogDirectory.create_log, Log.abandon

    async def create_log(directory: LogDirectory, *args: Any) -> Log:
        seen.append(turns)
        return await created(directory, *args)

    def abandon(log: Log) -> None:
        seen.append(turns)
        abandoned(log)

    async with serving(tmp_path) as local_broker:
        client = await local_broker.connect()
        monkeypatch.setattr(LogDirectory, "create_log", create_log)
        monkeypatch.setattr(Log, "abandon", abandon)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
            await client.create("t", 20)
            await client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000), 6)
            nursery.cancel_scope.cancel()
    assert len(seen) == 40
    assert max(Counter(seen).values()) <= 2, (
        "at most two partitions are handled in one pass, in which tasks run in any order"
    )


async def test_a_deleted_topic_that_was_never_opened_does_not_block_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied, unopened = Replicas.apply, []

    async def apply(replicas: Replicas, delta: Delta) -> None:
        if delta.topics_deleted:
            unopened.append(msgspec.structs.replace(delta.topics_deleted[0], id=bytes(15) + b"u", name="unopened"))
            delta = msgspec.structs.replace(delta, topics_deleted=(unopened[0], *delta.topics_deleted))
        await applied(replicas, delta)

    monkeypatch.setattr(Replicas, "apply", apply)
    async with serving(tmp_path) as local_broker:
        client = await local_broker.connect()
        await client.create("t", 1)
        answer = await client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000), 6)
        assert (answer.responses[0].error_code, len(unopened)) == (0, 1)
        assert "t-0" not in os.listdir(tmp_path)
        await client.create("t", 1)
        assert (await client.produce("t", batch(b"v"))).base_offset == 0


async def test_an_empty_topic_name_is_an_unknown_topic(tmp_path: Path) -> None:
    """Versions without topic ids do not have the error code UNKNOWN_TOPIC_ID."""
    async with serving(tmp_path) as local_broker:
        client = await local_broker.connect()
        assert (await client.produce("", batch(b"v"), version=11)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await client.fetch("", 0, version=12)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def allow_open_files(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Limit the number of open files of brokers that start later."""
    monkeypatch.setattr(system, "open_files_max", lambda: number)


async def test_partitions_without_a_descriptor_are_served_once_one_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A limit of 128 open files leaves 57 for partitions, so the partitions of the last topic stay closed."""
    caplog.set_level("INFO")
    monkeypatch.setattr(upkeep, "OPENING_RETRY_INTERVAL_S", 0.01)
    async with serving(tmp_path) as local_broker:
        client = await local_broker.connect()
        ids = {await client.create(name, 30): name for name in ("t", "u")}
        for name in ids.values():
            assert (await client.produce(name, batch(b"v"), partition=29)).error_code == 0
    first, last = (ids[one] for one in sorted(ids))
    allow_open_files(monkeypatch, 128)
    async with serving(tmp_path) as local_broker:
        client = await local_broker.connect()
        assert f"3 partitions, of which {last}-27 is the first, stay offline" in caplog.text
        assert (await client.fetch(last, 0, partition=29)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (tmp_path / ".kafka_cleanshutdown").exists(), (
        "a log that was never opened is still marked as cleanly shut down"
    )
    async with serving(tmp_path) as local_broker:
        client = await local_broker.connect()
        await client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name=first)], timeout_ms=1000), 6)
        records = b""
        while not records:
            records = (await client.fetch(last, 0, partition=29)).records or b""
        assert len(records) == len(batch(b"v"))
        assert f"{last}-29: online" in caplog.text
