"""The compression codecs of record batches.

Decompression needs at most `bytes_max` bytes of memory, even for a decompression bomb. gzip is inflated piece by piece.
In the other formats, headers limit the decompressed size. The data is decompressed into a buffer of that size, but
never of more than `bytes_max` bytes. The library cramjam takes 7 ms to import, so it is imported when a batch first
needs it.
"""

import zlib
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

from wire.declare import Buffer
from wire.errors import DecodeError, EncodeError

_GZIP_FORMAT = 31  # the value with which zlib expects a gzip header and the largest window
_INPUT_BYTES = 16 * 1024  # small, because zlib copies the unused rest of each piece
_OUTPUT_BYTES = 256 * 1024
_LZ4_FAST = 0


class Codec(IntEnum):
    """The compression codec of a batch: bits 0-2 of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


LEVELS: Final = {Codec.GZIP: range(1, 10), Codec.LZ4: range(1, 18), Codec.ZSTD: range(-131072, 23)}
LEVEL_DEFAULT: Final = {Codec.GZIP: -1, Codec.LZ4: 9, Codec.ZSTD: 3}


class TooLarge(DecodeError):
    """An error for data that decompresses to more than the caller allows, or may do so according to its headers."""


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Return the compressed data.

    `level` is the value of `compression.<codec>.level` (KIP-390), or None for Kafka's default.
    """
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
    """Return the decompressed data, or the same data if it is not compressed.

    Raise TooLarge if the result has more than `bytes_max` bytes. Raise DecodeError if the data is damaged.
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
    """Return the valid compression level, or the default for None. Raise EncodeError if the codec has no such level."""
    default = LEVEL_DEFAULT.get(codec)
    if level is None or default is None:
        return default or 0
    if level != default and level not in LEVELS[codec]:
        raise EncodeError(f"{codec.name.lower()} has no level {level}")
    return level


def _compress_lz4(data: Buffer, level: int) -> bytes:
    """Return one frame of independent blocks, the only kind that Java reads.

    The default level is Java's fast compressor.
    """
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
    """Yield the decompressed content of all gzip members, in pieces of at most `_OUTPUT_BYTES`."""
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
    """Decompress lz4 or zstd frames."""
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
