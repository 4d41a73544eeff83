"""Tests of every codec: compressing and decompressing, the formats of other writers, damage, and bombs."""

import gzip
import random
import struct
import zlib
from collections.abc import Callable

import pytest
import zstandard
from cramjam import lz4, snappy
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import DecodeError, EncodeError
from wire.records import compression, frames, xerial
from wire.records.compression import LEVELS, Codec, TooLarge, compress, decompress

MIB = 1 << 20
TEXT = b"".join(b'{"id":%d,"name":"user-%d"}' % (n, n * 7919 % 10007) for n in range(6000))
COMPRESSED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


def sizes() -> list[int]:
    """Return sizes around the boundaries of blocks and pieces."""
    edges = (16 * 1024, 32 * 1024, 64 * 1024, 128 * 1024)
    return [0, 1, 2, 100, *(edge + by for edge in edges for by in (-1, 0, 1)), len(TEXT)]


@pytest.mark.parametrize("codec", Codec)
@given(data=st.binary(max_size=2000))
def test_decompressing_compressed_data_returns_the_data(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), len(data)) == data


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("content", [TEXT, bytes(len(TEXT)), random.Random(1).randbytes(len(TEXT))])
def test_data_around_block_sizes_is_unchanged_after_compression_and_decompression(codec: Codec, content: bytes) -> None:
    for size in sizes():
        data = content[:size]
        for source in (data, bytearray(data), memoryview(data)):
            assert decompress(codec, memoryview(compress(codec, source)), size) == data, size


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("content", [TEXT, bytes(len(TEXT)), random.Random(1).randbytes(len(TEXT))])
def test_decompression_is_refused_exactly_above_the_size_limit(codec: Codec, content: bytes) -> None:
    data = compress(codec, content)
    assert decompress(codec, data, len(content)) == content
    for less in (len(content) - 1, len(content) // 2, 1, 0):
        with pytest.raises(TooLarge):
            decompress(codec, data, less)


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        (codec, level)
        for codec, levels in LEVELS.items()
        for level in (levels[0], -1 if -1 in levels else 4, levels[-1])
    ],
)
def test_every_level_that_a_topic_config_allows_is_accepted(codec: Codec, level: int) -> None:
    assert decompress(codec, compress(codec, TEXT, level), len(TEXT)) == TEXT


def test_the_level_changes_the_size_and_the_default_level_is_kafkas() -> None:
    for codec, fast, strong in ((Codec.GZIP, 1, 9), (Codec.LZ4, 1, 12), (Codec.ZSTD, -50, 19)):
        assert len(compress(codec, TEXT, strong)) < len(compress(codec, TEXT, fast)), codec
    assert compress(Codec.GZIP, TEXT) == compress(Codec.GZIP, TEXT, -1) == compress(Codec.GZIP, TEXT, 6)
    assert compress(Codec.LZ4, TEXT) == compress(Codec.LZ4, TEXT, 9) == compress(Codec.LZ4, TEXT, 1)
    assert compress(Codec.ZSTD, TEXT) == compress(Codec.ZSTD, TEXT, 3)
    assert compress(Codec.SNAPPY, TEXT, 5) == compress(Codec.SNAPPY, TEXT)


@pytest.mark.parametrize(
    ("codec", "level"),
    [(Codec.GZIP, 0), (Codec.GZIP, 10), (Codec.LZ4, 0), (Codec.LZ4, 18), (Codec.ZSTD, 23), (Codec.ZSTD, -131073)],
)
def test_unknown_levels_are_refused(codec: Codec, level: int) -> None:
    with pytest.raises(EncodeError, match=str(level)):
        compress(codec, TEXT, level)


# ---- the formats of other writers


def streamed_zstd(data: bytes, **parameters: int) -> bytes:
    """Return a zstd frame as Java writes it, without a content size and with a window of constant size."""
    settings = zstandard.ZstdCompressionParameters.from_level(3, write_content_size=False, **parameters)
    stream = zstandard.ZstdCompressor(compression_params=settings).compressobj()
    return b"".join(stream.compress(data[pos : pos + 1000]) for pos in range(0, len(data), 1000)) + stream.flush()


def framed_lz4(block_id: int, blocks: list[bytes], flags: int = 0x60) -> bytes:
    """Return an lz4 frame of uncompressed blocks with an invalid header checksum, which `lz4_room` does not check."""
    body = b"".join(struct.pack("<I", len(block) | 1 << 31) + block for block in blocks)
    return struct.pack("<IBBB", 0x184D2204, flags, block_id << 4, 0) + body + bytes(4)


