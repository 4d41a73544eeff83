"""Tests that the framing check refuses exactly what Kafka's readers refuse, as a running Kafka 4.3.1 showed."""

import gzip
import struct
from collections.abc import Callable

import pytest
import zstandard
from cramjam import lz4, snappy
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import DecodeError
from wire.records import xerial
from wire.records.compression import LEVELS, Codec, compress, decompress
from wire.records.framing import TooManyBlocks, check_framing

BLOCKS_MAX = 1000
TEXT = b"".join(b'{"id":%d,"name":"user-%d"}' % (n, n * 7919 % 10007) for n in range(9000))
SHORT = TEXT[:300]
COMPRESSED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
MAGIC = struct.pack("<I", 0x184D2204)
END = bytes(4)
SKIPPABLE = struct.pack("<II", 0x184D2A5F, 3) + b"abc"


def stored(content: bytes) -> bytes:
    """Return an lz4 block without compression."""
    return struct.pack("<I", len(content) | 1 << 31) + content


def frame(flags: int = 0x60, sizes: int = 0x40, body: bytes = stored(SHORT) + END, fields: bytes = b"") -> bytes:
    """Return an lz4 frame whose header checksum, which is not checked, is 0."""
    return MAGIC + bytes((flags, sizes)) + fields + b"\0" + body


def zstd(descriptor: int, fields: bytes) -> bytes:
    """Return a zstd frame with one uncompressed block."""
    block = (len(SHORT) << 3 | 1).to_bytes(3, "little") + SHORT
    return struct.pack("<IB", 0xFD2FB528, descriptor) + fields + block


def streamed_zstd(window_log: int) -> bytes:
    settings = zstandard.ZstdCompressionParameters.from_level(3, write_content_size=False, window_log=window_log)
    stream = zstandard.ZstdCompressor(compression_params=settings).compressobj()
    return stream.compress(TEXT) + stream.flush()


READ = {
    "lz4 with a content size": (Codec.LZ4, frame(0x68, fields=bytes(8))),
    "lz4 with block checksums": (Codec.LZ4, frame(0x70, body=stored(SHORT) + bytes(4) + END)),
    "lz4 with a content checksum": (Codec.LZ4, frame(0x64, body=stored(SHORT) + END + bytes(4))),
    "lz4 without blocks": (Codec.LZ4, frame(body=END)),
    **{f"lz4 with block size {sizes:#x}": (Codec.LZ4, frame(sizes=sizes)) for sizes in (0x40, 0x50, 0x60, 0x70)},
    "lz4 with a block of the maximum size": (Codec.LZ4, frame(body=stored(bytes(65536)) + END)),
    "lz4 with a stored block of one byte": (Codec.LZ4, frame(body=stored(b"a") + END)),
    "lz4 with a compressed block of two bytes": (Codec.LZ4, frame(body=struct.pack("<I", 2) + b"\x10a" + END)),
    "gzip of two members": (Codec.GZIP, gzip.compress(SHORT) + gzip.compress(SHORT)),
    "gzip without content": (Codec.GZIP, gzip.compress(b"")),
    "zstd of two frames": (Codec.ZSTD, zstandard.compress(SHORT) * 2),
    "zstd with skippable frames": (Codec.ZSTD, SKIPPABLE + zstandard.compress(SHORT) + SKIPPABLE),
    "zstd with a checksum": (Codec.ZSTD, zstandard.ZstdCompressor(write_checksum=True).compress(TEXT)),
    "zstd with a window of 1 KiB": (Codec.ZSTD, streamed_zstd(10)),
    "zstd with a window of 128 MiB": (Codec.ZSTD, streamed_zstd(27)),
    "zstd in a segment of 128 MiB": (Codec.ZSTD, zstd(0xE0, struct.pack("<Q", 1 << 27))),
    "zstd with dictionary 0": (Codec.ZSTD, zstd(1, b"\x88\0")),
    "zstd with an unused bit": (Codec.ZSTD, zstd(16, b"\x88")),
    "snappy without framing": (Codec.SNAPPY, bytes(snappy.compress_raw(TEXT))),
    "snappy of another version": (Codec.SNAPPY, xerial.HEADER[:8] + bytes(8) + compress(Codec.SNAPPY, TEXT)[16:]),
}
REFUSED = {
    "lz4 with linked blocks": (Codec.LZ4, bytes(lz4.compress(TEXT))),
    "lz4 with one linked block": (Codec.LZ4, frame(0x40)),
    "lz4 with a dictionary": (Codec.LZ4, frame(0x61, fields=bytes(4))),
    "lz4 with a reserved flag": (Codec.LZ4, frame(0x62)),
    "lz4 of version 0": (Codec.LZ4, frame(0x20)),
    "lz4 of version 2": (Codec.LZ4, frame(0xA0)),
    **{f"lz4 with block size {sizes:#x}": (Codec.LZ4, frame(sizes=sizes)) for sizes in (0, 0x30, 0x41, 0x48, 0xC0)},
    "lz4 of two frames": (Codec.LZ4, compress(Codec.LZ4, SHORT) * 2),
    "lz4 after an empty frame": (Codec.LZ4, compress(Codec.LZ4, b"") + compress(Codec.LZ4, SHORT)),
    "lz4 before an empty frame": (Codec.LZ4, compress(Codec.LZ4, SHORT) + compress(Codec.LZ4, b"")),
    "lz4 before one byte": (Codec.LZ4, compress(Codec.LZ4, SHORT) + b"\0"),
    "lz4 before a skippable frame": (Codec.LZ4, compress(Codec.LZ4, SHORT) + SKIPPABLE),
    "lz4 after a skippable frame": (Codec.LZ4, SKIPPABLE + compress(Codec.LZ4, SHORT)),
    "lz4 of a legacy frame": (Codec.LZ4, struct.pack("<I", 0x184C2102) + stored(SHORT)),
    "lz4 with an empty stored block": (Codec.LZ4, frame(body=stored(b"") + stored(SHORT) + END)),
    "lz4 with an empty compressed block": (Codec.LZ4, frame(body=b"\1\0\0\0\0" + stored(SHORT) + END)),
    "lz4 with a block above the maximum size": (Codec.LZ4, frame(body=stored(bytes(65537)) + END)),
    "lz4 without an end": (Codec.LZ4, frame(body=stored(SHORT))),
    "lz4 without its content checksum": (Codec.LZ4, frame(0x64)),
    "gzip without a header": (Codec.GZIP, gzip.compress(SHORT)[10:]),
    "gzip of another method": (Codec.GZIP, b"\x1f\x8b\x07" + gzip.compress(SHORT)[3:]),
    "gzip below its least size": (Codec.GZIP, gzip.compress(b"")[:-1]),
    "zstd with a window above 128 MiB": (Codec.ZSTD, zstd(0, b"\x89")),
    "zstd with a window of 256 MiB": (Codec.ZSTD, zstd(0, b"\x90")),
    "zstd in a segment above 128 MiB": (Codec.ZSTD, zstd(0xE0, struct.pack("<Q", (1 << 27) + 1))),
    "zstd with a dictionary": (Codec.ZSTD, zstd(1, b"\x88\5")),
    "zstd with a reserved bit": (Codec.ZSTD, zstd(8, b"\x88")),
    "zstd before one byte": (Codec.ZSTD, zstandard.compress(SHORT) + b"\0"),
    "zstd before an incomplete skippable frame": (Codec.ZSTD, zstandard.compress(SHORT) + SKIPPABLE[:-1]),
    "snappy with an empty block": (Codec.SNAPPY, compress(Codec.SNAPPY, TEXT) + bytes(4)),
    "snappy with an incomplete block": (Codec.SNAPPY, compress(Codec.SNAPPY, TEXT)[:-1]),
}


