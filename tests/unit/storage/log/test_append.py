"""Tests of appends: assigned offsets, refused batches, duplicates, rewritten batches, rolled segments,
and disk errors.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from struct import pack_into
from typing import Any

import pytest
from cramjam import lz4
from msgspec.structs import replace

from pykbroker.core.errors import ApiError
from pykbroker.core.log.producers import Marker
from pykbroker.storage.log.log import Log
from pykbroker.storage.log.rewrite import FRAMED_AT_ONCE_BLOCKS_MAX, LongWork
from pykbroker.storage.segments.config import LONG_MAX, LogConfig
from pykbroker.world import system_disk
from pykbroker.world.disk import Buffer
from pykbroker.world.system_disk import SystemDisk, SystemFile
from tests.unit.storage.logs import (
    NOW,
    SMALL,
    append_in_transaction,
    batch,
    content,
    every_batch,
    every_byte,
    filled,
    marker,
    open_log,
)
from wire.error_codes import ErrorCode
from wire.records import xerial
from wire.records.batch import Batch
from wire.records.builder import sealed
from wire.records.compression import Codec, compress
from wire.records.control import ControlRecord, ControlType, control_records
from wire.records.record import records
from wire.stored.control import EndTxnMarker


def refused(log: Log, data: Any) -> ErrorCode:
    end, size = log.log_end_offset, log.size_bytes
    with pytest.raises(ApiError) as refusal:
        log.appender.append(data, 0, NOW)
    assert (log.log_end_offset, log.size_bytes) == (end, size)
    return refusal.value.code


def changed(data: bytes, **header: int) -> bytes:
    """Return the batch with changed header fields and a valid checksum."""
    one = Batch.read(data)
    return sealed(replace(one, **header), one.payload)


async def test_batches_get_the_next_offsets_and_the_leader_epoch_and_keep_their_checksum(disk: SystemDisk) -> None:
    log = await open_log(disk)
    first, second = log.appender.append(batch(b"a", b"b"), 3, NOW), log.appender.append(batch(b"c"), 4, NOW)
    assert (first.base_offset, first.last_offset, first.log_append_time_ms, first.duplicate) == (0, 1, -1, False)
    assert (second.base_offset, second.last_offset, log.log_end_offset) == (2, 2, 3)
    assert [(one.base_offset, one.leader_epoch) for one in await every_batch(log)] == [(0, 3), (2, 4)]
    assert log.epochs.entries == ((3, 0), (4, 2))


@pytest.mark.parametrize("kind", [bytes, bytearray, lambda data: memoryview(bytearray(data)), memoryview])
@pytest.mark.parametrize("size", [10, 100_000])
async def test_any_buffer_is_accepted_and_a_large_writable_one_is_patched_in_place(
    disk: SystemDisk, kind: Any, size: int
) -> None:
    log = await open_log(disk, LogConfig())
    log.appender.append(batch(), 0, NOW)
    data = kind(batch(bytes(size)))
    log.appender.append(data, 7, NOW)
    stored = (await every_batch(log))[1]
    assert (stored.base_offset, stored.leader_epoch) == (1, 7)
    patched = size > 10_000 and not memoryview(data).readonly
    assert Batch.read(data).base_offset == (1 if patched else 0)


@pytest.mark.parametrize(
    ("code", "data"),
    [
        (ErrorCode.INVALID_RECORD, b""),
        (ErrorCode.INVALID_RECORD, batch()[:60]),
        (ErrorCode.INVALID_RECORD, batch()[:-1]),
        (ErrorCode.INVALID_RECORD, batch() + batch()),
        (ErrorCode.INVALID_RECORD, batch()[:16] + b"\1" + batch()[17:]),
        (ErrorCode.CORRUPT_MESSAGE, batch()[:16] + b"\3" + batch()[17:]),
        (ErrorCode.CORRUPT_MESSAGE, batch()[:8] + (40).to_bytes(4, "big") + batch()[12:]),
        (ErrorCode.CORRUPT_MESSAGE, batch()[:-1] + b"\xff"),
        (ErrorCode.INVALID_RECORD, batch(base_offset=5)),
        (ErrorCode.INVALID_RECORD, changed(batch(), count=0)),
        (ErrorCode.INVALID_RECORD, changed(batch(), count=-1, last_offset_delta=-2)),
        (ErrorCode.INVALID_RECORD, changed(batch(), count=2)),
        (ErrorCode.INVALID_RECORD, changed(batch(), last_offset_delta=1)),
        (ErrorCode.INVALID_RECORD, marker(1, commit=True)),
        (ErrorCode.INVALID_RECORD, changed(batch(), producer_id=5, base_sequence=-1)),
        (ErrorCode.INVALID_RECORD, changed(batch(), attributes=5)),
        (ErrorCode.INVALID_TIMESTAMP, changed(batch(), attributes=8)),
        (ErrorCode.INVALID_TIMESTAMP, batch(timestamp=NOW + 3_600_001)),
        (ErrorCode.MESSAGE_TOO_LARGE, batch(bytes(1_048_588))),
    ],
)
async def test_an_invalid_batch_is_refused_with_kafkas_error_code(
    disk: SystemDisk, code: ErrorCode, data: bytes
) -> None:
    assert refused(await open_log(disk, LogConfig()), data) is code


async def test_a_batch_larger_than_a_segment_is_refused(disk: SystemDisk) -> None:
    assert refused(await open_log(disk), batch(bytes(1000))) is ErrorCode.RECORD_LIST_TOO_LARGE


async def test_a_batch_at_the_limits_is_accepted(disk: SystemDisk) -> None:
    log = await open_log(disk, LogConfig(max_message_bytes=len(batch())))
    log.appender.append(batch(timestamp=NOW + 3_600_000), 0, NOW)
    log.appender.append(batch(timestamp=-1), 0, NOW)
    log.appender.append(batch() + batch()[:30], 0, NOW)  # A partial second batch is ignored.
    assert log.log_end_offset == 3
    assert refused(log, batch(b"valuee")) is ErrorCode.MESSAGE_TOO_LARGE


async def test_unknown_attribute_bits_are_stored_unchanged(disk: SystemDisk) -> None:
    log = await open_log(disk)
    log.appender.append(changed(batch(), attributes=0x4080), 0, NOW)
    assert (await every_batch(log))[0].attributes == 0x4080


async def test_a_duplicate_returns_the_offsets_and_the_time_of_the_first_append(disk: SystemDisk) -> None:
    log = await open_log(disk)
    log.appender.append(batch(), 0, NOW)
    sent = batch(b"a", b"b", timestamp=NOW - 7, producer_id=9, producer_epoch=0, base_sequence=0)
    log.appender.append(sent, 0, NOW)
    size = log.size_bytes
    again = log.appender.append(sent, 0, NOW)
    assert (again.base_offset, again.last_offset, again.log_append_time_ms, again.duplicate) == (1, 2, NOW - 7, True)
    assert (log.log_end_offset, log.size_bytes) == (3, size)
    gap = batch(producer_id=9, producer_epoch=0, base_sequence=3)
    assert refused(log, gap) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_log_append_time_overrides_the_largest_timestamp_and_keeps_the_deltas(disk: SystemDisk) -> None:
    log = await open_log(disk, replace(SMALL, message_timestamp_type="LogAppendTime"))
    appended = log.appender.append(batch(b"a", b"b", timestamp=5, step=3), 0, NOW)
    assert appended.log_append_time_ms == NOW
    stored = (await every_batch(log))[0]
    assert (stored.is_log_append_time, stored.base_timestamp, stored.max_timestamp) == (True, 5, NOW)
    assert [one.timestamp for one in records(stored, 1000)] == [NOW, NOW]


@pytest.mark.parametrize("compression_type", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
async def test_compression_type_recompresses_a_batch_of_another_codec(disk: SystemDisk, compression_type: str) -> None:
    log = await open_log(disk, LogConfig(compression_type=compression_type))
    for codec in Codec:
        data = batch(b"v" * 500, b"w", codec=codec, producer_id=3, producer_epoch=0, base_sequence=2 * codec)
        log.appender.append(data, 0, NOW)
    stored = await every_batch(log)
    name = "none" if compression_type == "uncompressed" else compression_type
    assert {one.codec.name.lower() for one in stored} == {name}
    assert [one.base_sequence for one in stored] == [0, 2, 4, 6, 8]
    assert all([r.value for r in records(one, 10_000)] == [b"v" * 500, b"w"] for one in stored)


async def test_a_compacted_topic_refuses_records_without_keys(disk: SystemDisk) -> None:
    log = await open_log(disk, LogConfig(cleanup_policy=("compact",)))
    log.appender.append(batch(), 0, NOW)
    assert refused(log, batch(key=None)) is ErrorCode.INVALID_RECORD


async def test_records_older_than_message_timestamp_before_max_ms_are_refused(disk: SystemDisk) -> None:
    log = await open_log(disk, LogConfig(message_timestamp_before_max_ms=1000))
    log.appender.append(batch(timestamp=NOW - 1000), 0, NOW)
    assert refused(log, batch(b"a", b"b", timestamp=NOW, step=-1001)) is ErrorCode.INVALID_TIMESTAMP


async def test_no_record_is_too_old_without_message_timestamp_before_max_ms(disk: SystemDisk) -> None:
    log = await open_log(disk, LogConfig(message_timestamp_before_max_ms=LONG_MAX))
    oldest = -(1 << 63)
    assert log.appender.append(batch(timestamp=oldest), 0, NOW).last_offset == 0
    log.configure(LogConfig(message_timestamp_before_max_ms=LONG_MAX - 1))
    assert refused(log, batch(timestamp=oldest)) is ErrorCode.INVALID_TIMESTAMP


async def test_records_are_validated_unless_validation_is_disabled(disk: SystemDisk) -> None:
    broken = bytearray(batch(b"a", b"b"))
    broken[-1] = 9  # The record claims nine headers and has none.
    one = Batch.read(broken)
    broken = bytearray(sealed(one, one.payload))
    log = await open_log(disk, LogConfig())
    assert refused(log, broken) is ErrorCode.INVALID_RECORD
    log.configure(LogConfig(validate_records=False))
    assert log.appender.append(broken, 0, NOW).last_offset == 1


WHOLE = Batch.read(batch(b"value" * 100))
UNREADABLE = {
    "linked blocks": (Codec.LZ4, bytes(lz4.compress(WHOLE.payload))),
    "two frames": (Codec.LZ4, compress(Codec.LZ4, WHOLE.payload[:100]) + compress(Codec.LZ4, WHOLE.payload[100:])),
    "an empty frame": (Codec.LZ4, compress(Codec.LZ4, WHOLE.payload) + compress(Codec.LZ4, b"")),
    "a window of 256 MiB": (
        Codec.ZSTD,
        b"\x28\xb5\x2f\xfd\0\x90" + (len(WHOLE.payload) << 3 | 1).to_bytes(3, "little") + WHOLE.payload,
    ),
    "an empty block": (Codec.SNAPPY, compress(Codec.SNAPPY, WHOLE.payload) + bytes(4)),
    "no header": (Codec.GZIP, compress(Codec.GZIP, WHOLE.payload)[10:]),
}
"""Compressed records that Kafka's consumers cannot read. Kafka's broker refuses them."""


@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.parametrize("validate_records", [True, False])
@pytest.mark.parametrize("compression_type", ["producer", "zstd", "lz4"])
async def test_compressed_records_that_kafka_cannot_read_are_refused_but_taken_from_a_leader(
    disk: SystemDisk, name: str, validate_records: bool, compression_type: str
) -> None:
    config = LogConfig(validate_records=validate_records, compression_type=compression_type)
    log = await open_log(disk, config)
    codec, payload = UNREADABLE[name]
    data = sealed(replace(WHOLE, attributes=int(codec)), payload)
    assert refused(log, data) == ErrorCode.INVALID_RECORD
    with pytest.raises(ApiError) as refusal:
        await log.appender.open_off_loop(data, NOW)
    assert refusal.value.code == ErrorCode.INVALID_RECORD
    log.append_stored(data)
    assert [one.payload for one in await every_batch(log)] == [payload]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("level", [None, 9])
async def test_what_this_broker_compresses_may_be_produced(disk: SystemDisk, codec: Codec, level: int | None) -> None:
    log = await open_log(disk, LogConfig(validate_records=False))
    data = batch(*[b"value" * 1000] * 100, codec=codec, level=level)
    log.appender.append(data, 0, NOW)
    log.appender.append(Batch.read(data).buffer, 0, NOW)
    assert log.log_end_offset == 200


@pytest.mark.parametrize(("over", "is_long"), [(-1, False), (0, False), (1, True)])
async def test_batches_of_many_blocks_are_checked_off_the_event_loop(
    disk: SystemDisk, over: int, is_long: bool
) -> None:
    log = await open_log(disk, LogConfig(validate_records=False))
    blocks = b"\0\0\0\1\0" * (FRAMED_AT_ONCE_BLOCKS_MAX + over)
    data = sealed(replace(WHOLE, attributes=int(Codec.SNAPPY)), xerial.HEADER + blocks)
    if is_long:
        with pytest.raises(LongWork):
            log.appender.append(data, 0, NOW)
        log.appender.append_opened(await log.appender.open_off_loop(data, NOW), 0)
    else:
        log.appender.append(data, 0, NOW)
    assert log.log_end_offset == 1


@pytest.mark.parametrize(
    ("claimed", "kept"),
    [(0, NOW + 5), (-1, NOW + 5), (NOW + 4, NOW + 5), (NOW + 5, NOW + 5), (NOW + 6, NOW + 5), (2**63 - 1, NOW + 5)],
)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("compression_type", ["producer", "zstd"])
async def test_the_largest_timestamp_is_computed_from_the_records(
    disk: SystemDisk, claimed: int, kept: int, codec: Codec, compression_type: str
) -> None:
    whole = Batch.read(batch(b"a", b"b", b"c", timestamp=NOW, step=5, codec=codec))
    lying = sealed(
        replace(whole, last_offset_delta=1, count=2, max_timestamp=claimed),
        compress(codec, bytes(Batch.read(batch(b"a", b"b", timestamp=NOW, step=5)).payload)),
    )
    log = await open_log(disk, LogConfig(compression_type=compression_type))
    log.appender.append(lying, 0, NOW)
    (stored,) = await every_batch(log)
    assert (stored.max_timestamp, stored.base_timestamp, stored.crc_ok()) == (kept, NOW, True)
    assert [record.timestamp for record in records(stored, 1000)] == [NOW, NOW + 5]


async def test_records_from_before_1970_have_no_largest_timestamp(disk: SystemDisk) -> None:
    log = await open_log(disk, LogConfig())
    log.appender.append(batch(b"a", timestamp=-1000), 0, NOW)
    (stored,) = await every_batch(log)
    assert stored.max_timestamp == -1


@pytest.mark.parametrize(("ahead", "refusal"), [(3_600_000, None), (3_600_001, ErrorCode.INVALID_TIMESTAMP)])
async def test_records_of_the_future_are_refused_whatever_the_batch_header_says(
    disk: SystemDisk, ahead: int, refusal: ErrorCode | None
) -> None:
    whole = Batch.read(batch(b"a", timestamp=NOW + ahead))
    lying = sealed(replace(whole, max_timestamp=NOW), whole.payload)
    log = await open_log(disk, LogConfig())
    if refusal:
        assert refused(log, lying) is refusal
    else:
        log.appender.append(lying, 0, NOW)


async def test_a_decompression_bomb_is_refused_and_large_batches_are_opened_off_the_event_loop(
    disk: SystemDisk,
) -> None:
    log = await open_log(disk, LogConfig(max_message_bytes=2_000_000))
    bomb = batch(bytes(16 * 2_000_000), codec=Codec.ZSTD)
    with pytest.raises(LongWork):
        log.appender.append(bomb, 0, NOW)
    with pytest.raises(ApiError) as error:
        await log.appender.open_off_loop(bomb, NOW)
    assert error.value.code is ErrorCode.MESSAGE_TOO_LARGE
    large = batch(bytes(1_200_000))
    with pytest.raises(LongWork):
        log.appender.append(large, 0, NOW)
    appended = log.appender.append_opened(await log.appender.open_off_loop(large, NOW), 2)
    assert (appended.base_offset, log.log_end_offset) == (0, 1)
    with pytest.raises(ApiError):
        await log.appender.open_off_loop(large[:-1] + b"?", NOW)


def limits() -> list[Any]:
    return [
        pytest.param(LogConfig(segment_bytes=len(batch()) * 3), [NOW] * 7, [0, 3, 6], id="size"),
        pytest.param(LogConfig(segment_ms=1000), [NOW, NOW + 1000, NOW + 1001, NOW], [0, 2], id="time"),
        pytest.param(LogConfig(segment_index_bytes=36, index_interval_bytes=0), [NOW] * 7, [0, 5], id="index"),
    ]


@pytest.mark.parametrize(("config", "timestamps", "bases"), limits())
async def test_a_segment_rolls_at_each_limit(
    disk: SystemDisk, config: LogConfig, timestamps: list[int], bases: list[int]
) -> None:
    log = await open_log(disk, config)
    for timestamp in timestamps:
        log.appender.append(batch(timestamp=timestamp), 0, NOW)
    assert [int(name[:20]) for name in disk.names("topic-0") if name.endswith(".log")] == bases
    assert len(await every_batch(log)) == len(timestamps)


async def test_jitter_makes_a_segment_roll_earlier(disk: SystemDisk) -> None:
    log = await open_log(disk, LogConfig(segment_ms=1000, segment_jitter_ms=500), jitter=lambda below: below - 1)
    for timestamp in (NOW, NOW + 501, NOW + 502):
        log.appender.append(batch(timestamp=timestamp), 0, NOW)
    assert [int(name[:20]) for name in disk.names("topic-0") if name.endswith(".log")] == [0, 2]


async def test_the_jitter_is_less_than_the_segment_time(disk: SystemDisk) -> None:
    log = await open_log(disk, LogConfig(segment_ms=1000, segment_jitter_ms=5000), jitter=lambda below: below - 1)
    for timestamp in (NOW, NOW + 1, NOW + 2):
        log.appender.append(batch(timestamp=timestamp), 0, NOW)
    assert [int(name[:20]) for name in disk.names("topic-0") if name.endswith(".log")] == [0, 2]


@pytest.mark.parametrize(("segment_ms", "bases"), [(500, [0, 1]), (5000, [0])])
@pytest.mark.parametrize("reopened", [False, True])
async def test_a_changed_segment_ms_applies_to_the_active_segment(
    disk: SystemDisk, segment_ms: int, bases: list[int], reopened: bool
) -> None:
    log = await open_log(disk, config := LogConfig(segment_ms=1000))
    log.appender.append(batch(timestamp=NOW), 0, NOW)
    if reopened:
        await log.close()
        log = await open_log(disk, config, clean=True)
    log.configure(replace(config, segment_ms=segment_ms))
    log.appender.append(batch(timestamp=NOW + 700 if segment_ms < 1000 else NOW + 2000), 0, NOW)
    assert [int(name[:20]) for name in disk.names("topic-0") if name.endswith(".log")] == bases


async def test_a_segment_rolls_before_its_relative_offsets_exceed_32_bits(disk: SystemDisk) -> None:
    log = await open_log(disk, LogConfig())
    log.appender.append(batch(), 0, NOW)
    far = bytearray(batch())
    pack_into(">q", far, 0, 2**31)
    log.append_stored(bytes(far))
    assert [int(name[:20]) for name in disk.names("topic-0") if name.endswith(".log")] == [0, 1]


@pytest.mark.parametrize("written", [0, 1, 40])
async def test_an_append_to_a_full_disk_changes_nothing(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    log = await open_log(disk)
    places = filled(log, 3)
    write: Callable[..., int] = getattr(system_disk, "pwrite")  # noqa: B009 - the module imports it for itself

    def full(fd: int, data: Any, offset: int) -> int:
        if offset > log.size_bytes or not written:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, bytes(data)[:written], offset)

    with monkeypatch.context() as patch:
        patch.setattr(system_disk, "pwrite", full)
        with pytest.raises(OSError, match="No space"):
            log.appender.append(batch(producer_id=5, producer_epoch=0, base_sequence=0), 0, NOW)
    assert [(one.base_offset, one.last_offset) for one in await every_batch(log)] == places
    again = log.appender.append(batch(producer_id=5, producer_epoch=0, base_sequence=0), 0, NOW)
    assert not again.duplicate
    await log.close()
    assert len(await every_batch(await open_log(disk))) == 4


async def test_append_stored_keeps_batches_unchanged_and_refuses_a_wrong_offset(disk: SystemDisk) -> None:
    log = await open_log(disk)
    leader = batch(base_offset=10, leader_epoch=2) + batch(base_offset=15, leader_epoch=3)
    appended = log.append_stored(leader)
    assert (appended.base_offset, appended.last_offset, log.log_end_offset) == (10, 15, 16)
    for wrong in (
        batch(base_offset=15),
        batch(base_offset=16)[:-1],
        batch(base_offset=16)[:-1] + b"?",
        batch(base_offset=16) + batch(base_offset=16),
    ):
        with pytest.raises(ApiError) as refusal:
            log.append_stored(wrong)
        assert refusal.value.code is ErrorCode.CORRUPT_MESSAGE
    assert (log.log_end_offset, await every_byte(log)) == (16, leader)
    assert log.epochs.entries == ((2, 10), (3, 15))


async def test_append_stored_writes_once_for_each_segment(disk: SystemDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    log = await open_log(disk, LogConfig(segment_bytes=500))
    parts = [batch(bytes(50), base_offset=offset, leader_epoch=1) for offset in range(20)]
    writes: list[int] = []
    append = SystemFile.append

    def counted(file: SystemFile, data: Buffer) -> int:
        writes.append(len(data))
        return append(file, data)

    monkeypatch.setattr(SystemFile, "append", counted)
    log.append_stored(b"".join(parts))
    size = len(parts[0])
    data_writes = [written for written in writes if written >= size]  # the others are producer snapshots
    assert data_writes == [4 * size] * 5
    assert (log.log_end_offset, await every_byte(log)) == (20, b"".join(parts))
    monkeypatch.undo()
    await log.close()
    assert await every_byte(await open_log(disk, clean=True)) == b"".join(parts)


async def test_append_stored_takes_over_producers_transactions_and_epochs(disk: SystemDisk) -> None:
    log = await open_log(disk)
    data = batch(base_offset=5, producer_id=4, producer_epoch=2, base_sequence=7, transactional=True, leader_epoch=3)
    log.append_stored(data + batch(base_offset=6, leader_epoch=4))
    assert log.reader.last_stable_offset(7) == 5
    producer = log.producers.get(4)
    assert producer is not None
    assert (producer.epoch, producer.next_sequence, log.epochs.entries) == (2, 8, ((3, 5), (4, 6)))


async def test_a_read_in_an_offset_gap_returns_the_next_batch(disk: SystemDisk) -> None:
    log = await open_log(disk)
    log.append_stored(batch(b"a", b"b") + batch(base_offset=10) + batch(base_offset=11))
    for offset in range(2, 11):
        assert Batch.read(content(await log.read_patiently(offset, 1, 12, at_least_one=True))).base_offset == 10
    assert Batch.read(content(await log.read_patiently(1, 1, 12, at_least_one=True))).base_offset == 0


async def test_markers_end_transactions_and_fence_old_epochs(disk: SystemDisk) -> None:
    log = await open_log(disk)
    append_in_transaction(log, batch(producer_id=4, producer_epoch=2, base_sequence=0, transactional=True))
    append_in_transaction(log, batch(producer_id=5, producer_epoch=0, base_sequence=0, transactional=True))
    assert log.reader.last_stable_offset(2) == 0
    for fenced, code in [
        (Marker(4, 1, True, 0), ErrorCode.INVALID_PRODUCER_EPOCH),
        (Marker(4, 2, True, 0, 2), ErrorCode.INVALID_PRODUCER_EPOCH),
    ]:
        with pytest.raises(ApiError) as refusal:
            log.appender.append_marker(fenced, 0, NOW)
        assert refusal.value.code is code
    assert log.appender.append_marker(Marker(4, 3, True, 7, 2), 0, NOW).base_offset == 2
    assert log.appender.append_marker(Marker(5, 0, False, 7), 0, NOW).base_offset == 3
    with pytest.raises(ApiError) as refusal:
        log.appender.append_marker(Marker(5, 0, False, 6), 0, NOW)
    assert refusal.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert log.reader.last_stable_offset(4) == 4
    found = log.reader.aborted_transactions(0, log.reader.read(0, 10_000, 4, at_least_one=True))
    assert [(one.producer_id, one.first_offset) for one in found] == [(5, 1)]
    stored = await every_batch(log)
    assert [(one.producer_id, one.producer_epoch, one.is_control) for one in stored] == [
        (4, 2, False),
        (5, 0, False),
        (4, 3, True),
        (5, 0, True),
    ]
    assert [next(control_records(one)) for one in stored[2:]] == [
        ControlRecord(2, ControlType.COMMIT, EndTxnMarker(7)),
        ControlRecord(3, ControlType.ABORT, EndTxnMarker(7)),
    ]


async def test_a_transaction_begins_only_after_it_is_verified(disk: SystemDisk) -> None:
    log = await open_log(disk)
    data = batch(producer_id=4, producer_epoch=0, base_sequence=0, transactional=True)
    for append in (lambda: log.appender.append(data, 0, NOW), lambda: log.append_as_leader(data, 0)):
        with pytest.raises(ApiError) as refusal:
            append()
        assert refusal.value.code is ErrorCode.INVALID_TXN_STATE
    assert log.log_end_offset == 0
    shown = log.producers.begin_verification(4, 0, -1, NOW)
    assert log.appender.append_as_leader(data, 0, shown).base_offset == 0
