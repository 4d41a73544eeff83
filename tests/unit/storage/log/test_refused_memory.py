"""Tests that refused batches are freed at once, without the garbage collector, whatever refuses them."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable, Iterator

import pytest
import trio
from cramjam import lz4
from msgspec.structs import replace

from pykbroker.core.errors import ApiError
from pykbroker.storage.log.log import Log
from pykbroker.storage.log.rewrite import LongWork
from pykbroker.storage.segments.config import LogConfig
from pykbroker.world.system_disk import SystemDisk
from tests.unit.storage.logs import NOW, batch, open_log
from wire.records.batch import Batch
from wire.records.builder import BatchBuilder, sealed
from wire.records.compression import Codec, compress

BYTES = 300_000
NOISE = random.Random(1).randbytes(BYTES)
WHOLE = Batch.read(batch(NOISE))
COMPRESSED = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
DEFAULT = LogConfig()


class Received(bytearray):
    """The bytes of a batch in the buffer of a request."""


def header(**changes: int) -> bytes:
    return sealed(replace(WHOLE, **changes), WHOLE.payload)


def packed(codec: Codec, payload: bytes) -> bytes:
    return sealed(replace(WHOLE, attributes=int(codec)), payload)


def headers_without_end() -> bytes:
    builder = BatchBuilder()
    builder.append(b"key", NOISE, (("name", b"value"),) * 20_000, NOW)
    whole = Batch.read(builder.build())
    return sealed(replace(whole, count=2, last_offset_delta=1), whole.payload)


REFUSED: dict[str, tuple[bytes, LogConfig]] = {
    "of a checksum": (batch(NOISE)[:-1] + b"?", DEFAULT),
    "of its size": (batch(NOISE), LogConfig(max_message_bytes=BYTES)),
    "of the size of a segment": (batch(NOISE), LogConfig(segment_bytes=BYTES)),
    "of two batches": (batch(NOISE) * 2, DEFAULT),
    "of half a batch": (batch(NOISE)[:-1], DEFAULT),
    "of an unknown magic": (batch(NOISE)[:16] + b"\3" + batch(NOISE)[17:], DEFAULT),
    "of a base offset": (header(base_offset=1), DEFAULT),
    "of no records": (header(count=0), DEFAULT),
    "of its offsets": (header(last_offset_delta=3), DEFAULT),
    "of control records": (header(attributes=0x20), DEFAULT),
    "of a codec": (header(attributes=5), DEFAULT),
    "of a missing sequence": (header(producer_id=1, producer_epoch=0), DEFAULT),
    "of an unknown producer's sequence": (header(producer_id=1, producer_epoch=0, base_sequence=-1), DEFAULT),
    "of an unverified transaction": (
        header(producer_id=1, producer_epoch=0, base_sequence=0, attributes=0x10),
        DEFAULT,
    ),
    "of a timestamp type": (header(attributes=8), DEFAULT),
    "of a claimed future": (header(max_timestamp=NOW << 1), LogConfig(validate_records=False)),
    "of the future": (batch(NOISE, timestamp=NOW << 1), DEFAULT),
    "of the past": (batch(NOISE, timestamp=1), LogConfig(message_timestamp_before_max_ms=1)),
    "of a missing key": (batch(NOISE, key=None), LogConfig(cleanup_policy=("compact",))),
    "of a missing record": (header(count=2, last_offset_delta=1), DEFAULT),
    "of many headers": (headers_without_end(), DEFAULT),
    "of linked blocks": (packed(Codec.LZ4, bytes(lz4.compress(WHOLE.payload))), DEFAULT),
    "of linked blocks in a trusting broker": (
        packed(Codec.LZ4, bytes(lz4.compress(WHOLE.payload))),
        LogConfig(validate_records=False),
    ),
    "of its size after compression": (
        batch(NOISE + bytes(BYTES), codec=Codec.ZSTD),
        LogConfig(max_message_bytes=BYTES * 3 // 2, compression_type="uncompressed"),
    ),
    **{
        f"of {fault} {codec.name}": (packed(codec, payload), config)
        for codec in COMPRESSED
        for fault, payload, config in (
            ("cut off", compress(codec, WHOLE.payload)[:-9], DEFAULT),
            ("damaged", compress(codec, WHOLE.payload)[:BYTES] + bytes(9), DEFAULT),
            ("unknown", NOISE, LogConfig(compression_type="gzip" if codec is Codec.ZSTD else "zstd")),
            ("exploding", compress(codec, bytes(9_000_000)), LogConfig(max_message_bytes=500_000)),
        )
    },
}


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


async def where_due(log: Log, data: Received) -> None:
    try:
        log.appender.append(memoryview(data), 0, NOW)
    except LongWork:
        await off_loop(log, data)


async def off_loop(log: Log, data: Received) -> None:
    opened = await log.appender.open_off_loop(memoryview(data), NOW)
    log.appender.append_opened(opened, 0)


async def refusal(append: Callable[[Log, Received], object], log: Log, data: bytes) -> weakref.ref[Received]:
    """Append the batch, check that it is refused, and return a reference that does not keep it alive."""
    received = Received(data)
    with pytest.raises((ApiError, LongWork)):
        await append(log, received)  # type: ignore[misc]
    return weakref.ref(received)


@pytest.mark.parametrize("append", [where_due, off_loop])
@pytest.mark.parametrize("why", REFUSED)
async def test_a_refused_batch_is_freed_at_once(
    disk: SystemDisk, why: str, append: Callable[[Log, Received], object]
) -> None:
    data, config = REFUSED[why]
    log = await open_log(disk, config)
    refused = await refusal(append, log, data)
    with trio.fail_after(30):
        while refused() is not None:  # the thread may not be at rest yet
            await trio.lowlevel.checkpoint()
    assert log.log_end_offset == 0