@pytest.mark.parametrize(
    ("codec", "foreign"),
    [
        (Codec.GZIP, gzip.compress),
        (Codec.GZIP, lambda data: gzip.compress(data[:999]) + gzip.compress(b"") + gzip.compress(data[999:])),
        (Codec.SNAPPY, lambda data: bytes(snappy.compress_raw(data))),
        (Codec.LZ4, lambda data: bytes(lz4.compress(data))),  # linked blocks and a content checksum
        (Codec.LZ4, lambda data: bytes(lz4.compress(data[:999])) + bytes(lz4.compress(data[999:]))),
        (Codec.ZSTD, zstandard.ZstdCompressor(write_checksum=True).compress),
        (Codec.ZSTD, streamed_zstd),
        (Codec.ZSTD, lambda data: streamed_zstd(data, window_log=27)),
        (Codec.ZSTD, lambda data: streamed_zstd(data[:999]) + zstandard.compress(data[999:])),
    ],
)
@pytest.mark.parametrize("content", [b"", b"x", TEXT[:1000], TEXT, bytes(300_000), random.Random(2).randbytes(300_000)])
def test_formats_of_other_writers_are_read(codec: Codec, foreign: Callable[[bytes], bytes], content: bytes) -> None:
    assert decompress(codec, foreign(content), len(content)) == content


def test_snappy_is_written_in_the_format_that_java_reads() -> None:
    data = compress(Codec.SNAPPY, TEXT)
    assert data[:16] == b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
    pos, content = 16, b""
    while pos < len(data):
        size = int.from_bytes(data[pos : pos + 4], "big")
        content += bytes(snappy.decompress_raw(data[pos + 4 : pos + 4 + size]))
        pos += 4 + size
    assert content == TEXT


def test_lz4_is_written_in_the_format_that_java_reads() -> None:
    data = compress(Codec.LZ4, TEXT)
    magic, flags, blocks = struct.unpack_from("<IBB", data)
    assert (magic, flags >> 6, flags >> 5 & 1, flags & 0b1111) == (0x184D2204, 1, 1, 0)  # version 1, independent blocks
    assert blocks == 4 << 4  # of 64 KiB


def test_the_zstd_library_reads_our_zstd() -> None:
    assert zstandard.decompress(compress(Codec.ZSTD, TEXT)) == TEXT


def test_the_gzip_library_reads_our_gzip() -> None:
    assert gzip.decompress(compress(Codec.GZIP, TEXT)) == TEXT


# ---- damage


SMALL = TEXT[:300] + bytes(300) + random.Random(3).randbytes(50)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_every_truncation_is_a_decode_error(codec: Codec) -> None:
    data = compress(codec, SMALL)
    whole_blocks = {16} if codec is Codec.SNAPPY else set()  # The header alone is an empty xerial stream.
    for size in set(range(len(data))) - whole_blocks:
        with pytest.raises(DecodeError):
            decompress(codec, data[:size], MIB)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_trailing_bytes_are_a_decode_error(codec: Codec) -> None:
    for rest in (b"\0", b"x", b"junk" * 10):
        with pytest.raises(DecodeError):
            decompress(codec, compress(codec, SMALL) + rest, MIB)


def survive(codec: Codec, data: bytes, bytes_max: int) -> None:
    """Decompress the data; fail on any exception except DecodeError, and on too much output."""
    try:
        content = decompress(codec, data, bytes_max)
    except DecodeError:
        return
    assert len(content) <= bytes_max


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_changed_byte_raises_only_decode_error(codec: Codec) -> None:
    forms = [compress(codec, SMALL)]
    forms += {
        Codec.SNAPPY: [bytes(snappy.compress_raw(SMALL))],
        Codec.LZ4: [bytes(lz4.compress(SMALL))],
        Codec.ZSTD: [streamed_zstd(SMALL)],
    }.get(codec, [])
    for data in forms:
        for at in range(len(data)):
            for value in (0, 1, 0x7F, 0x80, 0xFF, data[at] ^ 1, data[at] ^ 0x10):
                survive(codec, data[:at] + bytes([value]) + data[at + 1 :], len(SMALL))


@pytest.mark.parametrize("codec", COMPRESSED)
@given(seed=st.integers(0, 2**32), edits=st.integers(1, 8))
def test_random_mutations_raise_only_decode_error(codec: Codec, seed: int, edits: int) -> None:
    rng, data = random.Random(seed), bytearray(compress(codec, TEXT[:2000]))
    for _ in range(edits):
        at = rng.randrange(len(data))
        match rng.randrange(3):
            case 0:
                data[at] = rng.randrange(256)
            case 1:
                del data[at : at + rng.randrange(1, 9)]
            case _:
                data[at:at] = rng.randbytes(rng.randrange(1, 9))
        data = data or bytearray(1)
    survive(codec, bytes(data), 4000)


