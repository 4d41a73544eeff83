"""Tests of the texts of deserializers. The expected ones were printed by Kafka 4.3.1."""

from __future__ import annotations

import struct

import pytest

from pykbroker.cli.kafka_tools.deserializers import DESERIALIZERS, InvalidContent, deserialized


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("LongDeserializer", struct.pack(">q", 2**63 - 1), b"9223372036854775807"),
        ("IntegerDeserializer", struct.pack(">i", -5), b"-5"),
        ("ShortDeserializer", struct.pack(">h", -5), b"-5"),
        ("BooleanDeserializer", b"\1", b"true"),
        ("BooleanDeserializer", b"\0", b"false"),
        ("UUIDDeserializer", b"123e4567-e89b-12d3-a456-426614174000", b"123e4567-e89b-12d3-a456-426614174000"),
        *(
            ("DoubleDeserializer", struct.pack(">d", number), text)
            for number, text in {
                1.0: b"1.0",
                0.1: b"0.1",
                1e7: b"1.0E7",
                1.5e10: b"1.5E10",
                1e-3: b"0.001",
                9.99e-4: b"9.99E-4",
                123456.789: b"123456.789",
                12345678.9: b"1.23456789E7",
                -0.0: b"-0.0",
                1e21: b"1.0E21",
                100.0: b"100.0",
                5e-324: b"4.9E-324",
                float("-inf"): b"-Infinity",
                float("nan"): b"NaN",
            }.items()
        ),
        *(
            ("FloatDeserializer", struct.pack(">f", number), text)
            for number, text in {
                0.1: b"0.1",
                123456.789: b"123456.79",
                3.4e38: b"3.4E38",
                16777216.0: b"1.6777216E7",
                1.4e-45: b"1.4E-45",
            }.items()
        ),
    ],
)
def test_bytes_have_the_text_that_java_prints(name: str, content: bytes, text: bytes) -> None:
    assert deserialized([content, None], DESERIALIZERS[name], b"null") == [text, b"null"]


@pytest.mark.parametrize("content", [b"", b"1234567", b"123456789"])
def test_bytes_of_another_size_are_no_number(content: bytes) -> None:
    with pytest.raises(InvalidContent, match="and LongDeserializer reads 8"):
        deserialized([content], DESERIALIZERS["LongDeserializer"], b"")
