"""Tests of which logs the background work of a log directory visits: those that have noted work, and no quiet log."""

from __future__ import annotations

import errno

import pytest
import trio
from msgspec.structs import replace

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.storage.log.shrinker import LogShrinker
from pykbroker.storage.segments.config import LogConfig
from pykbroker.storage.segments.sealed import SealedSegment
from pykbroker.world.system_disk import SystemDisk, SystemFile
from pykbroker.world.system_off_loop import SystemOffLoop
from tests.unit.storage.logs import NOW, SMALL, batch, filled
from tests.unit.storage.real_directory import RealDirectory

TOPIC_ID = bytes(range(16))
KEY = TopicPartition("topic", 0)


@pytest.fixture
def visited(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the directories of the logs that the background work has visited since the start of the test."""
    directories, take = list[str](), LogShrinker.take_deleted

    def note(shrinker: LogShrinker) -> list[str]:
        directories.append(shrinker._state.directory)
        return take(shrinker)

    monkeypatch.setattr(LogShrinker, "take_deleted", note)
    return directories


async def test_only_the_log_that_has_rolled_is_visited_and_only_once(
    real_dir: RealDirectory, visited: list[str]
) -> None:
    directory = await real_dir.open()
    logs = [await directory.create_log(TopicPartition("topic", index), TOPIC_ID, SMALL) for index in range(3)]
    for log in logs:
        filled(log, 3)
    await directory._chores.round()
    assert visited == []
    filled(logs[1], 30)
    await directory._chores.round()
    await directory._chores.round()
    assert visited == ["topic-1"]
    assert [log.recovery_point for log in logs] == [0, logs[1].log_end_offset, 0]


async def test_a_log_is_visited_in_each_round_while_it_has_a_flush_ms(
    real_dir: RealDirectory, visited: list[str]
) -> None:
    directory = await real_dir.open()
    log = await directory.create_log(KEY, TOPIC_ID, LogConfig())
    log.appender.append(batch(), 0, NOW)
    await directory._chores.round()
    log.configure(replace(LogConfig(), flush_ms=5000))
    await directory._chores.round()
    real_dir.now_ms += 4999
    await directory._chores.round()
    assert log.recovery_point == 0
    real_dir.now_ms += 1
    await directory._chores.round()
    assert log.recovery_point == 1
    assert len(visited) == 3
    log.configure(LogConfig())
    for _ in range(2):
        await directory._chores.round()
    assert len(visited) == 4


async def test_the_log_of_a_topic_that_is_created_again_waits_for_its_own_flush_ms(real_dir: RealDirectory) -> None:
    directory, config = await real_dir.open(), replace(LogConfig(), flush_ms=5000)
    for number in range(2):
        log = await directory.create_log(KEY, TOPIC_ID, config)
        log.appender.append(batch(), 0, NOW)
        await directory._chores.round()
        assert log.recovery_point == 0
        if not number:
            await directory.delete_logs([KEY])
            await directory._chores.round()
            real_dir.now_ms += 5000


async def test_a_rolled_segment_is_flushed_again_after_the_flush_of_another_task_has_failed(
    real_dir: RealDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round that visits the log during that flush finds nothing to do, and forgets the log's note."""
    real_dir.disk = SystemDisk(str(real_dir.path), SystemOffLoop())
    directory = await real_dir.open()
    log = await directory.create_log(KEY, TOPIC_ID, SMALL)
    filled(log, 30)
    waiting, go = trio.Event(), trio.Event()

    async def refuse(_: SystemFile) -> None:
        waiting.set()
        await go.wait()
        raise OSError(errno.EMFILE, "Too many open files")

    async def flush() -> None:
        with pytest.raises(OSError, match="Too many open files"):
            await log.flush()

    with monkeypatch.context() as patch:
        patch.setattr(SystemFile, "sync", refuse)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(flush)
            await waiting.wait()
            await directory._chores.round()
            go.set()
    assert log.recovery_point == 0
    await directory._chores.round()
    assert log.recovery_point == log.log_end_offset


async def test_a_refused_flush_is_retried_in_the_next_round(
    real_dir: RealDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = await real_dir.open()
    log = await directory.create_log(KEY, TOPIC_ID, SMALL)
    filled(log, 30)

    def full(_: SealedSegment) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(SealedSegment, "require_loaded", full)
        for _ in range(2):
            assert [refusal.errno for refusal in await directory._chores.round()] == [errno.EMFILE]
    assert await directory._chores.round() == []
    assert log.recovery_point == log.log_end_offset


async def test_segments_that_were_not_durable_at_a_crash_are_flushed_after_the_start(real_dir: RealDirectory) -> None:
    directory = await real_dir.open()
    filled(await directory.create_log(KEY, TOPIC_ID, SMALL), 30)
    await directory.checkpoints.write()
    real_dir.crash()
    directory = await real_dir.open()
    log = await directory.open_log(KEY, TOPIC_ID, SMALL)
    assert log.recovery_point == 0
    await directory._chores.round()
    assert log.recovery_point == log.log_end_offset


async def test_a_copy_that_becomes_the_log_is_visited(real_dir: RealDirectory, visited: list[str]) -> None:
    directory = await real_dir.open()
    copy = await directory.create_copy(KEY, TOPIC_ID, SMALL, 0)
    filled(copy, 30)
    await directory._chores.round()
    assert (visited, copy.recovery_point) == ([], 0)
    assert directory.accept(KEY, TOPIC_ID) is copy
    await directory.settle(KEY)
    await directory._chores.round()
    assert (visited, copy.recovery_point) == (["topic-0"], copy.log_end_offset)
