"""Snappy in the framing of Java clients (xerial's SnappyOutputStream), and unframed snappy from other clients.

The framing has magic, version i32 and lowest compatible version i32. Then each block has length i32 and raw snappy
data. Numbers are big-endian. Unframed data cannot begin with the magic, because such a snappy block would be invalid:
it would copy bytes from before its own start.
"""

from collections.abc import Iterator

from cramjam import DecompressionError, snappy

from wire.declare import Buffer
from wire.errors import DecodeError

HEADER = b"\x82SNAPPY\0" + b"\0\0\0\1" * 2
_MAGIC = HEADER[:8]
_BLOCK_BYTES = 32 * 1024  # the block size of xerial's writer
_RATIO_MAX = 22  # 3 bytes decompress to at most 64 bytes


def compress(data: Buffer) -> bytes:
    """Return the data in frames with blocks of 32 KiB."""
    view, parts = memoryview(data), [HEADER]
    for pos in range(0, len(view), _BLOCK_BYTES):
        block = bytes(snappy.compress_raw(view[pos : pos + _BLOCK_BYTES]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def claimed_bytes(data: Buffer) -> int:
    """Return the decompressed size that the blocks claim.

    Raise DecodeError if a size is impossible, or if a block is incomplete.
    """
    return sum(claims(data))


def claims(data: Buffer) -> Iterator[int]:
    """Yield the decompressed size that each block claims, with the errors of `claimed_bytes`."""
    return map(_claimed, _blocks(memoryview(data)))


def decompress_into(data: Buffer, output: bytearray) -> int:
    """Decompress into `output`, whose size is `claimed_bytes(data)`. Raise DecodeError if the data is damaged."""
    view, pos = memoryview(output), 0
    try:
        for block in _blocks(memoryview(data)):
            pos += snappy.decompress_raw_into(block, view[pos:])
    except DecompressionError as error:
        raise DecodeError(f"snappy: {error}") from None
    return pos


def _claimed(block: memoryview) -> int:
    try:
        size = snappy.decompress_raw_len(block)
    except DecompressionError as error:
        raise DecodeError(f"snappy: {error}") from None
    if not block or size > len(block) * _RATIO_MAX:
        raise DecodeError(f"snappy block of {len(block)} bytes claims {size}")
    return size


def _blocks(data: memoryview) -> Iterator[memoryview]:
    if data[:8] != _MAGIC:
        yield data
        return
    if len(data) < len(HEADER):
        raise DecodeError("snappy header cut off")
    pos = len(HEADER)
    while pos < len(data):
        end = pos + 4 + int.from_bytes(data[pos : pos + 4], "big", signed=True)
        if not pos + 4 < end <= len(data):
            raise DecodeError(f"snappy block of {end - pos - 4} bytes, {len(data) - pos - 4} left")
        yield data[pos + 4 : end]
        pos = end
