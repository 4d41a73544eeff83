"""Tests of flushes: the records that a flush covers, callers that share an fsync, and failures of the disk."""

from __future__ import annotations

import errno
from collections import Counter

import pytest
import trio
from msgspec.structs import replace
from trio.testing import wait_all_tasks_blocked

from pykbroker.core.errors import ApiError
from pykbroker.core.log.epochs import OffsetAndEpoch
from pykbroker.storage.files import lost_writes
from pykbroker.storage.files.checkpoints import EPOCHS, encode_epochs
from pykbroker.storage.files.errors import CorruptLog
from pykbroker.storage.files.small_files import read_whole
from pykbroker.storage.log import flusher
from pykbroker.storage.recovery import recovery
from pykbroker.storage.segments.config import LogConfig
from pykbroker.storage.segments.sealed import SealedSegment
from pykbroker.world.system_disk import SystemDisk, SystemFile
from tests.unit.storage.logs import DIRECTORY, NOW, SMALL, batch, filled, open_log
from wire.error_codes import ErrorCode

BIG = LogConfig()
"""Configs under which no segment rolls in these tests."""


@pytest.fixture
def whole_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a log of any size write its leader epoch file."""
    monkeypatch.setattr(flusher, "REPLAYED_BYTES_MAX", -1)


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the fsyncs of each file and directory by name."""
    counted: Counter[str] = Counter()

    async def sync(file: SystemFile) -> None:
        counted[file.path.rpartition("/")[2]] += 1
        await trio.lowlevel.checkpoint()

    async def sync_directory(disk: SystemDisk, path: str, files: tuple[str, ...] = ()) -> None:
        counted[path or "root"] += 1
        await trio.lowlevel.checkpoint()

    monkeypatch.setattr(SystemFile, "sync", sync)
    monkeypatch.setattr(SystemDisk, "sync_directory", sync_directory)
    return counted


@pytest.mark.usefixtures("whole_epochs")
async def test_only_the_first_flush_fsyncs_the_directory(disk: SystemDisk, syncs: Counter[str]) -> None:
    log = await open_log(disk)
    log.appender.append(batch(), 0, NOW)
    await log.flush()
    assert log.recovery_point == 1
    assert syncs[f"{0:020d}.log"] == syncs["root"] == 1
    assert syncs["leader-epoch-checkpoint.tmp"] == 1
    syncs.clear()
    log.appender.append(batch(), 0, NOW)
    await log.flush()
    await log.flush()
    assert syncs == {f"{0:020d}.log": 1}


async def test_concurrent_flushes_share_an_fsync(disk: SystemDisk, syncs: Counter[str]) -> None:
    log = await open_log(disk)

    async def append_and_flush() -> None:
        end = log.appender.append(batch(), 0, NOW).last_offset
        await log.flush()
        assert log.recovery_point > end

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(append_and_flush)
    assert syncs[f"{0:020d}.log"] <= 3
    assert log.recovery_point == 50


async def test_a_flush_includes_segments_that_were_sealed(disk: SystemDisk, syncs: Counter[str]) -> None:
    log = await open_log(disk)
    filled(log, 40)
    names = [name for name in disk.names(DIRECTORY) if name.endswith(".log")]
    assert log.segments.unsynced
    await log.flush()
    assert not log.segments.unsynced
    assert {name: syncs[name] for name in names} == dict.fromkeys(names, 1)
    assert all(disk.exists(f"{DIRECTORY}/{name[:20]}.index") for name in names[:-1])


@pytest.mark.parametrize(
    ("config", "asks"),
    [
        (BIG, False),
        (replace(BIG, flush_messages=1), True),
        (replace(BIG, flush_ms=1000), True),
        (replace(BIG, flush_before_ack=True), True),
    ],
)
async def test_a_flush_is_a_barrier_unless_a_config_asks_for_durability(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch, config: LogConfig, asks: bool
) -> None:
    calls = []

    def noting(name: str) -> None:
        async def note(file: SystemFile) -> None:
            calls.append((name, file.path.rpartition(".")[2]))

        monkeypatch.setattr(SystemFile, name, note)

    log = await open_log(disk, config)
    noting("sync")
    noting("barrier")
    log.appender.append(batch(), 0, NOW)
    await log.flush()
    assert [name for name, kind in calls if kind == "log"] == ["sync" if asks else "barrier"]


