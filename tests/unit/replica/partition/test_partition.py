"""Tests of a partition whose log or disk fails: the errors for clients, and the partitions that go offline."""

from __future__ import annotations

import errno
import logging
from pathlib import Path

import pytest
import trio
import trio.testing
from msgspec.structs import replace

from pykbroker.apis.records.list_offsets import by_timestamp
from pykbroker.core.errors import ApiError
from pykbroker.core.fetch.session import SessionPartition
from pykbroker.core.metadata.image import PartitionImage
from pykbroker.core.replication.following import Following
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.care.upkeep import Upkeep
from pykbroker.replica.partition.consumer_reading import ConsumerReading
from pykbroker.replica.partition.own_log import OwnLog
from pykbroker.replica.partition.partition import Partition
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.storage.files.checkpoints import RECOVERY_POINTS, decode_offsets
from pykbroker.storage.files.errors import CorruptLog, Pending
from pykbroker.storage.log.appender import LogAppender
from pykbroker.storage.log.log import Log
from pykbroker.storage.log.reader import LogReader
from pykbroker.storage.segments.config import LogConfig
from pykbroker.world.disk import Shortened
from pykbroker.world.system_disk import SystemDisk, SystemFile
from pykbroker.world.system_off_loop import SystemOffLoop
from wire.error_codes import ErrorCode
from wire.messages.fetch import FetchPartition
from wire.records.builder import BatchBuilder
from wire.sentinels import MAX_TIMESTAMP

NOW = 1_700_000_000_000
TOPIC_ID = bytes(range(16))


def batch(value: bytes = b"value") -> bytes:
    builder = BatchBuilder()
    builder.append(b"key", value, timestamp=NOW)
    return builder.build()


def led_in(epoch: int) -> PartitionImage:
    return PartitionImage((-1,), (-1,), -1, epoch, 0)


@pytest.fixture
async def directory(tmp_path: Path) -> LogDirectory:
    disk = SystemDisk(str(tmp_path), SystemOffLoop(), durable=False)
    return await LogDirectory.open(disk, off_loop=SystemOffLoop(), wall_ms=lambda: NOW, jitter=lambda: 0.5)


@pytest.fixture
async def partition(directory: LogDirectory) -> Partition:
    """Return a partition with three batches, of which this broker is the leader in epoch 3."""
    one = Partition(
        TopicPartition("t", 0),
        await directory.create_log(TopicPartition("t", 0), TOPIC_ID, LogConfig(segment_bytes=100)),
        directory,
    )
    one.lead(led_in(3))
    for _ in range(3):
        one.append(batch(), NOW)
    return one


def offline(partition: Partition) -> bool:
    with pytest.raises(ApiError) as caught:
        partition.require_leader()
    return caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


