"""Tests of unsigned varints, which are encoded in as few bytes as possible, as in Kafka."""

from __future__ import annotations

import pytest

from wire.errors import DecodeError
from wire.varint import SMALL_MAX, read_uvarint, uvarint


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (1, "01"),
        (126, "7e"),
        (127, "7f"),
        (128, "8001"),
        (SMALL_MAX - 1, "ff07"),
        (SMALL_MAX, "8008"),
        (2**14 - 1, "ff7f"),
        (2**14, "808001"),
        (2**21 - 1, "ffff7f"),
        (2**21, "80808001"),
        (2**31 - 1, "ffffffff07"),
    ],
)
def test_the_smallest_and_the_largest_number_of_each_encoded_length_are_encoded(value: int, encoded: str) -> None:
    data = bytes.fromhex(encoded)
    assert uvarint(value) == data
    assert read_uvarint(b"x" + data + b"x", 1) == (value, 1 + len(data))


@pytest.mark.parametrize("encoded", ["ff00", "ff8000", "ff80808000"])
def test_a_varint_with_too_many_bytes_is_decoded(encoded: str) -> None:
    assert read_uvarint(bytes.fromhex(encoded), 0) == (127, len(encoded) // 2)


def test_a_varint_of_more_than_five_bytes_is_refused() -> None:
    with pytest.raises(DecodeError, match="more than 5 bytes"):
        read_uvarint(bytes.fromhex("ff8080808000"), 0)
