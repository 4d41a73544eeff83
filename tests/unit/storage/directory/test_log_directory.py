"""Tests of a log directory: its lock, the partitions found at start, its checkpoints, and its shutdown."""

from __future__ import annotations

import errno
import json
import logging
import os
import threading

import pytest
import trio
import trio.testing
from msgspec.structs import replace

from pykbroker.core.errors import ApiError, StartError
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.storage.directory import log_directory
from pykbroker.storage.files.errors import CorruptLog
from pykbroker.storage.log import flusher
from pykbroker.storage.segments.config import LogConfig
from pykbroker.storage.segments.sealed import SealedSegment
from pykbroker.world.system_disk import SystemDisk, SystemFile
from pykbroker.world.system_off_loop import SystemOffLoop
from tests.unit.storage.logs import NOW, SMALL, batch, every_byte, filled
from tests.unit.storage.real_directory import RealDirectory

TOPIC_ID = bytes(range(16))


async def test_a_clean_shutdown_writes_the_checkpoints_that_the_next_start_needs(real_dir: RealDirectory) -> None:
    first = await real_dir.open()
    assert not first.clean
    log = await first.create_log(TopicPartition("topic", 3), TOPIC_ID, SMALL)
    filled(log, 30)
    whole, end = await every_byte(log), log.log_end_offset
    log.delete_records(5)
    await first.close(broker_epoch=17, high_watermarks={TopicPartition("topic", 3): end})
    assert json.loads((real_dir.path / ".kafka_cleanshutdown").read_text()) == {"version": 0, "brokerEpoch": 17}
    assert real_dir.offsets("recovery-point-offset-checkpoint") == {("topic", 3): end}
    assert real_dir.offsets("replication-offset-checkpoint") == {("topic", 3): end}
    assert real_dir.offsets("log-start-offset-checkpoint") == {("topic", 3): 5}
    assert (real_dir.path / "cleaner-offset-checkpoint").read_bytes() == b""

    second = await real_dir.open()
    assert second.clean
    assert not (real_dir.path / ".kafka_cleanshutdown").exists()
    assert [(*one.key, one.topic_id) for one in second.partitions()] == [("topic", 3, TOPIC_ID)]
    assert second.high_watermark(TopicPartition("topic", 3)) == end
    log = await second.open_log(TopicPartition("topic", 3), TOPIC_ID, SMALL)
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (5, end, end)
    assert whole.endswith(await every_byte(log))
    await second.close(high_watermarks={})


async def test_after_a_crash_logs_are_recovered_from_their_recovery_points(real_dir: RealDirectory) -> None:
    directory = await real_dir.open()
    log = await directory.create_log(TopicPartition("topic", 0), TOPIC_ID, SMALL)
    filled(log, 30)
    await log.flush()
    point = log.log_end_offset
    await directory.checkpoints.write()
    log.appender.append(batch(), 0, NOW)
    real_dir.crash()
    with next(real_dir.path.glob(f"topic-0/*{log.segments.active.base_offset}.log")).open("ab") as file:
        file.write(b"half a batch")
    directory = await real_dir.open()
    assert not directory.clean
    log = await directory.open_log(TopicPartition("topic", 0), TOPIC_ID, SMALL)
    assert (log.log_end_offset, log.recovery_point) == (point + 1, point)


async def test_a_second_broker_cannot_lock_the_directory(real_dir: RealDirectory) -> None:
    await real_dir.open()
    other = RealDirectory(real_dir.path)
    with pytest.raises(StartError, match="in use"):
        await other.open()
    real_dir.crash()
    await other.open()


async def test_a_directory_that_is_not_a_partition_is_ignored_with_a_warning(
    real_dir: RealDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    for name in (
        "backup",
        "topic-01",
        "topic-1",
        "topic-1.0123456789abcdef0123456789abcdef-stray",
        "lost+found",
        "__cluster_metadata-0",
    ):
        (real_dir.path / name).mkdir()
    (real_dir.path / "a file-0").touch()
    directory = await real_dir.open()
    assert [(*one.key, one.topic_id) for one in directory.partitions()] == [("topic", 1, None)]
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        f"{real_dir.path}/{name} is not a partition's directory and is ignored" for name in ("backup", "topic-01")
    ]


