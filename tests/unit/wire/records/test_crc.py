"""Tests of CRC-32C, compared with published check values."""

import pytest

from wire.declare import Buffer
from wire.records.crc import crc32c


@pytest.mark.parametrize(
    ("data", "checksum"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),  # RFC 3720, B.4
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_checksums_equal_the_published_check_values(data: bytes, checksum: int, kind: type[Buffer]) -> None:
    assert crc32c(kind(data)) == checksum
    assert crc32c(kind(b"skipped" + data), 7) == checksum
