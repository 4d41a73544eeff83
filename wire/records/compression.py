"""The codecs of record batches, and decompression that a bomb cannot use: memory is bounded by `bytes_max`.

gzip is inflated piece by piece. Of the others the compressed data tells beforehand how much it may yield; a buffer of
that room, but no more than the bound, is all that they can fill, whatever size their frames declare.
cramjam costs 7 ms to import, so it is loaded by the first batch that needs it.
"""

import zlib
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

from wire.declare import Buffer
from wire.errors import DecodeError, EncodeError

_GZIP_FORMAT = 31  # zlib's name for a gzip header and trailer around the largest window
_INPUT_BYTES = 16 * 1024  # zlib copies what it leaves over of a piece
_OUTPUT_BYTES = 256 * 1024
_LZ4_FAST = 0


class Codec(IntEnum):
    """How the records of a batch are compressed: bits 0-2 of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


LEVELS: Final = {Codec.GZIP: range(1, 10), Codec.LZ4: range(1, 18), Codec.ZSTD: range(-131072, 23)}
LEVEL_DEFAULT: Final = {Codec.GZIP: -1, Codec.LZ4: 9, Codec.ZSTD: 3}


class TooLarge(DecodeError):
    """Decompressed it is, or by its own headers may be, more than the caller allows."""


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """The data as `codec` stores it. `level` as in compression.<codec>.level (KIP-390); None is Kafka's default."""
    level = _level(codec, level)
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return zlib.compress(data, level, _GZIP_FORMAT)
        case Codec.SNAPPY:
            from wire.records import xerial

            return xerial.compress(data)
        case Codec.LZ4:
            return _compress_lz4(data, level)
        case Codec.ZSTD:
            from cramjam import zstd

            return bytes(zstd.compress(data, level))


def decompress(codec: Codec, data: Buffer, bytes_max: int) -> Buffer:
    """What `compress` was given; data that is not compressed comes back as it is.

    TooLarge: more than `bytes_max`. DecodeError: damaged.
    """
    match codec:
        case Codec.NONE:
            return data
        case Codec.GZIP:
            return _gunzip(data, bytes_max)
        case Codec.SNAPPY:
            return _unsnap(data, bytes_max)
        case Codec.LZ4 | Codec.ZSTD:
            return _unframe(codec, data, bytes_max)


def _level(codec: Codec, level: int | None) -> int:
    """The level to compress with; a codec without levels ignores it."""
    default = LEVEL_DEFAULT.get(codec)
    if level is None or default is None:
        return default or 0
    if level != default and level not in LEVELS[codec]:
        raise EncodeError(f"{codec.name.lower()} has no level {level}")
    return level


def _compress_lz4(data: Buffer, level: int) -> bytes:
    """One frame of independent blocks: Java reads no others. The default level is the fast compressor, as in Java."""
    from cramjam import lz4

    compressor = lz4.Compressor(_LZ4_FAST if level == LEVEL_DEFAULT[Codec.LZ4] else level, False, False)
    compressor.compress(bytes(data))
    return bytes(compressor.finish())


def _gunzip(data: Buffer, bytes_max: int) -> Buffer:
    output = bytearray()
    try:
        for piece in _inflated(memoryview(data)):
            output += piece
            if len(output) > bytes_max:
                raise TooLarge(f"gzip yields more than {bytes_max} bytes")
    except zlib.error as error:
        raise DecodeError(f"gzip: {error}") from None
    return memoryview(output)


def _inflated(data: memoryview) -> Iterator[bytes]:
    """The content of all gzip members, in pieces of at most `_OUTPUT_BYTES`."""
    member = zlib.decompressobj(_GZIP_FORMAT)
    for pos in range(0, len(data), _INPUT_BYTES):
        left: Buffer = data[pos : pos + _INPUT_BYTES]
        while left:
            if member.eof:
                member = zlib.decompressobj(_GZIP_FORMAT)
            yield member.decompress(left, _OUTPUT_BYTES)
            left = member.unused_data or member.unconsumed_tail
    while not member.eof:
        piece = member.decompress(b"", _OUTPUT_BYTES)
        if not piece:
            raise DecodeError(f"gzip cut off at {len(data)} bytes")
        yield piece


def _unsnap(data: Buffer, bytes_max: int) -> Buffer:
    from wire.records import xerial

    size = xerial.claimed_bytes(data)
    if size > bytes_max:
        raise TooLarge(f"snappy yields {size} bytes, more than {bytes_max}")
    output = bytearray(size)
    return memoryview(output)[: xerial.decompress_into(data, output)]


def _unframe(codec: Codec, data: Buffer, bytes_max: int) -> Buffer:
    """lz4 and zstd."""
    from cramjam import DecompressionError, lz4, zstd

    from wire.records import frames

    if codec is Codec.LZ4:
        room, decompress_into = frames.lz4_room(data, bytes_max), lz4.decompress_into
    else:
        room, decompress_into = frames.zstd_room(data, bytes_max), zstd.decompress_into
    output = bytearray(min(room, bytes_max))
    try:
        size = decompress_into(data, output)
    except DecompressionError as error:
        if room > bytes_max:
            raise TooLarge(f"{codec.name.lower()} yields more than {bytes_max} bytes, or is damaged") from None
        raise DecodeError(f"{codec.name.lower()}: {error}") from None
    return memoryview(output)[:size]