@pytest.mark.parametrize("codec", COMPRESSED)
@given(data=st.binary(max_size=300))
def test_random_bytes_raise_only_decode_error(codec: Codec, data: bytes) -> None:
    heads = {
        Codec.GZIP: b"\x1f\x8b\x08\0\0\0\0\0\0\xff",
        Codec.SNAPPY: xerial.HEADER,
        Codec.LZ4: b"\x04\x22\x4d\x18\x60\x40\x82",
        Codec.ZSTD: b"\x28\xb5\x2f\xfd",
    }
    survive(codec, data, 10_000)
    survive(codec, heads[codec] + data, 10_000)


# ---- wrong sizes


def test_zstd_frames_with_a_wrong_content_size_are_refused() -> None:
    honest = zstandard.compress(TEXT)  # a single segment with a content size of 4 bytes
    assert honest[4] >> 6 == 2
    for claim in (0, 1, len(TEXT) - 1, len(TEXT) + 1, 2**31, 2**32 - 1):
        with pytest.raises(DecodeError):
            decompress(Codec.ZSTD, honest[:5] + struct.pack("<I", claim) + honest[9:], len(TEXT))
    huge = b"\x28\xb5\x2f\xfd" + bytes([0xE0]) + struct.pack("<Q", 2**63) + b"\1\0\0"
    with pytest.raises(DecodeError):
        decompress(Codec.ZSTD, huge, MIB)


@pytest.mark.parametrize("claim", [0, 1, len(TEXT) - 1, len(TEXT) + 1, 22 * len(TEXT), 2**32 - 1])
def test_snappy_blocks_with_a_wrong_content_size_are_refused(claim: int) -> None:
    block = bytes(snappy.compress_raw(TEXT))
    prefix, honest = b"", len(TEXT)
    while honest:
        honest, block = honest >> 7, block[1:]
    while claim > 0x7F:
        prefix, claim = prefix + bytes([claim & 0x7F | 0x80]), claim >> 7
    lying = prefix + bytes([claim]) + block
    for data in (lying, xerial.HEADER + struct.pack(">i", len(lying)) + lying):
        with pytest.raises(DecodeError):
            decompress(Codec.SNAPPY, data, 64 * MIB)


@pytest.mark.parametrize("claim", [-(2**31), -1, 0, 1, 2**31 - 1])
def test_wrong_xerial_lengths_are_refused(claim: int) -> None:
    with pytest.raises(DecodeError):
        decompress(Codec.SNAPPY, xerial.HEADER + struct.pack(">i", claim) + bytes(snappy.compress_raw(TEXT)), MIB)


def test_a_snappy_block_that_claims_the_maximum_size_gets_no_buffer() -> None:
    with pytest.raises(DecodeError, match="claims"):
        decompress(Codec.SNAPPY, b"\x80\x80\x80\x08\0", 64 * MIB)


# ---- buffer sizes


def test_lz4_room_is_the_largest_decompressed_size_of_the_blocks() -> None:
    assert frames.lz4_room(framed_lz4(4, [b"a" * 10, b"b" * 7]), MIB) == 17
    assert frames.lz4_room(framed_lz4(4, [b"a" * 10]) * 3, MIB) == 30
    compressed = struct.pack("<IBBB", 0x184D2204, 0x60, 7 << 4, 0) + struct.pack("<I", 10) + bytes(10) + bytes(4)
    assert frames.lz4_room(compressed, MIB) == 2550  # No block of 4 MiB fits into ten bytes.
    assert frames.lz4_room(framed_lz4(4, [b"a" * 10] * 1000), 15) == 20  # Counting stops above `enough`.


def test_lz4_room_skips_optional_fields() -> None:
    header = struct.pack("<IBB", 0x184D2204, 0x60 | 0x10 | 8 | 4 | 1, 4 << 4) + bytes(8 + 4 + 1)
    frame = header + struct.pack("<I", 5 | 1 << 31) + bytes(5 + 4) + bytes(4 + 4)
    assert frames.lz4_room(frame * 2, MIB) == 10


@pytest.mark.parametrize(
    "form",
    [
        zstandard.compress,
        streamed_zstd,
        lambda data: streamed_zstd(data, window_log=27),
        zstandard.ZstdCompressor(write_checksum=True).compress,
    ],
)
def test_zstd_room_exceeds_the_content_by_less_than_a_block(form: Callable[[bytes], bytes]) -> None:
    for size in (0, 1, 255, 256, 65535, 65536, 131072, 131073, len(TEXT), 2 * MIB):
        data = form((TEXT * 20)[:size])
        assert size <= frames.zstd_room(data, 1 << 40) < size + (1 << 17), size
        assert frames.zstd_room(data * 3, 1 << 40) == 3 * frames.zstd_room(data, 1 << 40)


def test_gzip_is_decompressed_in_pieces() -> None:
    pieces = list(compression._inflated(memoryview(zlib.compress(bytes(4 * MIB), wbits=31))))
    assert sum(map(len, pieces)) == 4 * MIB
    assert max(map(len, pieces)) == 256 * 1024
