"""Tests of decompression bombs. A separate process measures the memory that each bomb uses."""

import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from cramjam import lz4, snappy

from wire.records import xerial
from wire.records.compression import Codec

MIB = 1 << 20
BYTES_MAX = 16 * MIB
ZEROS = bytes(MIB)
TIMES = 300  # the decompressed size of a bomb in MiB
ROOT = Path(__file__).parents[4]

VICTIM = """
import resource, sys
from wire.records.compression import Codec, TooLarge, compress, decompress
from wire.errors import DecodeError

codec, bytes_max, data = Codec(int(sys.argv[1])), int(sys.argv[2]), sys.stdin.buffer.read()
decompress(codec, compress(codec, b"warm"), bytes_max)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(codec, data, bytes_max)
except DecodeError as error:
    print(type(error).__name__, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def zstd_block(kind: int, size: int, body: bytes, *, last: bool = False) -> bytes:
    return (size << 3 | kind << 1 | last).to_bytes(3, "little") + body


def zstd_repeated() -> bytes:
    """Return zstd blocks of one repeated byte, compressed 32,000 to 1, with the largest window that a
    frame may have.
    """
    header = struct.pack("<IBB", 0xFD2FB528, 0, 17 << 3)
    return header + zstd_block(1, 1 << 17, b"x") * (8 * TIMES) + zstd_block(0, 0, b"", last=True)


def zstd_window() -> bytes:
    settings = zstandard.ZstdCompressionParameters(window_log=27)
    stream = zstandard.ZstdCompressor(compression_params=settings).compressobj()
    return b"".join(stream.compress(ZEROS) for _ in range(TIMES)) + stream.flush()


def gzip_stream() -> bytes:
    stream = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join(stream.compress(ZEROS) for _ in range(TIMES)) + stream.flush()


def framed_snappy() -> bytes:
    block = bytes(snappy.compress_raw(ZEROS))
    return xerial.HEADER + (struct.pack(">i", len(block)) + block) * TIMES


BOMBS: list[tuple[Codec, Callable[[], bytes]]] = [
    (Codec.GZIP, gzip_stream),
    (Codec.GZIP, lambda: zlib.compress(ZEROS, 9, 31) * TIMES),
    (Codec.SNAPPY, framed_snappy),
    (Codec.SNAPPY, lambda: bytes(snappy.compress_raw(ZEROS * 32))),
    (Codec.LZ4, lambda: bytes(lz4.compress(ZEROS, level=1)) * TIMES),
    (Codec.LZ4, lambda: bytes(lz4.compress(ZEROS * 64, level=1))),
    (Codec.ZSTD, zstd_repeated),
    (Codec.ZSTD, zstd_window),
    (Codec.ZSTD, lambda: zstandard.compress(ZEROS) * TIMES),
]


@pytest.mark.parametrize(("codec", "bomb"), BOMBS)
def test_decompressing_a_bomb_uses_bounded_memory(codec: Codec, bomb: Callable[[], bytes]) -> None:
    """zstd may use twice the limit, because it keeps a window beside the output. The allocator adds a little."""
    victim = subprocess.run(
        [sys.executable, "-c", VICTIM, str(int(codec)), str(BYTES_MAX)],
        input=bomb(),
        capture_output=True,
        check=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    )
    error, grown_kib = victim.stdout.split()
    assert error == b"TooLarge"
    assert int(grown_kib) * 1024 <= (2 if codec is Codec.ZSTD else 1) * BYTES_MAX + 4 * MIB
