"""The requirements of Kafka's readers on the framing of compressed records, checked without decompressing them.

The codecs of this package read more than Kafka's: for example lz4 with linked blocks, which python-lz4 and cramjam
write by default. Apache Kafka refuses such a batch, and a Java consumer would never get past it, so a broker checks
what producers send. Batches that are already stored are read as they are. Sources: Kafka's Lz4BlockInputStream,
zstd-jni, snappy-java, java.util.zip.GZIPInputStream.
"""

from collections.abc import Iterator
from struct import Struct, error

from wire.declare import Buffer
from wire.errors import DecodeError
from wire.records.compression import Codec

_U32 = Struct("<I")

_LZ4_HEAD = Struct("<IBB")
_LZ4_MAGIC = 0x184D2204
_LZ4_VERSION_1, _LZ4_INDEPENDENT = 0x40, 0x20
_LZ4_RESERVED, _LZ4_DICTIONARY = 2, 1
_LZ4_KIND = 0xC0 | _LZ4_INDEPENDENT | _LZ4_RESERVED | _LZ4_DICTIONARY
_LZ4_BLOCK_MAX = {0x40: 1 << 16, 0x50: 1 << 18, 0x60: 1 << 20, 0x70: 1 << 22}
_LZ4_STORED = 1 << 31

_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPABLE = 0x184D2A50  # the magic of a skippable frame, apart from its last four bits
_ZSTD_CHECKSUM, _ZSTD_RESERVED, _ZSTD_SINGLE_SEGMENT = 4, 8, 32
_ZSTD_WINDOW_MAX = 1 << 27
_ZSTD_RLE = 1

_GZIP_HEAD = b"\x1f\x8b\x08"  # magic, deflate
_GZIP_BYTES_MIN = 20  # the size of a member without content


class TooManyBlocks(DecodeError):
    """An error for data of more blocks than the caller allows."""


def check_framing(codec: Codec, data: Buffer, blocks_max: int) -> None:
    """Raise DecodeError if Kafka's readers refuse the framing of `data`, whatever its blocks contain.

    Raise TooManyBlocks if the data has more than `blocks_max` blocks. A block takes about 0.3 us.
    """
    match codec:
        case Codec.NONE:
            return
        case Codec.GZIP:
            if data[:3] != _GZIP_HEAD or len(data) < _GZIP_BYTES_MIN:
                raise DecodeError("no gzip member")
            return
        case Codec.SNAPPY:
            from wire.records import xerial  # this import loads cramjam

            blocks: Iterator[object] = xerial.claims(data)
        case Codec.LZ4:
            blocks = _lz4_blocks(data)
        case Codec.ZSTD:
            blocks = _zstd_blocks(data)
    try:
        for number, _ in enumerate(blocks):
            if number == blocks_max:
                raise TooManyBlocks(f"{codec.name.lower()} of more than {blocks_max} blocks")
    except (error, IndexError):
        raise DecodeError(f"{codec.name.lower()} cut off at {len(data)} bytes") from None


def _lz4_blocks(data: Buffer) -> Iterator[int]:
    """Yield the position of each block of the only frame.

    Kafka takes a block without content for the end of the stream, and never reads a second frame.
    """
    magic, flags, sizes = _LZ4_HEAD.unpack_from(data)
    if magic != _LZ4_MAGIC:
        raise DecodeError("no lz4 frame")
    if flags & _LZ4_KIND != _LZ4_VERSION_1 | _LZ4_INDEPENDENT:
        raise DecodeError(
            f"lz4 frame with flags {flags:#04x}: Kafka reads independent blocks of version 1 without a dictionary only"
        )
    block_max = _LZ4_BLOCK_MAX.get(sizes)
    if block_max is None:
        raise DecodeError(f"lz4 frame with unknown block size {sizes:#04x}")
    content_size, block_checksum, content_checksum = flags & 8, flags >> 2 & 4, flags & 4
    pos = 7 + content_size
    while size := _U32.unpack_from(data, pos)[0]:
        yield pos
        held = size & (_LZ4_STORED - 1)
        if held > block_max or held < 1 + (size == held):  # one byte is the compressed form of no bytes
            raise DecodeError(f"lz4 block of {held} bytes in a frame with blocks of up to {block_max}")
        pos += 4 + held + block_checksum
    if pos + 4 + content_checksum != len(data):
        raise DecodeError(f"lz4 frame ends at byte {pos + 4 + content_checksum} of {len(data)}")


def _zstd_blocks(data: Buffer) -> Iterator[int]:
    """Yield the position of each block and each skippable frame, in all frames."""
    pos = 0
    while pos < len(data):
        (magic,) = _U32.unpack_from(data, pos)
        if magic & ~15 == _ZSTD_SKIPPABLE:
            yield pos
            pos += 8 + _U32.unpack_from(data, pos + 4)[0]
            continue
        if magic != _ZSTD_MAGIC:
            raise DecodeError("no zstd frame")
        descriptor = data[pos + 4]
        pos = _after_zstd_header(data, pos + 5, descriptor)
        last = 0
        while not last:
            yield pos
            header = data[pos] | data[pos + 1] << 8 | data[pos + 2] << 16
            last, kind, size = header & 1, header >> 1 & 3, header >> 3
            pos += 3 + (1 if kind == _ZSTD_RLE else size)
        pos += descriptor & _ZSTD_CHECKSUM
    if pos != len(data):
        raise IndexError


def _after_zstd_header(data: Buffer, pos: int, descriptor: int) -> int:
    """Return the end of the frame header whose fields after the descriptor begin at `pos`."""
    if descriptor & _ZSTD_RESERVED:
        raise DecodeError("zstd frame with a reserved bit")
    is_single = descriptor & _ZSTD_SINGLE_SEGMENT
    window = 0
    if not is_single:
        base = 1 << 10 + (data[pos] >> 3)
        window = base + base // 8 * (data[pos] & 7)
        pos += 1
    dictionary, pos = _field(data, pos, (0, 1, 2, 4)[descriptor & 3])
    content, pos = _field(data, pos, (1 if is_single else 0, 2, 4, 8)[descriptor >> 6])
    if dictionary:
        raise DecodeError(f"zstd frame with dictionary {dictionary}")
    if max(window, content if is_single else 0) > _ZSTD_WINDOW_MAX:
        raise DecodeError(f"zstd frame with a window of more than {_ZSTD_WINDOW_MAX} bytes")
    return pos


def _field(data: Buffer, pos: int, size: int) -> tuple[int, int]:
    """Return the number of `size` bytes at `pos`, and its end."""
    return int.from_bytes(data[pos : pos + size], "little"), pos + size