@pytest.mark.parametrize(
    "content", [None, b"", b"version: 0\ntopic_id: ?", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"]
)
async def test_a_partition_directory_of_an_unknown_topic_id_stays_offline(
    real_dir: RealDirectory, content: bytes | None
) -> None:
    directory = await real_dir.open()
    filled(await directory.create_log(TopicPartition("topic", 0), TOPIC_ID, SMALL), 3)
    await directory.close(high_watermarks={TopicPartition("topic", 0): 3})
    metadata = real_dir.path / "topic-0" / "partition.metadata"
    metadata.unlink()
    if content is not None:
        metadata.write_bytes(content)
    before = sorted(path.name for path in real_dir.path.glob("topic-0/*.log"))
    directory = await real_dir.open()
    with pytest.raises(CorruptLog):
        await directory.open_log(TopicPartition("topic", 0), TOPIC_ID, SMALL)
    await directory.close(high_watermarks={})
    assert sorted(path.name for path in real_dir.path.glob("topic-0/*.log")) == before
    assert (real_dir.path / ".kafka_cleanshutdown").exists()
    assert real_dir.offsets("replication-offset-checkpoint") == {("topic", 0): 3}
    assert real_dir.offsets("recovery-point-offset-checkpoint") == {("topic", 0): 6}


async def test_an_invalid_checkpoint_is_ignored(real_dir: RealDirectory) -> None:
    directory = await real_dir.open()
    filled(await directory.create_log(TopicPartition("topic", 0), TOPIC_ID, SMALL), 3)
    await directory.close(high_watermarks={TopicPartition("topic", 0): 3})
    (real_dir.path / "replication-offset-checkpoint").write_bytes(b"0\n7\ntopic 0 3\n")
    (real_dir.path / "recovery-point-offset-checkpoint").write_bytes(b"\0\0\0")
    directory = await real_dir.open()
    assert directory.high_watermark(TopicPartition("topic", 0)) == 0
    log = await directory.open_log(TopicPartition("topic", 0), TOPIC_ID, SMALL)
    assert log.log_end_offset == 6


async def test_a_deleted_partition_is_renamed_at_once_and_its_files_are_removed_later(real_dir: RealDirectory) -> None:
    directory = await real_dir.open()
    log = await directory.create_log(TopicPartition("topic", 0), TOPIC_ID, SMALL)
    filled(log, 3)
    await directory.delete_logs([TopicPartition("topic", 0)])
    assert [path.name for path in real_dir.path.iterdir() if path.is_dir()] == [f"topic-0.{TOPIC_ID.hex()}-delete"]
    again = await directory.create_log(TopicPartition("topic", 0), TOPIC_ID, SMALL)
    assert again.log_end_offset == 0
    await directory.delete_logs([TopicPartition("topic", 0)])
    assert len([path for path in real_dir.path.iterdir() if path.is_dir()]) == 2
    real_dir.now_ms += 59_999
    await directory._chores.round()
    assert len([path for path in real_dir.path.iterdir() if path.is_dir()]) == 2
    real_dir.now_ms += 1
    await directory._chores.round()
    assert [path for path in real_dir.path.iterdir() if path.is_dir()] == []


async def test_a_deletion_continues_after_a_restart(real_dir: RealDirectory) -> None:
    directory = await real_dir.open()
    await directory.create_log(TopicPartition("a" * 249, 0), TOPIC_ID, SMALL)
    await directory.delete_logs([TopicPartition("a" * 249, 0)])
    real_dir.crash()
    directory = await real_dir.open()
    assert directory.partitions() == []
    real_dir.now_ms += 60_000
    await directory._chores.round()
    assert [path for path in real_dir.path.iterdir() if path.is_dir()] == []


async def test_background_work_flushes_logs_removes_files_and_writes_checkpoints(
    real_dir: RealDirectory, autojump_clock: trio.testing.MockClock
) -> None:
    """Rolled segments and records older than flush.ms are fsynced, files are removed, checkpoints are written."""
    directory = await real_dir.open()
    rolled = await directory.create_log(TopicPartition("rolled", 0), TOPIC_ID, SMALL)
    filled(rolled, 30)
    waits = await directory.create_log(TopicPartition("waits", 0), TOPIC_ID, replace(LogConfig(), flush_ms=5000))
    waits.appender.append(batch(producer_id=3, producer_epoch=0, base_sequence=0), 0, NOW)
    never = await directory.create_log(TopicPartition("never", 0), TOPIC_ID, LogConfig())
    never.appender.append(batch(), 0, NOW)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(directory.run)
        await trio.sleep(2)
        assert (rolled.recovery_point, waits.recovery_point) == (rolled.log_end_offset, 0)
        rolled.configure(replace(SMALL, retention_bytes=0))
        await rolled.retain(NOW, rolled.log_end_offset)
        real_dir.now_ms += 6000
        await trio.sleep(2)
        assert (waits.recovery_point, never.recovery_point) == (1, 0)
        assert list(real_dir.path.glob("rolled-0/*.deleted"))
        real_dir.now_ms += 60_000
        await trio.sleep(2)
        assert not list(real_dir.path.glob("rolled-0/*.deleted"))
        assert real_dir.offsets("recovery-point-offset-checkpoint") == {
            ("rolled", 0): rolled.log_end_offset,
            ("waits", 0): 1,
            ("never", 0): 0,
        }
        assert len(waits.producers) == 1
        real_dir.now_ms += 86_400_000
        await trio.sleep(2)
        assert len(waits.producers) == 0
        nursery.cancel_scope.cancel()


async def test_the_event_loop_runs_while_files_are_removed(
    real_dir: RealDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = await real_dir.open(SystemOffLoop())
    await directory.create_log(TopicPartition("topic", 0), TOPIC_ID, SMALL)
    await directory.delete_logs([TopicPartition("topic", 0)])
    real_dir.now_ms += 60_000
    threads, remove = set(), SystemDisk.remove

    def note(disk: SystemDisk, path: str) -> None:
        threads.add(threading.get_ident())
        remove(disk, path)

    monkeypatch.setattr(SystemDisk, "remove", note)
    await directory._chores.round()
    assert not list(real_dir.path.glob("topic-0*"))
    assert threads
    assert threading.get_ident() not in threads


async def test_a_failed_disk_gets_no_clean_shutdown_file(
    real_dir: RealDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = await real_dir.open()
    log = await directory.create_log(TopicPartition("topic", 0), TOPIC_ID, SMALL)
    filled(log, 30)

    async def fail(_: SystemFile) -> None:
        await trio.lowlevel.checkpoint()
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(SystemFile, "sync", fail)
        patch.setattr(log_directory, "CHORE_INTERVAL_S", 0)
        await directory.run()
    assert directory.failed is log.failed is not None
    await directory.close(high_watermarks={})
    assert not (real_dir.path / ".kafka_cleanshutdown").exists()
    assert not (await real_dir.open()).clean


@pytest.mark.parametrize(
    "number",
    [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOENT, errno.EACCES, errno.EBADF],
)
async def test_a_temporary_lack_of_resources_does_not_take_the_directory_offline(
    real_dir: RealDirectory, number: int
) -> None:
    directory = await real_dir.open()
    directory.fail(OSError(number, os.strerror(number)))
    assert directory.failed is None


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS, errno.ENODEV, errno.ESTALE, 4711])
async def test_an_io_error_takes_the_directory_offline(real_dir: RealDirectory, number: int) -> None:
    directory = await real_dir.open()
    directory.fail(failure := OSError(number, os.strerror(number)))
    directory.fail(OSError(errno.EIO, "Input/output error"))
    assert directory.failed is failure


async def test_deleting_a_partition_during_its_flush_does_not_take_the_directory_offline(
    real_dir: RealDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_dir.disk = SystemDisk(str(real_dir.path), SystemOffLoop())
    directory = await real_dir.open()
    log = await directory.create_log(TopicPartition("topic", 0), TOPIC_ID, SMALL)
    filled(log, 30)
    waiting, go, sync = trio.Event(), trio.Event(), SystemFile.sync

    async def slow(file: SystemFile) -> None:
        waiting.set()
        await go.wait()
        await sync(file)

    monkeypatch.setattr(SystemFile, "sync", slow)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(directory._chores.round)
        nursery.start_soon(directory.checkpoints.write)
        await waiting.wait()
        await directory.delete_logs([TopicPartition("topic", 0)])
        go.set()
    with pytest.raises(ApiError):
        await log.flush()
    assert log.failed is directory.failed is None


async def test_deleting_a_partition_while_its_epochs_are_written_does_not_take_the_directory_offline(
    real_dir: RealDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flusher, "REPLAYED_BYTES_MAX", -1)
    directory = await real_dir.open()
    log = await directory.create_log(TopicPartition("topic", 0), TOPIC_ID, SMALL)
    log.appender.append(batch(), 0, NOW)
    waiting, go = trio.Event(), trio.Event()

    async def slow(file: SystemFile) -> None:
        if "leader-epoch-checkpoint" in file.path:
            waiting.set()
            await go.wait()

    monkeypatch.setattr(SystemFile, "sync", slow)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(directory._chores.round)
        log.configure(replace(SMALL, flush_ms=0))
        await waiting.wait()
        await directory.delete_logs([TopicPartition("topic", 0)])
        go.set()
    assert log.failed is directory.failed is None


async def test_a_file_that_cannot_be_removed_does_not_stop_the_background_work(
    real_dir: RealDirectory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    directory = await real_dir.open()
    for partition in range(3):
        await directory.create_log(TopicPartition("topic", partition), TOPIC_ID, SMALL)
    rename = SystemDisk.rename

    def refuse(disk: SystemDisk, old: str, new: str) -> None:
        if old == "topic-1":
            raise OSError(errno.EROFS, "Read-only file system")
        rename(disk, old, new)

    monkeypatch.setattr(SystemDisk, "rename", refuse)
    await directory.delete_logs([TopicPartition("topic", index) for index in range(3)])
    assert "topic-1 cannot be renamed" in caplog.text
    assert directory.failed is not None
    assert sorted(path.name for path in real_dir.path.iterdir() if path.is_dir()) == [
        f"topic-0.{TOPIC_ID.hex()}-delete",
        "topic-1",
        f"topic-2.{TOPIC_ID.hex()}-delete",
    ]


async def test_deleting_a_topic_lists_no_directory_and_fsyncs_once(
    real_dir: RealDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Listing a directory takes time for each partition, and one fsync is enough for all partitions."""
    directory = await real_dir.open()
    for partition in range(20):
        await directory.create_log(TopicPartition("topic", partition), TOPIC_ID, SMALL)
    listed, synced = [], []

    async def note(_: SystemDisk, path: str, files: tuple[str, ...] = ()) -> None:
        synced.append(path)

    monkeypatch.setattr(SystemDisk, "names", lambda _, path: listed.append(path))
    monkeypatch.setattr(SystemDisk, "sync_directory", note)
    await directory.delete_logs([TopicPartition("topic", index) for index in range(20)])
    assert (listed, synced) == ([], [""])


async def test_background_work_continues_on_a_full_disk(
    real_dir: RealDirectory,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Files are still removed, logs that need no space are flushed, and one log line reports the full disk."""
    monkeypatch.setattr(flusher, "REPLAYED_BYTES_MAX", -1)
    directory = await real_dir.open()
    needs = await directory.create_log(TopicPartition("needs", 0), TOPIC_ID, replace(LogConfig(), flush_ms=0))
    other = await directory.create_log(TopicPartition("other", 0), TOPIC_ID, replace(LogConfig(), flush_ms=0))
    await directory.create_log(TopicPartition("old", 0), TOPIC_ID, SMALL)
    await directory.delete_logs([TopicPartition("old", 0)])
    needs.appender.append(batch(), 0, NOW)
    other.appender.append(batch(), 0, NOW)
    written = SystemFile.append

    def full(file: SystemFile, data: bytes) -> int:
        if "needs-0" in file.path or "point-offset-checkpoint" in file.path:
            raise OSError(errno.ENOSPC, "No space left on device")
        return written(file, data)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(directory.run)
        with monkeypatch.context() as patch:
            patch.setattr(SystemFile, "append", full)
            real_dir.now_ms += 60_000
            await trio.sleep(5)
            assert not list(real_dir.path.glob("old-0*"))
            assert (needs.recovery_point, other.recovery_point) == (0, 1)
            assert caplog.text.count("background work failed and is retried") == 1
        real_dir.now_ms += 60_000
        await trio.sleep(2)
        nursery.cancel_scope.cancel()
    assert needs.recovery_point == 1
    assert real_dir.offsets("recovery-point-offset-checkpoint") == {("needs", 0): 1, ("other", 0): 1}


async def test_a_log_that_cannot_be_closed_prevents_a_clean_shutdown_but_other_logs_are_closed(
    real_dir: RealDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = await real_dir.open()
    damaged, sound = [
        await directory.create_log(TopicPartition("topic", partition), TOPIC_ID, SMALL) for partition in range(2)
    ]
    filled(damaged, 30)
    filled(sound, 3)

    def refuse(segment: SealedSegment) -> None:
        raise CorruptLog("segment 0: batch 7 does not hold")

    with monkeypatch.context() as patch:
        patch.setattr(SealedSegment, "require_loaded", refuse)
        await directory.close(high_watermarks={TopicPartition("topic", 1): 6})
    assert not (real_dir.path / ".kafka_cleanshutdown").exists()
    assert real_dir.offsets("recovery-point-offset-checkpoint") == {("topic", 0): 0, ("topic", 1): 6}


async def test_a_log_that_went_offline_is_recovered_with_checksums_at_the_next_start(real_dir: RealDirectory) -> None:
    directory = await real_dir.open()
    filled(await directory.create_log(TopicPartition("topic", 0), TOPIC_ID, SMALL), 3)
    directory.set_offline(TopicPartition("topic", 0))
    await directory.close(high_watermarks={})
    assert not (real_dir.path / ".kafka_cleanshutdown").exists()


async def test_a_log_damaged_after_a_clean_shutdown_is_refused_by_every_start(real_dir: RealDirectory) -> None:
    """The log ends at another offset than at its shutdown, which no crash explains."""
    directory = await real_dir.open()
    for partition, count in enumerate((3, 9)):
        filled(await directory.create_log(TopicPartition("topic", partition), TOPIC_ID, LogConfig()), count)
    await directory.close(high_watermarks={})
    one, other = (real_dir.path / f"topic-{partition}" / f"{0:020d}.log" for partition in range(2))
    one.write_bytes(other.read_bytes())
    for _ in range(3):
        directory = await real_dir.open()
        with pytest.raises(CorruptLog, match="its last segment belongs to another log"):
            await directory.open_log(TopicPartition("topic", 0), TOPIC_ID, LogConfig())
        filled(await directory.open_log(TopicPartition("topic", 1), TOPIC_ID, LogConfig()), 1)
        await directory.close(high_watermarks={})


async def test_only_the_partition_with_unreadable_metadata_goes_offline(real_dir: RealDirectory) -> None:
    directory = await real_dir.open()
    for partition in range(2):
        filled(await directory.create_log(TopicPartition("topic", partition), TOPIC_ID, SMALL), 3)
    await directory.close(high_watermarks={})
    metadata = real_dir.path / "topic-0" / "partition.metadata"
    metadata.unlink()
    metadata.mkdir()
    directory = await real_dir.open()
    with pytest.raises(CorruptLog, match="does not say"):
        await directory.open_log(TopicPartition("topic", 0), TOPIC_ID, SMALL)
    assert (await directory.open_log(TopicPartition("topic", 1), TOPIC_ID, SMALL)).log_end_offset == 6


@pytest.mark.parametrize("refused", ["partition.metadata", ".log"])
async def test_a_partition_that_cannot_be_created_leaves_no_files(
    real_dir: RealDirectory, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    directory = await real_dir.open()
    opened = SystemDisk.open

    def full(disk: SystemDisk, path: str, *, create: bool = False) -> SystemFile:
        if refused in path:
            raise OSError(errno.ENOSPC, "No space left on device")
        return opened(disk, path, create=create)

    with monkeypatch.context() as patch:
        patch.setattr(SystemDisk, "open", full)
        with pytest.raises(OSError, match="No space"):
            await directory.create_log(TopicPartition("topic", 0), TOPIC_ID, SMALL)
    assert (directory.partitions(), list(real_dir.path.glob("topic-0*"))) == ([], [])
    filled(await directory.create_log(TopicPartition("topic", 0), TOPIC_ID, SMALL), 3)
    await directory.close(high_watermarks={})
    assert (real_dir.path / ".kafka_cleanshutdown").exists()


async def test_an_interrupted_creation_of_a_partition_is_finished_by_the_next_start(real_dir: RealDirectory) -> None:
    (real_dir.path / "topic-0").mkdir()
    directory = await real_dir.open()
    assert (await directory.open_log(TopicPartition("topic", 0), TOPIC_ID, SMALL)).log_end_offset == 0
    await directory.close(high_watermarks={})
    assert [one.topic_id for one in (await real_dir.open()).partitions()] == [TOPIC_ID]


async def test_a_partition_with_checkpointed_records_is_not_created_again(real_dir: RealDirectory) -> None:
    directory = await real_dir.open()
    filled(await directory.create_log(TopicPartition("topic", 0), TOPIC_ID, SMALL), 3)
    await directory.close(high_watermarks={TopicPartition("topic", 0): 6})
    for path in real_dir.path.glob("topic-0/*"):
        path.unlink()
    with pytest.raises(CorruptLog, match="does not say"):
        await (await real_dir.open()).open_log(TopicPartition("topic", 0), TOPIC_ID, SMALL)


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_log_whose_segments_are_missing_is_offline_instead_of_empty(
    real_dir: RealDirectory, is_known: bool
) -> None:
    directory = await real_dir.open()
    filled(await directory.create_log(TopicPartition("topic", 0), TOPIC_ID, SMALL), 3)
    if is_known:
        await directory.checkpoints.write_high_watermarks({TopicPartition("topic", 0): 6})
    real_dir.crash()
    (real_dir.path / "topic-0" / f"{0:020d}.log").unlink()
    directory = await real_dir.open()
    if is_known:
        with pytest.raises(CorruptLog, match="topic-0 has no segment, but had records"):
            await directory.open_log(TopicPartition("topic", 0), TOPIC_ID, SMALL)
        assert not list(real_dir.path.glob("topic-0/*.log"))
    else:
        assert (await directory.open_log(TopicPartition("topic", 0), TOPIC_ID, SMALL)).log_end_offset == 0


async def test_a_stray_partition_is_renamed_and_kept(real_dir: RealDirectory, caplog: pytest.LogCaptureFixture) -> None:
    directory = await real_dir.open()
    filled(await directory.create_log(TopicPartition("topic", 0), TOPIC_ID, SMALL), 3)
    await directory.close(high_watermarks={TopicPartition("topic", 0): 6})
    directory = await real_dir.open()
    await directory.set_aside(directory.partitions())
    stray = f"topic-0.{TOPIC_ID.hex()}-stray"
    assert f"{real_dir.path}/topic-0 belongs to a topic" in caplog.text
    assert stray in caplog.text
    assert (directory.partitions(), directory.high_watermark(TopicPartition("topic", 0))) == ([], 0)
    assert (real_dir.path / stray / f"{0:020d}.log").stat().st_size > 0
    again = await directory.create_log(TopicPartition("topic", 0), TOPIC_ID, SMALL)
    assert again.log_end_offset == 0
    real_dir.now_ms += 10**9
    await directory.close(high_watermarks={})
    await real_dir.open()
    assert (real_dir.path / stray).exists()


async def test_a_log_that_ends_below_its_recovery_point_is_damaged_even_after_a_crash(real_dir: RealDirectory) -> None:
    directory = await real_dir.open()
    log = await directory.create_log(TopicPartition("topic", 0), TOPIC_ID, SMALL)
    log.appender.append(batch(b"a"), 0, NOW)
    end_of_first = log.size_bytes
    log.appender.append(batch(b"b"), 0, NOW)
    await log.flush()
    await directory.checkpoints.write()
    real_dir.crash()
    os.truncate(real_dir.path / "topic-0" / f"{0:020d}.log", end_of_first)
    directory = await real_dir.open()
    with pytest.raises(CorruptLog, match="ends at offset 1; all below 2 was synced"):
        await directory.open_log(TopicPartition("topic", 0), TOPIC_ID, SMALL)


@pytest.mark.parametrize("restart", [False, True])
async def test_a_new_topic_does_not_inherit_the_checkpoints_of_a_deleted_topic_with_its_name(
    real_dir: RealDirectory, restart: bool
) -> None:
    directory = await real_dir.open()
    for topic in ("topic", "other"):
        log = await directory.create_log(TopicPartition(topic, 0), TOPIC_ID, SMALL)
        filled(log, 9)
        await log.flush()
    end = log.log_end_offset
    directory.logs[TopicPartition("topic", 0)].delete_records(4)
    await directory.checkpoints.write()
    await directory.checkpoints.write_high_watermarks({TopicPartition(each, 0): end for each in ("topic", "other")})
    if restart:
        real_dir.crash()
        directory = await real_dir.open()
        await directory.open_log(TopicPartition("topic", 0), TOPIC_ID, SMALL)
    await directory.delete_logs([TopicPartition("topic", 0)])
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        assert real_dir.offsets(name) == {("other", 0): end}
    assert real_dir.offsets("log-start-offset-checkpoint") == {}
    log = await directory.create_log(TopicPartition("topic", 0), bytes(reversed(TOPIC_ID)), SMALL)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)


async def test_a_high_watermark_is_checkpointed_once_the_directory_of_its_log_is_durable(
    real_dir: RealDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = await real_dir.open()
    for index in range(2):
        filled(await directory.create_log(TopicPartition("topic", index), TOPIC_ID, SMALL), 2)

    async def refuse(disk: SystemDisk, path: str, files: tuple[str, ...] = ()) -> None:
        if path == "topic-0":
            raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(SystemDisk, "sync_directory", refuse)
    await directory.checkpoints.write_high_watermarks({TopicPartition("topic", 0): 2, TopicPartition("topic", 1): 2})
    assert real_dir.offsets("replication-offset-checkpoint") == {("topic", 1): 2}


@pytest.mark.parametrize("marker", [None, b'{"version":0,"brokerEpoch":17}'])
async def test_a_broker_that_fails_to_start_restores_the_clean_shutdown_file(
    real_dir: RealDirectory, marker: bytes | None
) -> None:
    path = real_dir.path / ".kafka_cleanshutdown"
    if marker is not None:
        path.write_bytes(marker)
    directory = await real_dir.open()
    assert not path.exists()
    await directory.leave_untouched()
    assert (path.read_bytes() if path.exists() else None) == marker
    assert not (real_dir.path / ".lock").exists()
    assert (await real_dir.open()).clean is (marker is not None)
