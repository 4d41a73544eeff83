"""Tests of moves of partitions while clients append, records are deleted and disks fail, in virtual time."""

from __future__ import annotations

import errno
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Any

import pytest
import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.partition.partition import Partition
from pykbroker.replica.partition.throttle import ALLOWANCE_BYTES_MAX, SHARE, Throttle
from pykbroker.replica.placing import move as moving
from pykbroker.replica.placing import moves
from pykbroker.replica.placing.move import UNFLUSHED_BYTES_MAX, UNFLUSHED_SEGMENTS_MAX, Move
from pykbroker.sim.power_loss import ALL_KEPT, after_power_loss
from pykbroker.sim.volume import Inode, Volume
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.storage.log.log import Log
from pykbroker.storage.log.reader import LogReader
from pykbroker.storage.log.rewrite import WALKED_AT_ONCE_RECORDS_MAX
from tests.unit.replica.host import IDS, NOW_MS, Host, is_named
from tests.unit.storage.logs import batch, every_batch
from wire.error_codes import ErrorCode
from wire.records.record import records

SEGMENT_BYTES = 100_000
VALUE = bytes(16_000)
BATCH_BYTES = len(batch(bytes(8) + VALUE))


class Producer:
    """A producer that appends a batch of one record every `interval_s`. The value begins with the record's offset."""

    def __init__(self, partition: Partition, interval_s: float) -> None:
        self._partition, self._interval_s = partition, interval_s
        self.acknowledged = 0

    async def run(self) -> None:
        while True:
            await self.append()
            await trio.sleep(self._interval_s)

    async def append(self) -> None:
        data = numbered(self.acknowledged)
        appended = self._partition.append(data, NOW_MS) or await self._partition.append_off_loop(data, NOW_MS)
        assert appended.base_offset == self.acknowledged
        self.acknowledged = appended.last_offset + 1


def numbered(offset: int) -> bytes:
    return batch(offset.to_bytes(8, "big") + VALUE)


async def a_host(**configs: Any) -> tuple[Host, Partition]:
    settings: dict[str, Any] = {"internal.segment.bytes": str(SEGMENT_BYTES)} | configs
    host = Host((Volume(), Volume()), IDS[0], **settings)
    return host, await host.open()


async def filled(partition: Partition, count: int) -> None:
    for offset in range(count):
        assert partition.append(numbered(offset), NOW_MS)


@asynccontextmanager
async def under_way(host: Host, *tasks: Callable[[], object]) -> AsyncIterator[None]:
    """Run moves and the given tasks during the block."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(host.replicas.moves.run, host.assign)
        for task in tasks:
            nursery.start_soon(task)  # type: ignore[arg-type]
        yield
        nursery.cancel_scope.cancel()


async def arrives(host: Host, partition: Partition, *tasks: Callable[[], object]) -> None:
    """Move the partition to the second directory, and wait until the move is complete."""
    async with under_way(host, *tasks):
        await host.replicas.move(TopicPartition("t", 0), "two")
        await until(lambda: partition.directory is host.directories[1] and is_named(partition))


async def ended(host: Host) -> None:
    """Wait until no partition is being moved."""
    await until(lambda: not any(list(host.replicas.moves.into(one)) for one in host.directories))


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, at most one minute of virtual time."""
    for _ in range(60_000):
        if condition():
            return
        await trio.sleep(0.001)
    pytest.fail("not within a minute")


async def offsets(partition: Partition) -> list[int]:
    """Return the offsets of all records; assert that each value contains its offset."""
    assert partition.log is not None
    found = [record for one in await every_batch(partition.log) for record in records(one, 1 << 20)]
    assert [int.from_bytes((one.value or b"")[:8], "big") for one in found] == [one.offset for one in found]
    return [one.offset for one in found]


async def test_a_copy_that_is_slower_than_producers_catches_up(autojump_clock: object) -> None:
    """The disk of the copy takes 10 ms per fsync, and each segment of 100 kB needs one or two."""
    host, partition = await a_host()
    host.disks[1].faults.wait_s = 0.01
    producers = Producer(partition, 0.0005)
    await filled(partition, 100)
    producers.acknowledged = 100
    await arrives(host, partition, producers.run)
    assert partition.throttle is None
    assert await offsets(partition) == list(range(producers.acknowledged))


