"""Tests of the log cleaner: the order in which it compacts logs, its checkpoint, and its handling of failures."""

from __future__ import annotations

import errno
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import msgspec
import pytest
import trio
import trio.testing

from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.sim.off_loop import InlineOffLoop
from pykbroker.sim.worker import InlineWorkers
from pykbroker.storage.cleaner.cleaner import Cleaner, CleanerSettings
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.storage.files.checkpoints import CLEANED, decode_offsets
from pykbroker.world.system_disk import SystemDisk
from pykbroker.world.worker import WorkerGone
from tests.unit.storage.compacted import COMPACTED, last_values, put
from tests.unit.storage.logs import NOW, file_bytes

ID = bytes(range(16))
FAST = CleanerSettings(backoff_ms=15_000, keys_max=1000, bytes_per_second=1e300)


@dataclass
class Part:
    """A double of a partition with only the attributes that the cleaner uses."""

    log: Any  # The type is Log or None.
    directory: LogDirectory
    is_online: bool = True

    @property
    def high_watermark(self) -> int:
        return self.log.log_end_offset


class CleanerDirectory:
    """A log directory with partitions and a cleaner."""

    def __init__(self, disk: SystemDisk, directory: LogDirectory) -> None:
        self.disk, self.directory = disk, directory
        self.parts: list[Part] = []
        self.settings = FAST
        self.cleaner = self.with_workers(InlineWorkers(InlineOffLoop()))

    def with_workers(self, workers) -> Cleaner:
        return Cleaner(lambda: self.parts, workers, lambda: self.settings, lambda: NOW)

    async def add(self, name: str, batches: int = 20, **config: object) -> Part:
        """Add a partition with this number of batches, all with the same key."""
        log = await self.directory.create_log(TopicPartition(name, 0), ID, msgspec.structs.replace(COMPACTED, **config))
        part = Part(log, self.directory)
        self.parts.append(part)
        await self.fill(part, batches)
        return part

    async def fill(self, part: Part, batches: int) -> None:
        for number in range(batches):
            put(part.log, [(b"key", b"%d" % number * 50)])
        await part.log.flush()

    def checkpointed(self) -> dict[TopicPartition, int]:
        file = self.disk.open(CLEANED)
        return decode_offsets(file_bytes(file))


async def opened(disk: SystemDisk) -> LogDirectory:
    return await LogDirectory.open(disk, off_loop=InlineOffLoop(), wall_ms=lambda: NOW, jitter=lambda: 0.5)


@pytest.fixture
async def cleaner_directory(disk: SystemDisk) -> CleanerDirectory:
    return CleanerDirectory(disk, await opened(disk))


def dirty(part: Part) -> bool:
    return part.log.cleaned_offset < part.log.segments.active.base_offset


async def test_every_due_log_is_compacted_and_its_cleaned_offset_is_checkpointed(
    cleaner_directory: CleanerDirectory,
) -> None:
    one, two = await cleaner_directory.add("one"), await cleaner_directory.add("two", 40)
    small = await cleaner_directory.add("small", 1)
    before = await last_values(two.log)
    await cleaner_directory.cleaner.round()
    assert not dirty(one)
    assert not dirty(two)
    assert await last_values(two.log) == before
    assert cleaner_directory.checkpointed() == {("one", 0): one.log.cleaned_offset, ("two", 0): two.log.cleaned_offset}
    assert small.log.cleaned_offset == 0


