"""Tests of a new partition: its files, and its recovery after a crash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.sim.off_loop import InlineOffLoop
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.storage.log import flusher
from pykbroker.world.system_disk import SystemDisk
from pykbroker.world.system_off_loop import SystemOffLoop
from tests.unit.storage.logs import NOW, SMALL, batch

TOPIC_ID = bytes(range(16))
EPOCHS = "topic-0/leader-epoch-checkpoint"


async def opened(disk: SystemDisk) -> LogDirectory:
    return await LogDirectory.open(disk, off_loop=InlineOffLoop(), wall_ms=lambda: NOW, jitter=lambda: 0.5)


@pytest.fixture
def disk(tmp_path: Path) -> SystemDisk:
    return SystemDisk(str(tmp_path), SystemOffLoop(), durable=False)


async def test_a_new_partition_creates_one_directory_and_two_files(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, done = await opened(disk), list[str]()
    for name in ("make_directory", "open", "rename", "names", "exists", "is_directory", "remove", "size"):
        call = getattr(SystemDisk, name)

        def noted(disk: SystemDisk, path: str, *rest: str, _call: Any = call, _name: str = name, **named: bool) -> Any:
            done.append(f"{_name} {path}")
            return _call(disk, path, *rest, **named)

        monkeypatch.setattr(SystemDisk, name, noted)
    log = await directory.create_log(TopicPartition("topic", 0), TOPIC_ID, SMALL)
    log.become_leader(0)
    assert done == ["make_directory topic-0", "open topic-0/partition.metadata", f"open topic-0/{0:020d}.log"]


async def test_leader_epochs_are_written_by_the_first_flush_of_a_large_log(
    disk: SystemDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flusher, "REPLAYED_BYTES_MAX", 0)
    log = await (await opened(disk)).create_log(TopicPartition("topic", 0), TOPIC_ID, SMALL)
    log.become_leader(4)
    assert log.epochs.entries == ((4, 0),)
    assert not disk.exists(EPOCHS)
    log.appender.append(batch(), 4, NOW)
    await log.flush()
    assert (tmp_path / EPOCHS).read_bytes() == b"0\n1\n4 0\n"


async def test_a_kill_before_the_first_flush_loses_no_leader_epoch(disk: SystemDisk) -> None:
    log = await (await opened(disk)).create_log(TopicPartition("topic", 0), TOPIC_ID, SMALL)
    for epoch in (4, 7):
        log.become_leader(epoch)
        log.appender.append(batch(), epoch, NOW)
    entries = log.epochs.entries
    assert [epoch for epoch, _ in entries] == [4, 7]
    disk.unlock(".lock")
    assert not disk.exists(EPOCHS)
    again = await (await opened(disk)).open_log(TopicPartition("topic", 0), TOPIC_ID, SMALL)
    assert again.epochs.entries == entries