async def test_producers_that_are_slower_than_the_copy_are_not_throttled(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    throttled: list[Move] = []
    monkeypatch.setattr(Move, "throttle", throttled.append)
    host, partition = await a_host()
    host.disks[1].faults.wait_s = 0.001
    producer = Producer(partition, 0.02)
    await filled(partition, 500)
    producer.acknowledged = 500
    await arrives(host, partition, producer.run)
    assert throttled == []
    assert await offsets(partition) == list(range(producer.acknowledged))


async def test_a_batch_that_is_validated_in_a_thread_counts_once() -> None:
    _, partition = await a_host(**{"internal.segment.bytes": "1000000"})
    partition.throttle = throttle = Throttle()
    data = batch(*[b""] * (WALKED_AT_ONCE_RECORDS_MAX + 1))
    assert throttle.admits(ALLOWANCE_BYTES_MAX - len(data) - 1)
    assert partition.append(data, NOW_MS) is None
    assert (await partition.append_off_loop(data, NOW_MS)).last_offset == WALKED_AT_ONCE_RECORDS_MAX
    assert (throttle.admits(1), throttle.admits(1)) == (True, False)


async def test_a_move_continues_at_the_new_log_start_offset(autojump_clock: object) -> None:
    """Retention repeatedly deletes the records that the move would copy next."""
    host, partition = await a_host(**{"retention.bytes": str(5 * SEGMENT_BYTES), "file.delete.delay.ms": "0"})
    host.disks[1].faults.wait_s = 0.01
    producer = Producer(partition, 0.002)
    await filled(partition, 100)
    producer.acknowledged = 100

    async def retain() -> None:
        while True:
            await trio.sleep(0.01)
            await partition.retain(NOW_MS)

    await arrives(host, partition, producer.run, retain)
    assert partition.log is not None
    assert partition.log.log_start_offset > 100
    assert await offsets(partition) == list(range(partition.log.segments.every()[0].base_offset, producer.acknowledged))


async def test_deletions_below_and_above_the_end_of_the_copy_do_not_stop_a_move(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records are deleted while a read of them waits for the disk."""
    monkeypatch.setattr(moving, "STEP_BYTES_MAX", 1)
    host, partition = await a_host()
    await filled(partition, 60)
    host.disks[0].faults.not_cached, host.disks[0].faults.wait_s = 0.5, 0.001
    assert partition.log is not None
    log = partition.log

    async def delete() -> None:
        for _ in range(5):
            await trio.sleep(0.002)
            copies = list(host.replicas.moves.into(host.directories[1]))
            if copies:
                log.delete_records(min(copies[0].log.log_end_offset + 8, 59))
                await partition.retain(NOW_MS)

    await arrives(host, partition, delete)
    assert partition.log is not log
    host.disks[0].faults.not_cached = 0
    assert partition.log.log_start_offset == log.log_start_offset > 8
    assert (await offsets(partition))[-1] == 59


async def test_a_copy_does_not_replace_the_log_after_further_appends(autojump_clock: object) -> None:
    host, partition = await a_host()
    await filled(partition, 30)
    async with under_way_not_run(host) as move:
        await move.catch_up()
        assert partition.log is not None
        assert move.is_level()
        await filled_from(partition, 30, 20)
        partition.log.delete_records(45)
        assert not move.is_level()
        await move.catch_up()
        assert move.is_level()
        assert move.log.log_end_offset == 50


async def test_a_copy_does_not_replace_the_log_before_it_is_as_durable_as_the_log(autojump_clock: object) -> None:
    host, partition = await a_host()
    await filled(partition, 2)
    async with under_way_not_run(host) as move:
        await move.catch_up()
        await filled_from(partition, 2, 1)
        await partition.flush()
        assert not move.is_level()
        assert move.log.log_end_offset == 3
        await move.catch_up()
        assert move.is_level()


@pytest.mark.parametrize(("bound", "chunks"), [(1, 1), (4 * BATCH_BYTES, 1), (4 * BATCH_BYTES + 1, 2)])
async def test_one_step_of_a_move_copies_chunks_up_to_a_limit(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, bound: int, chunks: int
) -> None:
    monkeypatch.setattr(moving, "STEP_BYTES_MAX", bound)
    host, partition = await a_host(**{"internal.segment.bytes": str(1 << 20)})
    await filled(partition, 20)
    async with under_way_not_run(host) as move:
        await move._step()
        assert move.copied_bytes == chunks * 4 * BATCH_BYTES


async def test_clients_may_append_before_the_renamed_directories_are_durable(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, partition = await a_host()
    settle, throttles = LogDirectory.settle, list[object]()

    async def noted(directory: LogDirectory, key: TopicPartition) -> None:
        throttles.append(partition.throttle)
        await settle(directory, key)

    monkeypatch.setattr(LogDirectory, "settle", noted)
    await arrives(host, partition)
    assert throttles == [None]


@pytest.mark.parametrize("moves_meanwhile", [True, False])
async def test_retention_of_a_log_that_a_copy_replaces_does_not_fail(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, moves_meanwhile: bool
) -> None:
    host, partition = await a_host()
    await filled(partition, 10)
    log, retain = partition.log, Log.retain

    async def late(one: Log, now_ms: int, high_watermark: int) -> None:
        if one is log and moves_meanwhile:
            await arrives(host, partition)
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "it is deleted")
        if one is log:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        await retain(one, now_ms, high_watermark)

    monkeypatch.setattr(Log, "retain", late)
    if moves_meanwhile:
        await partition.retain(NOW_MS)
        assert partition.log is not log
    else:
        with pytest.raises(ApiError):
            await partition.retain(NOW_MS)


@asynccontextmanager
async def under_way_not_run(host: Host) -> AsyncIterator[Move]:
    """Begin a move to the second directory, without a task that copies."""
    await host.replicas.move(TopicPartition("t", 0), "two")
    (move,) = host.replicas.moves.into(host.directories[1])
    yield move


async def filled_from(partition: Partition, first: int, count: int) -> None:
    for offset in range(first, first + count):
        assert partition.append(numbered(offset), NOW_MS)


async def test_records_deleted_from_the_log_are_deleted_from_the_copy(autojump_clock: object) -> None:
    """A long move needs no more disk space than the log itself."""
    host, partition = await a_host()
    await filled(partition, 30)
    async with under_way_not_run(host) as move:
        await move.catch_up()
        assert partition.log is not None
        partition.log.delete_records(20)
        await partition.retain(NOW_MS)
        await filled_from(partition, 30, 1)
        await move.catch_up()
        assert move.log.log_start_offset == 20
        assert move.log.size_bytes == partition.log.size_bytes
        assert not [name for name in host.disks[1].names(move.log.directory) if name.endswith(".deleted")]


@pytest.mark.parametrize(("lacking", "count"), [(9, 2), (10, 2), (11, 3)])
async def test_the_move_is_reported_to_the_controller_once_a_round_copies_few_bytes(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, lacking: int, count: int
) -> None:
    """Normally one round of copying precedes the report to the controller. A second one precedes it if the first was
    large.
    """
    rounds: list[int] = []
    catch_up = Move.catch_up

    async def noted(move: Move) -> int:
        rounds.append(await catch_up(move))
        return rounds[-1]

    monkeypatch.setattr(Move, "catch_up", noted)
    monkeypatch.setattr(moves, "HAND_OVER_BYTES_MAX", 10 * BATCH_BYTES)
    host, partition = await a_host()
    await filled(partition, lacking)
    await arrives(host, partition)
    assert rounds == [lacking * BATCH_BYTES] + [0] * (count - 1)


@pytest.mark.parametrize("segment_bytes", [BATCH_BYTES, 1 << 26])
async def test_a_copy_is_flushed_when_its_unflushed_part_reaches_a_limit(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, segment_bytes: int
) -> None:
    """The limits apply to unflushed bytes and to unflushed sealed segments, which are open files."""
    segments, sizes = [0], [0]
    flush = Log.flush

    async def noted(log: Log) -> None:
        segments.append(len(log.segments.unsynced))
        sizes.append(log.size_bytes - sum(sizes))
        await flush(log)

    host, partition = await a_host(**{"internal.segment.bytes": str(segment_bytes)})
    await filled(partition, 2 * UNFLUSHED_BYTES_MAX // BATCH_BYTES)
    monkeypatch.setattr(Log, "flush", noted)
    async with under_way_not_run(host) as move:
        await move.catch_up()
    step = moving.STEP_BYTES_MAX + moving.CHUNK_BYTES
    if segment_bytes == BATCH_BYTES:
        assert UNFLUSHED_SEGMENTS_MAX <= max(segments) <= UNFLUSHED_SEGMENTS_MAX + step // BATCH_BYTES
    else:
        assert UNFLUSHED_BYTES_MAX <= max(sizes) <= UNFLUSHED_BYTES_MAX + step


async def test_a_throttled_producer_gets_half_of_the_bytes_that_are_copied(autojump_clock: object) -> None:
    host, partition = await a_host()
    async with under_way_not_run(host) as move:
        move.throttle()
        producer, before = Producer(partition, 0), 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(producer.run)
            await trio.sleep(1)
            assert producer.acknowledged == ALLOWANCE_BYTES_MAX // BATCH_BYTES + 1  # The last batch exceeds the limit.
            for _ in range(5):
                before = producer.acknowledged
                copied = await move.catch_up()
                await trio.sleep(1)
                assert 0 < (producer.acknowledged - before) * BATCH_BYTES <= copied // SHARE + BATCH_BYTES
            nursery.cancel_scope.cancel()


async def test_a_pause_delays_appends_and_flushes_until_it_ends(autojump_clock: object) -> None:
    host, partition = await a_host()
    async with under_way_not_run(host) as move:
        move.pause()
        assert partition.append(numbered(0), NOW_MS) is None
        done: list[str] = []

        async def note(what: str, call: Callable[[], object]) -> None:
            await call()  # type: ignore[misc]
            done.append(what)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(note, "append", partial(partition.append_off_loop, numbered(0), NOW_MS))
            nursery.start_soon(note, "flush", partition.flush)
            await trio.sleep(10)
            assert done == []
            move.end_throttle()
        assert sorted(done) == ["append", "flush"]
    assert partition.append(numbered(1), NOW_MS)


@pytest.mark.parametrize("end", ["forgotten", "given up", "stopped"])
async def test_throttling_ends_with_the_move(autojump_clock: object, end: str) -> None:
    host, partition = await a_host()
    await filled(partition, 300)
    host.disks[1].faults.wait_s = 0.01
    async with under_way(host):
        await host.replicas.move(TopicPartition("t", 0), "two")
        (move,) = host.replicas.moves.into(host.directories[1])
        await trio.sleep(0.01)
        move.pause()
        if end == "forgotten":
            await host.replicas.move(TopicPartition("t", 0), "one")
            assert partition.throttle is None
        elif end == "given up":
            host.disks[1].faults.sync_fails = 1
            await ended(host)
    assert partition.throttle is None
    assert partition.append(numbered(300), NOW_MS)


@pytest.mark.parametrize(
    ("fault", "code"), [("write_fails", errno.EIO), ("sync_fails", errno.EIO), ("room_bytes", errno.ENOSPC)]
)
async def test_a_move_to_a_failing_disk_is_cancelled_and_the_partition_is_served(
    autojump_clock: object, caplog: pytest.LogCaptureFixture, fault: str, code: int
) -> None:
    """A full disk only costs the copy. A failed disk goes offline, as in Kafka, and the other disk stays online."""
    host, partition = await a_host()
    await filled(partition, 300)
    async with under_way(host):
        await host.replicas.move(TopicPartition("t", 0), "two")
        host.disks[1].faults.wait_s = 0.001
        await trio.sleep(0.001)
        setattr(host.disks[1].faults, fault, 2_000_000 if code == errno.ENOSPC else 1)
        with caplog.at_level(logging.ERROR):
            await ended(host)
    assert [one.getMessage() for one in caplog.records if ": the move to" in one.getMessage()]
    assert (host.directories[0].failed, host.directories[1].failed is None) == (None, code == errno.ENOSPC)
    assert partition.directory is host.directories[0]
    assert partition.throttle is None
    assert partition.append(numbered(300), NOW_MS)
    assert await offsets(partition) == list(range(301))
    futures = host.directories[1].futures
    assert (futures.logs, futures.names) == ({}, {})
    if code == errno.ENOSPC:
        host.disks[1].faults.room_bytes = 1 << 40
        await arrives(host, partition)
        assert await offsets(partition) == list(range(301))


@pytest.mark.parametrize("how", ["its directory fails", "its log does not hold", "it is renamed by nobody"])
async def test_a_move_of_a_log_that_goes_offline_keeps_the_copy(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The copy may be the only readable replica: the next start, or the operator, may need it."""
    host, partition = await a_host()
    await filled(partition, 300)
    host.disks[1].faults.wait_s = 0.01
    async with under_way(host):
        await host.replicas.move(TopicPartition("t", 0), "two")
        await trio.sleep(0.02)
        if how == "its directory fails":
            host.directories[0].fail(OSError(errno.EIO, "broken"))
        elif how == "its log does not hold":
            partition.log = None
        else:

            def refuse(key: TopicPartition) -> None:
                raise OSError(errno.EIO, "broken")

            monkeypatch.setattr(host.directories[0], "release", refuse)
        await ended(host)
    assert not partition.is_online
    assert host.directories[1].failed is None
    assert host.directories[1].futures.logs == {}
    assert [name for name in host.disks[1].names("") if name.endswith("-future")]


async def test_an_offline_partition_does_not_begin_to_move() -> None:
    host, partition = await a_host()
    assert partition.log is not None
    log, partition.log = partition.log, None
    with pytest.raises(ApiError) as caught:
        await host.replicas.move(TopicPartition("t", 0), "two")
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    partition.log = log
    host.disks[0].faults.sync_fails = 1
    assert partition.append(numbered(0), NOW_MS)
    with pytest.raises(OSError, match="Input/output"):
        await log.flush()
    assert host.directories[0].failed is None
    with pytest.raises(ApiError) as caught:
        await host.replicas.move(TopicPartition("t", 0), "two")
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert not any(list(host.replicas.moves.into(one)) for one in host.directories)


async def test_a_failed_read_of_the_log_is_retried_a_few_times(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, partition = await a_host()
    await filled(partition, 10)
    log = partition.log
    assert log is not None
    read, refusals = LogReader.read, 0

    def refused(reader: LogReader, *args: Any, **kwargs: Any) -> object:
        nonlocal refusals
        if reader is log.reader and log is partition.log and refusals > 0:
            refusals -= 1
            raise OSError("it is removed by now")
        return read(reader, *args, **kwargs)

    monkeypatch.setattr(LogReader, "read", refused)
    refusals = moving.READ_TRIES_MAX
    async with under_way(host):
        await host.replicas.move(TopicPartition("t", 0), "two")
        await ended(host)
    assert (refusals, partition.directory) == (0, host.directories[0])
    refusals = moving.READ_TRIES_MAX - 1
    async with under_way_not_run(host) as move:
        await move.catch_up()
        assert refusals == 0
        await filled_from(partition, 10, 1)
        refusals = moving.READ_TRIES_MAX - 1
        await move.catch_up()
        assert move.is_level()


@pytest.mark.parametrize("deleted_up_to", [59, 60])
async def test_a_move_continues_if_all_records_that_are_left_to_copy_are_deleted(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, deleted_up_to: int
) -> None:
    """If the log has deleted all records of the copy, the copy starts again at the log end offset."""
    monkeypatch.setattr(moving, "STEP_BYTES_MAX", 1)
    host, partition = await a_host()
    await filled(partition, 60)
    assert partition.log is not None
    async with under_way_not_run(host) as move:
        await move._step()
        assert 0 < move.log.log_end_offset < 59
        partition.log.delete_records(deleted_up_to)
        await move.catch_up()
        assert move.is_level()
        assert (move.log.log_start_offset, move.log.log_end_offset) == (deleted_up_to, 60)
    await arrives(host, partition)
    await filled_from(partition, 60, 1)
    assert (await offsets(partition))[-1] == 60


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES])
async def test_a_start_that_cannot_rename_the_shorter_log_keeps_the_copy(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """After a crash the copy may be longer than the log. The partition is then offline, and the broker starts."""
    volumes = (Volume(), Volume())
    configs: dict[str, Any] = {"internal.segment.bytes": str(1 << 20)}
    host = Host(volumes, IDS[0], **configs)
    partition = await host.open()
    await filled(partition, 10)
    async with under_way_not_run(host) as move:
        await move.catch_up()
    stored = volumes[0].find(f"t-0/{0:020d}.log")
    assert isinstance(stored, Inode)
    volumes[0].truncate(stored.number, 5 * BATCH_BYTES)

    def refuse(directory: LogDirectory, key: TopicPartition) -> None:
        raise OSError(code, "refused")

    monkeypatch.setattr(LogDirectory, "release", refuse)
    again = Host(tuple(after_power_loss(one, Random(0), ALL_KEPT) for one in volumes), IDS[0], **configs)
    partition = await again.open()
    assert not partition.is_online
    assert [one.failed is None for one in again.directories] == [code != errno.EIO, True]
    assert again.directories[1].futures.logs == {}
    assert [name for name in again.disks[1].names("") if name.endswith("-future")]
    monkeypatch.undo()
    whole = Host(tuple(after_power_loss(one.volume, Random(0), ALL_KEPT) for one in again.disks), IDS[0], **configs)
    partition = await whole.open()
    assert partition.directory is whole.directories[1]
    assert await offsets(partition) == list(range(10))
