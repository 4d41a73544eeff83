"""Tests of zigzag varints: published examples, both ends of the range, and encodings that are too long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import DecodeError
from wire.records.zigzag import read_varint, read_varlong, varint


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (-2, "03"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (8191, "fe7f"),
        (-8192, "ff7f"),
        (8192, "808001"),
        (1023, "fe0f"),
        (1024, "8010"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_int32_values_have_the_published_encodings(value: int, encoded: str) -> None:
    data = bytes.fromhex(encoded)
    assert varint(value) == data
    assert read_varint(b"x" + data + b"x", 1) == (value, 1 + len(data))
    assert read_varlong(data, 0) == (value, len(data))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(2**63 - 1, "feffffffffffffffff01"), (-(2**63), "ffffffffffffffffff01"), (2**31, "8080808010")],
)
def test_int64_values_have_the_published_encodings(value: int, encoded: str) -> None:
    assert varint(value) == bytes.fromhex(encoded)
    assert read_varlong(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@given(st.integers(-(2**63), 2**63 - 1))
def test_an_encoded_number_decodes_to_the_same_number(value: int) -> None:
    data = varint(value)
    assert read_varlong(data, 0) == (value, len(data))
    for size in range(len(data)):
        with pytest.raises(IndexError):
            read_varlong(data[:size], 0)


@pytest.mark.parametrize("encoded", ["808080808000", "ffffffff1f", "8080808010", "ffffffffffff01"])
def test_an_int32_has_at_most_five_bytes_and_32_bits(encoded: str) -> None:
    with pytest.raises(DecodeError, match="32 bits"):
        read_varint(bytes.fromhex(encoded), 0)


@pytest.mark.parametrize("encoded", ["8080808080808080808000", "ffffffffffffffffff02"])
def test_an_int64_has_at_most_ten_bytes_and_64_bits(encoded: str) -> None:
    with pytest.raises(DecodeError, match="64 bits"):
        read_varlong(bytes.fromhex(encoded), 0)


def test_a_varint_with_too_many_bytes_is_decoded() -> None:
    assert read_varint(bytes.fromhex("8280808000"), 0) == (1, 5)
