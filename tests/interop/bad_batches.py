"""Malformed record batches that no producer builds, with the error codes that a broker may return.

The first code is Kafka 4.3.1's. Where Kafka returns UNKNOWN_SERVER_ERROR because of an unexpected exception, pykbroker
returns the code of the actual fault.
"""

from __future__ import annotations

import functools
import struct
import time
from collections.abc import Mapping

from cramjam import lz4
from msgspec.structs import replace

from wire.error_codes import ErrorCode
from wire.records.batch import Batch
from wire.records.builder import BatchBuilder, sealed
from wire.records.compression import Codec, compress
from wire.records.zigzag import varint

NONE, CORRUPT, INVALID, UNKNOWN = (
    ErrorCode.NONE,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)
HOUR_MS = 3_600_000
MEGABYTE = 1 << 20

Case = tuple[bytes, tuple[ErrorCode, ...]]


def good(codec: Codec = Codec.NONE, count: int = 2) -> bytes:
    """Return a valid batch."""
    builder = BatchBuilder(codec)
    for index in range(count):
        builder.append(b"key", b"value %d" % index + b" " * 50, (), int(time.time() * 1000))
    return builder.build()


GOOD = good()
HEADER = Batch.read(GOOD)
PAYLOAD = bytes(HEADER.payload)
LENGTH = HEADER.batch_length


def header(**changes: int) -> bytes:
    """Return the valid batch with other header fields and a correct checksum."""
    return sealed(replace(HEADER, **changes), HEADER.payload)


def patched(position: int, layout: str, value: int) -> bytes:
    """Return the valid batch with one field overwritten and an unchanged checksum."""
    data = bytearray(GOOD)
    struct.pack_into(layout, data, position, value)
    return bytes(data)


def payload(data: bytes, codec: Codec = Codec.NONE) -> bytes:
    """Return a batch of two records whose records section is `data`, with a correct checksum."""
    return sealed(replace(HEADER, attributes=int(codec)), data)


