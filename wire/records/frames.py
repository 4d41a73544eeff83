"""Upper bounds for the decompressed size of lz4 and zstd frames, computed from block headers without decompressing.

A frame need not declare its size, and a declared size may be wrong. Both formats consist of blocks of limited size, and
a block's header limits its content. Normal writers fill all blocks but the last of a frame, so the bound is usually
close to the content's size. Counting stops above `enough`. Several frames may follow each other. Source: the LZ4 frame
format 1.6.4, RFC 8878.
"""

from struct import Struct, error

from wire.declare import Buffer
from wire.errors import DecodeError

_U32 = Struct("<I")

_LZ4_MAGIC = 0x184D2204
_LZ4_RATIO_MAX = 255  # one byte of a length field adds at most this many bytes
_LZ4_STORED = 1 << 31

_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPABLE = 0x184D2A50  # the magic of a skippable frame, apart from its last four bits
_ZSTD_BLOCK_MAX = 1 << 17
_ZSTD_RAW, _ZSTD_RLE = 0, 1


def lz4_room(data: Buffer, enough: int) -> int:
    """Return an upper bound of the decompressed bytes of the lz4 frames in `data`.

    Raise DecodeError if the data is not lz4, or is incomplete.
    """
    room = pos = 0
    try:
        while pos < len(data) and room <= enough:
            pos, frame_room = _lz4_frame(data, pos, enough)
            room += frame_room
    except (error, IndexError):
        raise DecodeError(f"lz4 frame cut off at {len(data)} bytes") from None
    return room


def _lz4_frame(data: Buffer, pos: int, enough: int) -> tuple[int, int]:
    """Return the end of the frame at `pos`, and an upper bound of its decompressed bytes."""
    if _U32.unpack_from(data, pos)[0] != _LZ4_MAGIC:
        raise DecodeError("no lz4 frame")
    flags, block_max = data[pos + 4], 1 << 2 * (data[pos + 5] >> 4 & 7) + 8
    block_checksum, content_checksum = flags >> 2 & 4, flags & 4
    pos += 7 + (flags & 8) + (flags & 1) * 4  # content size i64, dictionary id i32
    room = 0
    while room <= enough:
        (size,) = _U32.unpack_from(data, pos)
        pos += 4
        if size == 0:
            return pos + content_checksum, room
        stored = size & (_LZ4_STORED - 1)
        room += stored if size & _LZ4_STORED else min(block_max, stored * _LZ4_RATIO_MAX)
        pos += stored + block_checksum
    return pos, room


def zstd_room(data: Buffer, enough: int) -> int:
    """Return an upper bound of the decompressed bytes of the zstd frames in `data`.

    Raise DecodeError if the data is not zstd, or is incomplete.
    """
    room = pos = 0
    try:
        while pos < len(data) and room <= enough:
            pos, frame_room = _zstd_frame(data, pos, enough)
            room += frame_room
    except (error, IndexError):
        raise DecodeError(f"zstd frame cut off at {len(data)} bytes") from None
    return room


def _zstd_frame(data: Buffer, pos: int, enough: int) -> tuple[int, int]:
    """Return the end of the frame at `pos`, and an upper bound of its decompressed bytes."""
    (magic,) = _U32.unpack_from(data, pos)
    if magic & ~15 == _ZSTD_SKIPPABLE:
        return pos + 8 + int(_U32.unpack_from(data, pos + 4)[0]), 0
    if magic != _ZSTD_MAGIC:
        raise DecodeError("no zstd frame")
    descriptor = data[pos + 4]
    pos += 5 + _zstd_header_rest(descriptor)
    room = last = 0
    while not last and room <= enough:
        header = data[pos] | data[pos + 1] << 8 | data[pos + 2] << 16
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        room += size if kind in (_ZSTD_RAW, _ZSTD_RLE) else _ZSTD_BLOCK_MAX
        pos += 3 + (1 if kind == _ZSTD_RLE else size)
    return pos + (descriptor & 4), room


def _zstd_header_rest(descriptor: int) -> int:
    """Return the size of the frame header after its descriptor: window, dictionary id, content size."""
    single_segment = descriptor >> 5 & 1
    window = 1 - single_segment
    dictionary_id = (0, 1, 2, 4)[descriptor & 3]
    content_size = (single_segment, 2, 4, 8)[descriptor >> 6]
    return window + dictionary_id + content_size
