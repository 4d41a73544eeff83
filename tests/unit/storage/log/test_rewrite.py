"""Tests of the choice of batches that are decompressed in a thread: exactly those that would block the event loop."""

from __future__ import annotations

import zlib

import pytest
from msgspec import structs

from pykbroker.core.errors import ApiError
from pykbroker.storage.log.log import Log
from pykbroker.storage.log.rewrite import (
    GZIP_COST,
    PACKED_AT_ONCE_BYTES_MAX,
    WALKED_AT_ONCE_BYTES_MAX,
    WALKED_AT_ONCE_RECORDS_MAX,
    LongWork,
    is_long_work,
    rewritten,
)
from pykbroker.storage.segments.config import LogConfig
from pykbroker.world.system_disk import SystemDisk
from tests.unit.storage.logs import NOW, batch, open_log
from wire.records.batch import HEADER_BYTES, Batch
from wire.records.builder import BatchBuilder, sealed
from wire.records.compression import Codec

LOOKING = LogConfig(max_message_bytes=4 << 20)
TRUSTING = LogConfig(validate_records=False)
PACKED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


def holding(size: int, codec: Codec) -> bytes:
    """Return a batch with one record that decompresses to `size` bytes."""
    overhead = len(batch(bytes(size - 30))) - HEADER_BYTES - (size - 30)
    return batch(bytes(size - overhead), codec=codec)


def packing(codec: str) -> LogConfig:
    return structs.replace(TRUSTING, compression_type=codec)


@pytest.fixture
async def log(disk: SystemDisk) -> Log:
    return await open_log(disk, LogConfig())


def needs_thread(log: Log, data: bytes, config: LogConfig) -> bool:
    """Append a batch under these configs. Whether the event loop would be blocked."""
    log.configure(config)
    try:
        log.appender.append(data, 0, NOW)
    except LongWork:
        return True
    except ApiError:
        pass
    return False


@pytest.mark.parametrize("codec", PACKED)
async def test_a_batch_that_may_decompress_to_many_bytes_needs_a_thread(log: Log, codec: Codec) -> None:
    bomb = batch(bytes(2 << 20), codec=codec)
    assert needs_thread(log, bomb, LOOKING)
    assert needs_thread(log, bomb, packing("lz4" if codec is Codec.ZSTD else "zstd"))
    assert not needs_thread(log, bomb, packing(codec.name.lower()))
    assert not needs_thread(log, bomb, structs.replace(TRUSTING, message_timestamp_type="LogAppendTime"))


@pytest.mark.parametrize("codec", [Codec.NONE, *PACKED])
async def test_a_batch_that_stays_small_needs_no_thread(log: Log, codec: Codec) -> None:
    small = batch(*[b"value"] * 100, codec=codec)
    assert not needs_thread(log, small, LOOKING)
    assert not needs_thread(log, small, packing("gzip"))


@pytest.mark.parametrize(("over", "is_long"), [(-1, False), (0, False), (1, True)])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY, Codec.GZIP])
async def test_whether_a_batch_needs_a_thread_depends_on_its_decompressed_size(
    log: Log, codec: Codec, over: int, is_long: bool
) -> None:
    bytes_max = WALKED_AT_ONCE_BYTES_MAX // (GZIP_COST if codec is Codec.GZIP else 1)
    data = holding(bytes_max + over, codec)
    assert needs_thread(log, data, LOOKING) is is_long
    if not is_long:
        assert rewritten(Batch.read(data), LOOKING, NOW, at_once=True).count == 1


@pytest.mark.parametrize(("over", "is_long"), [(-1, False), (0, False), (1, True)])
async def test_validating_each_of_many_records_needs_a_thread(log: Log, over: int, is_long: bool) -> None:
    many = batch(*[b""] * (WALKED_AT_ONCE_RECORDS_MAX + over), codec=Codec.LZ4)
    assert needs_thread(log, many, LOOKING) is is_long
    assert not needs_thread(log, many, packing("lz4"))


@pytest.mark.parametrize(("over", "is_long"), [(-1, False), (0, False), (1, True)])
async def test_recompressing_a_large_batch_needs_a_thread(log: Log, over: int, is_long: bool) -> None:
    size = PACKED_AT_ONCE_BYTES_MAX - len(batch(bytes(60_000))) + 60_000 + over
    assert needs_thread(log, batch(bytes(size)), packing("gzip")) is is_long


def test_a_gzip_batch_that_is_larger_than_it_claims_needs_a_thread_after_all() -> None:
    stream = zlib.compress(bytes(WALKED_AT_ONCE_BYTES_MAX + 1), 9, 31) + zlib.compress(b"", 9, 31)
    lying = sealed(Batch.read(batch(codec=Codec.GZIP)), stream)
    assert not is_long_work(Batch.read(lying), LOOKING)
    with pytest.raises(LongWork):
        rewritten(Batch.read(lying), LOOKING, NOW, at_once=True)
    with pytest.raises(ApiError):
        rewritten(Batch.read(lying), LOOKING, NOW)


@pytest.mark.parametrize(("over", "is_long"), [(-1, False), (0, False), (1, True)])
def test_a_batch_with_many_headers_needs_a_thread_after_all(over: int, is_long: bool) -> None:
    builder = BatchBuilder()
    builder.append(b"key", b"value", (("name", None),) * (WALKED_AT_ONCE_RECORDS_MAX + over), NOW)
    whole = Batch.read(builder.build())
    assert not is_long_work(whole, LOOKING)
    if is_long:
        with pytest.raises(LongWork):
            rewritten(whole, LOOKING, NOW, at_once=True)
    else:
        assert rewritten(whole, LOOKING, NOW, at_once=True) == whole
    assert rewritten(whole, LOOKING, NOW) == whole


@pytest.mark.parametrize(("over", "is_long"), [(-1, False), (0, False), (1, True)])
async def test_the_blocks_of_a_large_batch_are_counted_in_a_thread(log: Log, over: int, is_long: bool) -> None:
    empty_blocks = (b"\x28\xb5\x2f\xfd\0\x58" + bytes(WALKED_AT_ONCE_BYTES_MAX))[: WALKED_AT_ONCE_BYTES_MAX + over]
    data = sealed(Batch.read(batch(codec=Codec.ZSTD)), empty_blocks)
    assert needs_thread(log, data, LOOKING) is is_long


@pytest.mark.parametrize("codec", PACKED[1:])
async def test_a_batch_that_does_not_parse_needs_no_thread(log: Log, codec: Codec) -> None:
    whole = batch(codec=codec)
    bad = sealed(structs.replace(Batch.read(whole), last_offset_delta=0), b"\xff garbage")
    for data in (bad, whole[:-1], whole[:HEADER_BYTES], whole[: HEADER_BYTES - 1], b""):
        assert not needs_thread(log, data, LOOKING)