async def test_the_dirtiest_log_is_compacted_first(
    cleaner_directory: CleanerDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    clean, dirty = await cleaner_directory.add("clean"), await cleaner_directory.add("dirty")
    await cleaner_directory.cleaner.round()
    await cleaner_directory.fill(clean, 5)
    await cleaner_directory.fill(dirty, 50)
    caplog.clear()
    with caplog.at_level(logging.INFO, "pykbroker.storage.cleaner.cleaner"):
        await cleaner_directory.cleaner.round()
    assert [cast(Any, record.args)[0] for record in caplog.records] == ["dirty-0", "clean-0"]


@pytest.mark.parametrize(("ratio", "taken"), [(0.3, True), (0.99, False)])
async def test_a_log_below_min_cleanable_dirty_ratio_is_not_compacted(
    cleaner_directory: CleanerDirectory, ratio: float, taken: bool
) -> None:
    part = await cleaner_directory.add("part", 20, min_cleanable_dirty_ratio=0.9)
    await cleaner_directory.cleaner.round()
    part.log.configure(msgspec.structs.replace(part.log.config, min_cleanable_dirty_ratio=ratio))
    for number in range(100):
        put(part.log, [(b"key %d" % number, b"value" * 10)])
    await part.log.flush()
    part.log.cleaned_offset = part.log.segments.sealed[len(part.log.segments.sealed) // 2].base_offset
    await cleaner_directory.cleaner.round()
    assert dirty(part) is not taken


async def test_offline_logs_and_topics_without_compaction_are_not_compacted(
    cleaner_directory: CleanerDirectory,
) -> None:
    kept = await cleaner_directory.add("kept", cleanup_policy=("delete",))
    offline = await cleaner_directory.add("offline")
    offline.is_online = False
    both = await cleaner_directory.add("both", cleanup_policy=("compact", "delete"))
    cleaner_directory.parts.append(Part(None, cleaner_directory.directory))
    await cleaner_directory.cleaner.round()
    assert (dirty(kept), dirty(offline), dirty(both)) == (True, True, False)


async def test_a_damaged_log_is_not_compacted_again(cleaner_directory: CleanerDirectory, caplog) -> None:
    bad, good = await cleaner_directory.add("bad", 60), await cleaner_directory.add("good")
    file = cleaner_directory.disk.open(bad.log.segments.sealed[0].path(".log"))
    data = bytearray(await file.read(0, file.size))
    data[80] ^= 1
    file.truncate(0)
    file.append(data)
    for _ in range(2):
        await cleaner_directory.cleaner.round()
    assert dirty(bad)
    assert not dirty(good)
    assert cleaner_directory.directory.failed is None
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1


async def test_a_log_with_an_unreadable_dirty_segment_does_not_keep_others_from_compaction(
    cleaner_directory: CleanerDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    """The missing segment is the oldest dirty one, which decides whether the maximum lag has passed."""
    bad, behind = [await cleaner_directory.add(name, 60, max_compaction_lag_ms=1) for name in ("bad", "behind")]
    gone = bad.log.segments.sealed[0]
    gone.unload()
    cleaner_directory.disk.remove(gone.path(".log"))
    await cleaner_directory.cleaner.round()
    assert (dirty(bad), dirty(behind)) == (True, False)
    await cleaner_directory.cleaner.round()
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    what = "is damaged and is not compacted again before a restart"
    assert errors == [f"{cleaner_directory.directory.path}/bad-0 {what}: {gone.path('.log')} is missing"]


async def test_compaction_is_retried_after_a_disk_error(
    cleaner_directory: CleanerDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = await cleaner_directory.add("part")
    with monkeypatch.context() as full:
        full.setattr(cleaner_directory.disk, "open", refuse_room)
        await cleaner_directory.cleaner.round()
    assert dirty(part)
    assert cleaner_directory.directory.failed is None
    await cleaner_directory.cleaner.round()
    assert not dirty(part)


def refuse_room(path: str, **_: object) -> None:
    raise OSError(errno.ENOSPC, "full", path)


async def test_the_end_of_a_worker_process_fails_only_the_current_round(cleaner_directory: CleanerDirectory) -> None:
    class Broken:
        @asynccontextmanager
        async def start(self, _machine):
            yield self

        async def ask(self, _message):
            raise WorkerGone("it died")

    part = await cleaner_directory.add("part")
    await cleaner_directory.with_workers(Broken()).round()
    assert dirty(part)
    assert not [name for name in cleaner_directory.disk.names("part-0") if name.endswith(".cleaned")]
    await cleaner_directory.cleaner.round()
    assert not dirty(part)


async def test_compaction_keeps_to_io_max_bytes_per_second(
    cleaner_directory: CleanerDirectory, autojump_clock: trio.testing.MockClock
) -> None:
    part = await cleaner_directory.add("part", 200)
    whole = sum(one.size for one in part.log.segments.sealed)
    cleaner_directory.settings = FAST._replace(bytes_per_second=1000.0)
    begun = trio.current_time()
    await cleaner_directory.cleaner.round()
    after = sum(one.size for one in part.log.segments.sealed)
    assert trio.current_time() - begun == pytest.approx((2 * whole + after) / 1000)


async def test_rounds_are_separated_by_the_backoff(
    cleaner_directory: CleanerDirectory, autojump_clock: trio.testing.MockClock
) -> None:
    part = await cleaner_directory.add("part")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cleaner_directory.cleaner.run)
        await trio.sleep(1)
        assert not dirty(part)
        await cleaner_directory.fill(part, 20)
        await trio.sleep(13.9)
        assert dirty(part)
        await trio.sleep(0.2)
        assert not dirty(part)
        nursery.cancel_scope.cancel()


async def test_the_next_start_continues_at_the_cleaned_offset(cleaner_directory: CleanerDirectory) -> None:
    part = await cleaner_directory.add("part")
    await cleaner_directory.cleaner.round()
    cleaned = part.log.cleaned_offset
    await cleaner_directory.directory.close(high_watermarks={})
    again = await opened(cleaner_directory.disk)
    log = await again.open_log(TopicPartition("part", 0), ID, COMPACTED)
    assert log.cleaned_offset == cleaned > 0
    await again.delete_logs([TopicPartition("part", 0)])
    assert cleaner_directory.checkpointed() == {}


def test_cleaner_settings_come_from_kafkas_configs() -> None:
    settings = CleanerSettings.of(BrokerConfig.from_mapping({}))
    assert settings.backoff_ms == 15_000
    assert settings.keys_max == int(134_217_728 * 0.9 / 200)
    tight = {"log.cleaner.io.buffer.load.factor": "0", "log.cleaner.io.max.bytes.per.second": "0"}
    assert CleanerSettings.of(BrokerConfig.from_mapping(tight))[1:] == (1, 1.0)