@pytest.mark.parametrize("name", READ)
def test_framing_that_kafka_reads_passes(name: str) -> None:
    check_framing(*READ[name], BLOCKS_MAX)


@pytest.mark.parametrize("name", REFUSED)
def test_framing_that_kafka_does_not_read_is_refused(name: str) -> None:
    with pytest.raises(DecodeError):
        check_framing(*REFUSED[name], BLOCKS_MAX)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_what_this_package_compresses_passes_at_every_level_and_size(codec: Codec) -> None:
    levels = LEVELS.get(codec, range(1))
    for level in (None, levels[0], levels[-1]):
        for size in (0, 1, 100, 32768, 65535, 65536, 65537, 131073, len(TEXT)):
            check_framing(codec, memoryview(compress(codec, TEXT[:size], level)), BLOCKS_MAX)


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
def test_every_truncation_is_refused(codec: Codec) -> None:
    data = compress(codec, TEXT)
    for size in range(0, len(data), 97):
        with pytest.raises(DecodeError):
            check_framing(codec, data[: size or 1], BLOCKS_MAX)


@pytest.mark.parametrize("codec", COMPRESSED)
@given(data=st.binary(max_size=300))
def test_random_bytes_raise_only_decode_error(codec: Codec, data: bytes) -> None:
    head = {Codec.GZIP: b"", Codec.SNAPPY: xerial.HEADER, Codec.LZ4: MAGIC + b"`@", Codec.ZSTD: b"\x28\xb5\x2f\xfd"}
    for each in (data, head[codec] + data):
        try:
            check_framing(codec, each, BLOCKS_MAX)
        except DecodeError:
            continue


@pytest.mark.parametrize(
    ("codec", "blocks"),
    [
        (Codec.LZ4, lambda count: frame(body=stored(b"a") * count + END)),
        (Codec.ZSTD, lambda count: zstandard.compress(SHORT) * count),
        (Codec.ZSTD, lambda count: SKIPPABLE * count),
        (Codec.SNAPPY, lambda count: xerial.HEADER + b"\0\0\0\1\0" * count),
    ],
)
def test_the_number_of_blocks_is_limited(codec: Codec, blocks: Callable[[int], bytes]) -> None:
    check_framing(codec, blocks(BLOCKS_MAX - 1), BLOCKS_MAX)
    check_framing(codec, blocks(BLOCKS_MAX), BLOCKS_MAX)
    with pytest.raises(TooManyBlocks):
        check_framing(codec, blocks(BLOCKS_MAX + 1), BLOCKS_MAX)


def test_stored_batches_with_such_framing_are_still_read() -> None:
    assert decompress(*REFUSED["lz4 with linked blocks"], len(TEXT)) == TEXT
    assert decompress(*REFUSED["lz4 of two frames"], len(TEXT)) == SHORT * 2
    assert decompress(*READ["zstd with skippable frames"], len(TEXT)) == SHORT