async def test_after_a_failed_fsync_no_record_is_acknowledged(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk does not take the log directory offline, but the unflushed records of this log may be lost."""

    async def fail(_: SystemFile) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(SystemFile, "sync", fail)
        with pytest.raises(ApiError):
            await partition.flush()
    assert partition.directory.failed is None
    assert offline(partition)
    with pytest.raises(ApiError):
        partition.append(batch(), NOW)


@pytest.mark.parametrize("damage", [CorruptLog("batch 1 does not hold"), Shortened("ends before byte 70")])
@pytest.mark.parametrize("asked", ["timestamp", "max_timestamp", "fetch", "read_stored", "retain", "flush"])
async def test_only_the_damaged_log_goes_offline_whatever_detects_the_damage(
    partition: Partition,
    asked: str,
    damage: Exception,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise damage

    async def refuse_slowly(*_: object, **__: object) -> None:
        raise damage

    for name in ("offset_for_timestamp", "max_timestamp", "read"):
        monkeypatch.setattr(LogReader, name, refuse)
    for name in ("retain", "flush"):
        monkeypatch.setattr(Log, name, refuse_slowly)
    try:
        match asked:
            case "timestamp":
                by_timestamp(partition, partition.require_leader(), NOW, 3)
            case "max_timestamp":
                by_timestamp(partition, partition.require_leader(), MAX_TIMESTAMP, 3)
            case "fetch":
                wanted = SessionPartition(("t", 0), TOPIC_ID, "t", FetchPartition())
                reading = ConsumerReading([(partition, wanted)], 1, 1, committed_only=False)
                await reading.wait_cached(Pending(refuse_slowly, "read"))
            case "read_stored":
                await OwnLog(partition).read_stored(0, 1)
            case "retain":
                await partition.retain(NOW)
            case "flush":
                await partition.flush()
    except ApiError as error:
        assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert offline(partition)
    assert partition.directory.failed is None
    assert f"t-0: going offline: {damage}" in caplog.text
    await partition.directory.close(high_watermarks={})
    assert not (Path(partition.directory.path) / ".kafka_cleanshutdown").exists()


async def test_a_batch_validated_off_the_event_loop_is_refused_if_its_topic_was_deleted(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = LogAppender.open_off_loop

    async def delete_meanwhile(appender: LogAppender, data: bytes, now_ms: int) -> object:
        found = await opened(appender, data, now_ms)
        partition.resign(Following(3))
        await partition.directory.delete_logs([TopicPartition("t", 0)])
        return found

    monkeypatch.setattr(LogAppender, "open_off_loop", delete_meanwhile)
    with pytest.raises(ApiError) as caught:
        await partition.append_off_loop(batch(), NOW)
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.directory.failed is None


async def test_retention_continues_with_other_logs_after_one_cannot_delete_segments(
    directory: LogDirectory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = replace(LogConfig(), segment_bytes=100, retention_bytes=0)
    partitions = []
    for index in range(3):
        one = Partition(
            TopicPartition("t", index),
            await directory.create_log(TopicPartition("t", index), TOPIC_ID, config),
            directory,
        )
        one.lead(led_in(0))
        for _ in range(3):
            one.append(batch(), NOW)
        partitions.append(one)
    retain = Log.retain

    async def refuse(log: Log, now_ms: int, high_watermark: int) -> None:
        if log.directory == "t-0":
            raise CorruptLog("batch 1 does not hold")
        if log.directory == "t-1":
            raise OSError(errno.ENOSPC, "No space left on device")
        await retain(log, now_ms, high_watermark)

    class Replicas:
        def online(self, _: LogDirectory) -> list[Partition]:
            return partitions

    monkeypatch.setattr(Log, "retain", refuse)
    upkeep = Upkeep(Replicas(), (directory,), None, lambda: NOW, trio.sleep_forever)  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING):
        await upkeep._retain(directory)
    starts = [one.log and one.log.log_start_offset for one in partitions]
    assert starts == [None, 0, 3]
    assert "t-1: cannot delete old segments" in caplog.text
    assert directory.failed is None


async def test_no_segment_is_deleted_before_a_checkpoint_contains_the_log(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recovery treats a log that is missing in the checkpoint as new, and a new log begins at offset 0."""
    checkpointed: list[int] = []
    retain = Log.retain

    async def telling(log: Log, now_ms: int, high_watermark: int) -> None:
        checkpointed.append(decode_offsets((tmp_root / RECOVERY_POINTS).read_bytes())[TopicPartition("t", 0)])
        await retain(log, now_ms, high_watermark)

    class Replicas:
        def online(self, _: LogDirectory) -> list[Partition]:
            return [partition]

    tmp_root = Path(partition.directory.path)
    monkeypatch.setattr(Log, "retain", telling)
    await Upkeep(Replicas(), (partition.directory,), None, lambda: NOW, trio.sleep_forever)._retain(partition.directory)  # type: ignore[arg-type]
    assert checkpointed == [0]


@pytest.mark.parametrize("absence", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER])
async def test_a_request_that_waits_for_a_commit_learns_whether_the_topic_was_deleted(
    partition: Partition, absence: ErrorCode
) -> None:
    codes = []

    async def wait() -> None:
        with pytest.raises(ApiError) as refused:
            await partition.wait_committed(partition.high_watermark + 1)
        codes.append(refused.value.code)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        partition.resign(Following(3, absence=absence))
    assert codes == [absence]


async def test_a_consumer_that_reads_from_a_follower_learns_that_the_topic_was_deleted(partition: Partition) -> None:
    partition.resign(Following(4, has_leader=True))
    assert partition.require_replica(4) is partition.log
    partition.resign(Following(4))
    for code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        with pytest.raises(ApiError) as refused:
            partition.require_replica(4)
        assert refused.value.code is code
        partition.resign(Following(4, absence=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
