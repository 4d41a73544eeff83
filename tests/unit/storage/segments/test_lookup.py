"""Tests of searches for offsets by time and epoch, and for aborted transactions, compared with a list
of all records.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec import structs

from pykbroker.core.log.transactions import AbortedTransaction
from pykbroker.storage.files.errors import CorruptLog
from pykbroker.storage.log.log import Log
from pykbroker.storage.segments.config import LogConfig
from pykbroker.storage.segments.record_times import RECORDS_MAX, TimestampOffset
from pykbroker.world.disk import FileSlice, NotCached
from pykbroker.world.system_disk import SystemDisk
from pykbroker.world.system_off_loop import SystemOffLoop
from tests.unit.storage.logs import (
    DIRECTORY,
    NOW,
    SMALL,
    append_in_transaction,
    batch,
    content,
    every_batch,
    filled,
    marker,
    open_log,
    slowly,
)
from wire.records.batch import Batch, batches
from wire.records.builder import sealed
from wire.records.compression import Codec, compress
from wire.records.record import records
from wire.records.zigzag import varint

T = TypeVar("T")


@pytest.mark.parametrize("reopened", [False, True])
@pytest.mark.parametrize("order", ["rising", "random"])
async def test_offset_for_timestamp_finds_the_first_record(disk: SystemDisk, reopened: bool, order: str) -> None:
    log, rng = await open_log(disk), random.Random(5)
    for number in range(60):
        timestamp = NOW + (number * 10 if order == "rising" else rng.randrange(600))
        data = batch(*[b"v"] * (1 + number % 3), timestamp=timestamp, step=3, codec=Codec(number % 5))
        log.appender.append(data, number // 9, NOW)
    if reopened:
        await log.close()
        log = await open_log(disk, clean=True)
    model = [
        (one.timestamp, one.offset, stored.leader_epoch)
        for stored in await every_batch(log)
        for one in records(stored, 10_000)
    ]
    end = log.log_end_offset
    for timestamp in range(NOW - 2, NOW + 620, 3):
        expected = next((TimestampOffset(*one) for one in model if one[0] >= timestamp), None)
        assert await slowly(log.reader.offset_for_timestamp, timestamp, end) == expected
    largest = max(model, key=lambda one: one[0])
    assert await slowly(log.reader.max_timestamp) == TimestampOffset(*largest)
    log.delete_records(largest[1] + 1)
    assert await slowly(log.reader.offset_for_timestamp, NOW, end) == next(
        (TimestampOffset(*one) for one in model if one[1] > largest[1]), None
    )


async def test_offset_for_timestamp_ignores_uncommitted_records(disk: SystemDisk) -> None:
    log = await open_log(disk)
    log.appender.append(batch(timestamp=NOW), 0, NOW)
    assert log.reader.offset_for_timestamp(NOW, 0) is None
    assert log.reader.offset_for_timestamp(NOW, 1) == (NOW, 0, 0)


async def test_an_empty_log_has_no_timestamps(disk: SystemDisk) -> None:
    log = await open_log(disk)
    assert log.reader.max_timestamp() is None
    assert log.reader.offset_for_timestamp(0, 0) is None


async def test_a_record_without_a_timestamp_is_the_youngest_of_a_log_that_has_no_later_one(disk: SystemDisk) -> None:
    """Kafka 4.3.1 answers so."""
    log = await open_log(disk)
    log.appender.append(batch(timestamp=-5000), 0, NOW)
    assert log.reader.max_timestamp() is None
    log.appender.append(batch(timestamp=-1), 0, NOW)
    log.appender.append(batch(timestamp=-1), 0, NOW)
    assert log.reader.max_timestamp() == (-1, 1, 0)
    assert log.reader.offset_for_timestamp(0, 9) is None
    log.appender.append(batch(timestamp=0), 0, NOW)
    log.appender.append(batch(timestamp=-1), 0, NOW)
    assert log.reader.max_timestamp() == (0, 3, 0)


def claiming(payload: bytes, codec: Codec, count: int) -> bytes:
    """Return a batch with any payload that claims the largest timestamp NOW + 1000; the broker accepts it."""
    header = Batch.read(batch())
    return sealed(
        structs.replace(header, attributes=codec, count=count, last_offset_delta=count - 1, max_timestamp=NOW + 1000),
        payload,
    )


def record(offset_delta: int, timestamp_delta: int) -> bytes:
    """Return a record without key, value and headers."""
    body = b"\0" + varint(timestamp_delta) + varint(offset_delta) + b"\x01\x01\0"
    return varint(len(body)) + body


@pytest.mark.parametrize("bad", ["garbage", "bomb", "cut off", "too many", "liar"])
async def test_a_timestamp_in_a_batch_that_cannot_be_decompressed_finds_the_start_of_the_batch(
    disk: SystemDisk, bad: str
) -> None:
    """The broker has verified only the headers and checksum of the batch, so the reading client must be able to
    continue.
    """
    log = await open_log(disk, LogConfig(max_message_bytes=1 << 16, validate_records=False))
    log.appender.append(batch(timestamp=NOW), 0, NOW)
    payload, count = {
        "garbage": (
            b"\x28\xb5\x2f\xfd\0\x58" + (20 << 3 | 2 << 1 | 1).to_bytes(3, "little") + b"no zstd block at all",
            1,
        ),
        "bomb": (compress(Codec.ZSTD, bytes(2 << 20)), 1),
        "cut off": (compress(Codec.ZSTD, record(0, 0) + record(1, 1000)[:-3]), 3),
        "too many": (compress(Codec.ZSTD, record(0, 0) * RECORDS_MAX + record(0, 1000)), RECORDS_MAX + 1),
        "liar": (compress(Codec.ZSTD, record(0, 0) + record(1, 0)), 2),
    }[bad]
    log.appender.append(claiming(payload, Codec.ZSTD, count), 0, NOW)
    end = log.log_end_offset
    assert await slowly(log.reader.offset_for_timestamp, NOW + 1, end) == (NOW + 1000, 1, 0)
    assert await slowly(log.reader.max_timestamp) == (NOW + 1000, 1, 0)


async def test_a_truncated_batch_is_corrupt_log(disk: SystemDisk) -> None:
    """The header of the batch claims more bytes than its segment has."""
    log = await open_log(disk)
    filled(log, 20)
    await log.flush()
    segment = log.segments.sealed[0]
    headers, position = segment.headers(), 0
    while (following := position + headers.at(position)[1]) < segment.size:
        position = following
    segment.file.write_over(position + 8, (segment.size - position).to_bytes(4, "big"))
    with pytest.raises(CorruptLog, match=f"segment 0: at byte {position}: "):
        await slowly(log.reader.offset_for_timestamp, segment.max_timestamp, log.log_end_offset)


async def test_large_and_compressed_batches_are_decompressed_once_and_off_the_event_loop(disk: SystemDisk) -> None:
    opened: list[object] = []

    class Counting(SystemOffLoop):
        async def __call__(self, function: Callable[..., T], *args: object) -> T:
            opened.append(function)
            return await super().__call__(function, *args)

    disk.make_directory(DIRECTORY)
    log = await Log.open(disk, DIRECTORY, LogConfig(), off_loop=Counting())
    log.appender.append(batch(bytes(20_000), b"", timestamp=NOW, step=10), 0, NOW)
    log.appender.append(batch(b"", b"", timestamp=NOW + 20, step=10, codec=Codec.LZ4), 0, NOW)
    for timestamp, offset in ((NOW + 5, 1), (NOW + 25, 3)):
        opened.clear()
        with pytest.raises(NotCached):
            log.reader.offset_for_timestamp(timestamp, 4)
        assert not opened
        found = await slowly(log.reader.offset_for_timestamp, timestamp, 4)
        assert found is not None
        assert found[1] == offset
        assert await slowly(log.reader.offset_for_timestamp, timestamp, 4) is not None
        assert len(opened) == 1


async def test_the_end_offset_for_an_epoch_is_the_same_as_in_kafka(disk: SystemDisk) -> None:
    log = await open_log(disk)
    log.become_leader(1)
    log.appender.append(batch(b"a", b"b"), 1, NOW)
    log.become_leader(4)
    log.appender.append(batch(b"c"), 4, NOW)
    ends = [log.reader.end_offset_for_epoch(epoch) for epoch in (0, 1, 3, 4, 5)]
    assert [(end.epoch, end.offset) for end in ends] == [(0, 0), (1, 2), (1, 2), (4, 3), (-1, -1)]


async def fetched(disk: SystemDisk, **config: object) -> list[tuple[int, list[AbortedTransaction]]]:
    """Read a log of interleaved transactions in pieces; return the offset and the aborted transactions
    of each piece.
    """
    log, rng = await open_log(disk, SMALL), random.Random(7)
    sequences = dict.fromkeys(range(4), 0)
    begun: set[int] = set()
    for _ in range(300):
        producer = rng.randrange(4)
        if producer in begun and rng.random() < 0.3:
            log.append_as_leader(marker(producer, commit=rng.random() < 0.5), 0)
            begun.discard(producer)
        elif producer < 3:
            append_in_transaction(
                log,
                batch(
                    b"v", producer_id=producer, producer_epoch=0, transactional=True, base_sequence=sequences[producer]
                ),
            )
            sequences[producer] += 1
            begun.add(producer)
        else:
            log.appender.append(batch(b"plain"), 0, NOW)
    if config.get("reopened"):
        await log.close()
        log = await open_log(disk, clean=True)
    offset, found = 0, []
    upper = log.reader.last_stable_offset(log.log_end_offset)
    while offset < upper:
        data = await log.read_patiently(offset, rng.randrange(100, 2000), upper, at_least_one=True)
        found.append((offset, await slowly(log.reader.aborted_transactions, offset, data)))
        offset = list(batches(content(data)))[-1].last_offset + 1
    return found


async def test_a_read_returns_exactly_the_aborted_transactions_among_its_records(disk: SystemDisk) -> None:
    """Every aborted transaction with records in the piece is listed with its first offset, and no committed one is."""
    log, pieces = None, await fetched(disk)
    log = await open_log(disk)
    open_since: dict[int, int] = {}
    void: set[int] = set()
    data: dict[int, list[int]] = {}
    for one in await every_batch(log):
        if one.is_control:
            kind = next(records(one, 1000)).key
            since = open_since.pop(one.producer_id)
            if kind == b"\0\0\0\0":
                void |= {offset for offset in data[one.producer_id] if offset >= since}
        elif one.is_transactional:
            open_since.setdefault(one.producer_id, one.base_offset)
            data.setdefault(one.producer_id, []).append(one.base_offset)
    ends = [offset for offset, _ in pieces[1:]] + [log.reader.last_stable_offset(log.log_end_offset)]
    for (offset, aborted), end in zip(pieces, ends, strict=True):
        skipped = {
            at
            for one in aborted
            for at in data[one.producer_id]
            if offset <= at < end and one.first_offset <= at < one.last_offset
        }
        assert skipped == {at for at in void if offset <= at < end}
        assert len(aborted) == len(set(aborted))


async def test_aborted_transactions_are_the_same_after_a_restart(disk: SystemDisk, tmp_path: Path) -> None:
    other = SystemDisk(str(tmp_path / "other"), SystemOffLoop(), durable=False)
    assert await fetched(disk) == await fetched(other, reopened=True)


async def test_file_slices_are_searched_for_transactions_only_if_they_contain_any(disk: SystemDisk) -> None:
    log = await open_log(disk, SMALL)
    log.configure(type(SMALL)())
    append_in_transaction(
        log, batch(bytes(50_000), producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    )
    log.append_as_leader(marker(1, commit=False), 0)
    log.appender.append(batch(bytes(50_000)), 0, NOW)
    data = await log.read_patiently(0, 1 << 20, 3, at_least_one=True)
    assert isinstance(data, FileSlice)
    assert await slowly(log.reader.aborted_transactions, 0, data) == [AbortedTransaction(1, 0, 1, 2)]
    await log.close()
    log = await open_log(disk, clean=True)
    plain = await log.read_patiently(2, 10, 3, at_least_one=True)
    assert log.reader.aborted_transactions(2, plain) == []
    data = await log.read_patiently(0, 1 << 20, 3, at_least_one=True)
    with pytest.raises(NotCached):
        log.reader.aborted_transactions(0, data)