def flipped(data: bytes) -> bytes:
    """Return `data` with all bits of its middle byte inverted."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]


@functools.cache
def bomb(codec: Codec, size: int) -> bytes:
    """Return a batch of one record whose value is `size` zero bytes."""
    builder = BatchBuilder(codec)
    builder.append(None, bytes(size), (), int(time.time() * 1000))
    return builder.build()


FRAMING: Mapping[str, Case] = {
    "nothing": (b"", (INVALID,)),
    "half a header": (GOOD[:30], (INVALID,)),
    "a header alone": (GOOD[:61], (INVALID,)),
    "half a batch": (GOOD[: len(GOOD) // 2], (INVALID,)),
    "two batches": (GOOD + GOOD, (INVALID,)),
    "garbage after the batch": (GOOD + b"x" * 20, (CORRUPT,)),
    "magic 0": (patched(16, ">b", 0), (INVALID,)),
    "magic 1": (patched(16, ">b", 1), (INVALID,)),
    "magic 3": (patched(16, ">b", 3), (CORRUPT,)),
    "magic -1": (patched(16, ">b", -1), (CORRUPT,)),
    "wrong checksum": (patched(17, ">I", HEADER.crc ^ 1), (CORRUPT,)),
    "a turned bit": (GOOD[:-1] + bytes([GOOD[-1] ^ 1]), (CORRUPT,)),
    "length -1": (patched(8, ">i", -1), (CORRUPT,)),
    "length 0": (patched(8, ">i", 0), (CORRUPT,)),
    "length of less than a header": (patched(8, ">i", 48), (CORRUPT,)),
    "length too small": (patched(8, ">i", LENGTH - 1), (CORRUPT,)),
    "length too large": (patched(8, ">i", LENGTH + 1), (INVALID,)),
    "length of 2 GiB": (patched(8, ">i", 2**31 - 1), (UNKNOWN, INVALID)),
    "length of -2 GiB": (patched(8, ">i", -(2**31)), (CORRUPT,)),
}
HEADERS: Mapping[str, Case] = {
    "base offset 5": (patched(0, ">q", 5), (INVALID,)),
    "base offset -1": (patched(0, ">q", -1), (INVALID,)),
    "no records": (header(count=0), (INVALID,)),
    "-1 records": (header(count=-1), (INVALID,)),
    "more records than offsets": (header(count=3), (INVALID,)),
    "more offsets than records": (header(last_offset_delta=5), (INVALID,)),
    "more records than bytes": (header(count=2**31 - 1, last_offset_delta=2**31 - 2), (INVALID,)),
    "control records": (header(attributes=0x20), (INVALID,)),
    "codec 5": (header(attributes=5), (UNKNOWN, INVALID)),
    "codec 7": (header(attributes=7), (UNKNOWN, INVALID)),
    "a producer id without a sequence": (header(producer_id=1 << 40, producer_epoch=0), (INVALID,)),
    "tomorrow's timestamps": (
        header(base_timestamp=HEADER.base_timestamp + 24 * HOUR_MS, max_timestamp=HEADER.max_timestamp + 24 * HOUR_MS),
        (ErrorCode.INVALID_TIMESTAMP,),
    ),
    "a transaction without an id": (
        header(attributes=0x10, producer_id=1 << 41, producer_epoch=0, base_sequence=0),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,),
    ),
    "a transaction without a producer": (header(attributes=0x10), (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,)),
}


def record(
    index: int,
    *,
    key: bytes = b"\x06key",
    value: bytes = b"\x0avalue",
    headers: bytes = b"\0",
    more: bytes = b"",
    longer: int = 0,
    stamp: int = 0,
) -> bytes:
    """Return an encoded record whose length field is `longer` bytes too large."""
    body = b"\0" + varint(stamp) + varint(index) + key + value + headers + more
    return varint(len(body) + longer) + body


SECOND = record(1)
LYING: Mapping[str, bytes] = {
    "a record of -1 bytes": b"\x01" + record(0)[1:] + SECOND,
    "a record of no bytes": b"\0" + record(0)[1:] + SECOND,
    "a record that is longer than it says": record(0, longer=-1) + SECOND,
    "a record that is shorter than it says": record(0, longer=1) + SECOND,
    "a key that ends behind its record": record(0, key=varint(100) + b"key") + SECOND,
    "a value that ends behind its record": record(0, value=varint(9) + b"value") + SECOND,
    "a value that ends behind the batch": record(0) + record(1, value=varint(200) + b"value"),
    "a value that ends before its record": record(0, value=varint(2) + b"value") + SECOND,
    "-1 headers": record(0, headers=varint(-1)) + SECOND,
    "a header that is not there": record(0, headers=varint(1)) + SECOND,
    "a header that is not counted": record(0, headers=b"\0\x02h\x02v") + SECOND,
    "two headers of one": record(0, headers=b"\x04\x02h\x02v") + SECOND,
    "a thousand million headers": record(0, headers=varint(10**9)) + SECOND,
    "a header without a key": record(0, headers=b"\x02\x01\x02v") + SECOND,
    "bytes after the last header": record(0, more=b"xx") + SECOND,
    "a record after the last": record(0) + SECOND + record(2),
}
"""Invalid records sections for an uncompressed batch of two, which Kafka refuses. Kafka stores the first four if
compressed.
"""
LENGTHS = tuple(LYING)[:4]
STORED: Mapping[str, bytes] = {
    "two records of one offset": record(0) + record(0),
    "an offset in the future": record(0) + record(5),
    "offsets in the wrong order": record(1) + record(0),
    "an offset before the batch": record(-1) + SECOND,
    "a key of -2 bytes": record(0, key=varint(-2)) + SECOND,
    "a value of -2 bytes": record(0, value=varint(-2)) + SECOND,
    "a header's value of -3 bytes": record(0, headers=b"\x02\x02h\x05") + SECOND,
}
"""Invalid records sections that Kafka stores. It stores sections with wrong offsets only in uncompressed batches."""
BEYOND: Mapping[str, bytes] = {
    **{name: payload(data) for name, data in STORED.items()},
    **{f"{name}, compressed": payload(compress(Codec.LZ4, data), Codec.LZ4) for name, data in STORED.items()},
    **{f"{name}, compressed": payload(compress(Codec.LZ4, LYING[name]), Codec.LZ4) for name in LENGTHS},
}
RECORDS: Mapping[str, Case] = {
    **{name: (payload(data), (INVALID,)) for name, data in LYING.items()},
    **{
        f"{name}, compressed": (payload(compress(Codec.ZSTD, data), Codec.ZSTD), (INVALID,))
        for name, data in LYING.items()
        if name not in LENGTHS
    },
    "one record of two": (header(count=1, last_offset_delta=0), (INVALID,)),
    "three records of two": (header(count=3, last_offset_delta=2), (INVALID,)),
    "noise": (payload(b"\x55" * len(PAYLOAD)), (INVALID,)),
    "cut off": (payload(PAYLOAD[:-3]), (INVALID,)),
    "bytes after the last": (payload(PAYLOAD + bytes(3)), (INVALID,)),
    "no bytes": (payload(b""), (INVALID,)),
    "length -1": (payload(b"\x01" + PAYLOAD[1:]), (INVALID,)),
    "length of 2 GiB": (payload(b"\xfe\xff\xff\xff\x0f" + PAYLOAD[1:]), (INVALID,)),
    "a varint without end": (payload(b"\xff" * 20), (UNKNOWN, INVALID)),
}
STREAMS: Mapping[str, Case] = {
    f"{codec.name.lower()} {fault}": (payload(stream, codec), codes)
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
    for fault, stream, codes in (
        ("of noise", b"\x55" * 100, (UNKNOWN, INVALID)),
        ("cut off", compress(codec, PAYLOAD)[:-4], (UNKNOWN, INVALID)),
        # The stream has no checksum, so its damaged content may still decode as records.
        ("with turned bits", flipped(compress(codec, PAYLOAD)), (UNKNOWN, INVALID, NONE)),
    )
}
FRAMES: Mapping[str, Case] = {
    name: (payload(stream, codec), (UNKNOWN, INVALID))
    for name, codec, stream in (
        ("lz4 with linked blocks", Codec.LZ4, bytes(lz4.compress(PAYLOAD))),
        ("lz4 with linked blocks of 64 KiB", Codec.LZ4, bytes(lz4.compress(PAYLOAD + bytes(1 << 17)))),
        ("lz4 of two frames", Codec.LZ4, compress(Codec.LZ4, PAYLOAD[:50]) + compress(Codec.LZ4, PAYLOAD[50:])),
        ("lz4 after an empty frame", Codec.LZ4, compress(Codec.LZ4, b"") + compress(Codec.LZ4, PAYLOAD)),
        ("zstd with a window of 256 MiB", Codec.ZSTD, b"\x28\xb5\x2f\xfd\0\x90\1\0\0"),
        ("snappy with an empty block", Codec.SNAPPY, compress(Codec.SNAPPY, PAYLOAD) + bytes(4)),
        ("gzip without a header", Codec.GZIP, compress(Codec.GZIP, PAYLOAD)[10:]),
    )
}
"""Compressed records in a framing that Kafka's readers refuse. No mode of pykbroker stores them."""
BOMBS = {Codec.GZIP: 200 * MEGABYTE, Codec.SNAPPY: 20 * MEGABYTE, Codec.LZ4: 200 * MEGABYTE, Codec.ZSTD: 200 * MEGABYTE}
"""The decompressed size of each bomb. Compressed, none exceeds `max.message.bytes`."""