async def test_no_flush_succeeds_after_a_failed_fsync(disk: SystemDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    log = await open_log(disk)
    log.appender.append(batch(), 0, NOW)

    async def fail(_: SystemFile) -> None:
        await trio.lowlevel.checkpoint()
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(SystemFile, "sync", fail)
        with pytest.raises(OSError, match="Input/output"):
            await log.flush()
    assert log.failed is not None
    assert log.recovery_point == 0
    with pytest.raises(OSError, match="Input/output"):
        await log.flush()
    await log.close()
    assert not disk.exists(f"{DIRECTORY}/{0:020d}.index")


async def test_flushes_of_a_deleted_log_do_not_take_the_directory_offline(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await open_log(disk)
    log.appender.append(batch(), 0, NOW)
    go, synced, codes = trio.Event(), [], []

    async def sync(file: SystemFile) -> None:
        synced.append(file.path)
        await go.wait()
        raise OSError(errno.EIO, "Input/output error")

    async def flush() -> None:
        with pytest.raises(ApiError) as refusal:
            await log.flush()
        codes.append(refusal.value.code)

    monkeypatch.setattr(SystemFile, "sync", sync)
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(flush)
        await wait_all_tasks_blocked()
        log.abandon()
        go.set()
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert len(synced) == 1
    assert (log.failed, lost_writes.are_noted(disk)) == (None, False)


@pytest.mark.usefixtures("whole_epochs")
async def test_a_flush_that_fails_before_its_fsync_is_retried(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without free descriptors neither the directory nor the leader epoch file can be opened; no record is lost."""
    log = await open_log(disk)
    log.appender.append(batch(), 0, NOW)
    opened = SystemDisk.open

    def epochs_refused(self: SystemDisk, path: str, *, create: bool = False) -> SystemFile:
        if path.endswith("leader-epoch-checkpoint.tmp"):
            raise OSError(errno.EMFILE, "Too many open files")
        return opened(self, path, create=create)

    async def directories_refused(_: SystemDisk, path: str, files: tuple[str, ...] = ()) -> None:
        raise OSError(errno.EMFILE, "Too many open files", path)

    for name, refused in (("open", epochs_refused), ("sync_directory", directories_refused)):
        with monkeypatch.context() as patch:
            patch.setattr(SystemDisk, name, refused)
            with pytest.raises(OSError, match="Too many"):
                await log.flush()
        assert (log.failed, log.recovery_point) == (None, 0)
    await log.flush()
    assert (log.failed, log.recovery_point) == (None, 1)
    assert disk.exists(f"{DIRECTORY}/leader-epoch-checkpoint")


async def test_a_damaged_sealed_segment_fails_the_flush_of_its_log(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await open_log(disk)
    filled(log, 40)

    def damaged(_: SealedSegment) -> None:
        raise CorruptLog("segment 0: batch 7 does not hold")

    monkeypatch.setattr(SealedSegment, "require_loaded", damaged)
    for _ in range(2):
        with pytest.raises(CorruptLog):
            await log.flush()
    assert isinstance(log.failed, CorruptLog)
    await log.close()


@pytest.mark.usefixtures("whole_epochs")
async def test_leader_epochs_may_change_while_their_file_is_written(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await open_log(disk)
    log.appender.append(batch(), 0, NOW)
    sync, synced, asked, answered = SystemFile.sync, list[bytes](), trio.Event(), trio.Event()

    async def wait(file: SystemFile) -> None:
        if file.path.endswith(f"{EPOCHS}.tmp"):
            synced.append(bytes(await file.read(0, file.size)))
            asked.set()
            await answered.wait()
        await sync(file)

    monkeypatch.setattr(SystemFile, "sync", wait)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.flush)
        await asked.wait()
        log.appender.append(batch(), 7, NOW)
        nursery.start_soon(log.flush)
        await wait_all_tasks_blocked()
        answered.set()
    assert log.recovery_point == 2
    assert synced == [encode_epochs([(0, 0)]), encode_epochs([(0, 0), (7, 1)])]
    assert await read_whole(disk, f"{DIRECTORY}/{EPOCHS}") == synced[-1]


async def test_a_flush_on_a_full_disk_succeeds_without_indexes_and_snapshots(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await open_log(disk)
    rename = SystemDisk.rename

    def full(self: SystemDisk, old: str, new: str) -> None:
        if new.endswith((".index", ".snapshot", ".timeindex")):
            raise OSError(errno.ENOSPC, "No space left on device")
        rename(self, old, new)

    monkeypatch.setattr(SystemDisk, "rename", full)
    places = filled(log, 40)
    await log.flush()
    assert log.recovery_point == log.log_end_offset == places[-1][1] + 1


async def test_segments_may_be_deleted_and_truncated_during_a_flush(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await open_log(disk, replace(SMALL, retention_bytes=600))
    filled(log, 60)
    waiting, go = trio.Event(), trio.Event()

    async def sync(file: SystemFile) -> None:
        if file.path.endswith(".log") and not waiting.is_set():
            waiting.set()
            await go.wait()

    monkeypatch.setattr(SystemFile, "sync", sync)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.flush)
        await waiting.wait()
        await log.retain(NOW, log.log_end_offset)
        await log.shrinker.truncate(log.log_end_offset - 5)
        go.set()
    log.appender.append(batch(), 0, NOW)
    assert log.recovery_point < log.log_end_offset
    await log.flush()
    assert log.recovery_point == log.log_end_offset
    names = disk.names(DIRECTORY)
    first = min(name for name in names if name.endswith(".log"))
    assert int(first[:20]) == log.log_start_offset > 0
    assert not [name for name in names if name < first and name.endswith("index")]


async def test_closing_a_small_log_writes_only_its_log_file(disk: SystemDisk) -> None:
    log = await open_log(disk, BIG)
    log.become_leader(3)
    filled(log, 5)
    await log.close()
    assert disk.names(DIRECTORY) == [f"{0:020d}.log"]
    again = await open_log(disk, BIG, clean=True, recovery_point=log.log_end_offset)
    assert again.epochs.entries == log.epochs.entries
    assert again.reader.end_offset_for_epoch(0) == OffsetAndEpoch(log.log_end_offset, 0)


@pytest.mark.usefixtures("whole_epochs")
async def test_closing_an_unchanged_log_changes_no_file(disk: SystemDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    log = await open_log(disk, BIG)
    filled(log, 400)
    await log.close()
    again = await open_log(disk, BIG, clean=True, recovery_point=log.log_end_offset)
    again.become_leader(9)
    opened = SystemDisk.open

    def refuse(self: SystemDisk, path: str, *, create: bool = False) -> SystemFile:
        assert not create, f"{path} must not be written"
        return opened(self, path)

    monkeypatch.setattr(SystemDisk, "open", refuse)
    await again.close()


async def test_the_first_batch_writes_its_leader_epoch(disk: SystemDisk) -> None:
    log = await open_log(disk)
    filled(log, 40)
    await log.close()
    end = log.log_end_offset
    again = await open_log(disk, clean=True, recovery_point=end)
    again.become_leader(9)
    await again.flush()
    again.appender.append(batch(), 9, NOW)
    await again.flush()
    assert await read_whole(disk, f"{DIRECTORY}/{EPOCHS}") == encode_epochs([(0, 0), (9, end)])


@pytest.mark.parametrize(("bytes_over", "written"), [(-1, False), (0, False), (1, True)])
async def test_a_small_log_is_closed_without_leader_epochs_and_producer_snapshot(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch, bytes_over: int, written: bool
) -> None:
    log = await open_log(disk, BIG)
    log.appender.append(batch(), 0, NOW)
    for module in (flusher, recovery):
        monkeypatch.setattr(module, "REPLAYED_BYTES_MAX", log.size_bytes - bytes_over)
    await log.close()
    assert disk.exists(f"{DIRECTORY}/{EPOCHS}") is written
    assert disk.exists(f"{DIRECTORY}/{1:020d}.snapshot") is written
