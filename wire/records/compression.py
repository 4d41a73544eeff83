"""The compression codecs of record batches.

Decompression needs at most `bytes_max` bytes of memory, even for a decompression bomb. gzip is inflated piece by piece.
In the other formats, headers limit the decompressed size. The data is decompressed into a buffer of that size, but
never of more than `bytes_max` bytes. The library cramjam takes 7 ms to import, so it is imported when a batch first
needs it.
"""

import zlib
from collections.abc import Iterator
from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import Any, Final

from wire.declare import Buffer
from wire.errors import DecodeError, EncodeError
from wire.records import frames

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


def room_for(codec: Codec, data: Buffer, enough: int) -> int:
    """Return the size to which `data` may decompress, without decompressing it: what its blocks claim.

    For gzip it is what the end of the data claims, which may be wrong. The blocks of data of more than `enough` bytes
    are not counted, since that might take long. Raise DecodeError if the blocks are damaged.
    """
    if codec is Codec.NONE or len(data) > enough:
        return len(data)
    if codec is Codec.GZIP:
        return max(len(data), int.from_bytes(data[-4:], "little"))
    if codec is Codec.SNAPPY:
        return int(_loaded("wire.records.xerial").claimed_bytes(data))
    return frames.lz4_room(data, enough) if codec is Codec.LZ4 else frames.zstd_room(data, enough)


def decompress(codec: Codec, data: Buffer, bytes_max: int, room: int | None = None) -> Buffer:
    """Return the decompressed data, or the same data if it is not compressed.

    `room` is what `room_for` has returned, if the caller knows it. Raise TooLarge if the result has more than
    `bytes_max` bytes. Raise DecodeError if the data is damaged.
    """
    if codec is Codec.NONE:
        return data
    if codec is Codec.GZIP:
        return _gunzip(data, bytes_max)
    if codec is Codec.SNAPPY:
        return _unsnap(data, bytes_max, room)
    return _unframe(codec, data, bytes_max, room)


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


def _unsnap(data: Buffer, bytes_max: int, room: int | None) -> Buffer:
    xerial = _loaded("wire.records.xerial")
    size = xerial.claimed_bytes(data) if room is None else room
    if size > bytes_max:
        raise TooLarge(f"snappy yields {size} bytes, more than {bytes_max}")
    output = bytearray(size)
    return memoryview(output)[: xerial.decompress_into(data, output)]


def _unframe(codec: Codec, data: Buffer, bytes_max: int, room: int | None) -> Buffer:
    """Decompress lz4 or zstd frames."""
    cramjam = _loaded("cramjam")
    if room is None:
        room = frames.lz4_room(data, bytes_max) if codec is Codec.LZ4 else frames.zstd_room(data, bytes_max)
    output = bytearray(min(room, bytes_max))
    try:
        size = (cramjam.lz4 if codec is Codec.LZ4 else cramjam.zstd).decompress_into(data, output)
    except cramjam.DecompressionError as error:
        if room > bytes_max:
            raise TooLarge(f"{codec.name.lower()} yields more than {bytes_max} bytes, or is damaged") from None
        raise DecodeError(f"{codec.name.lower()}: {error}") from None
    return memoryview(output)[:size]


@cache
def _loaded(name: str) -> Any:
    """Return a module, and import it for the first batch that needs it.

    An import statement takes as long as a small batch.
    """
    return import_module(name)
