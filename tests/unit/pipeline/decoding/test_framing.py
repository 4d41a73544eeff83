"""The framing of Confluent's serializers."""

from __future__ import annotations

import pytest

from pykbroker.pipeline.decoding.bad_record import BadRecord
from pykbroker.pipeline.decoding.framing import framed, unframed


def test_the_id_is_in_network_byte_order_behind_a_zero() -> None:
    assert framed(258, b"record") == b"\x00\x00\x00\x01\x02record"
    assert unframed(b"\x00\x00\x00\x01\x02record") == (258, b"record")
    assert unframed(framed(2**32 - 1, b"")) == (2**32 - 1, b"")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"", "the value has 0 bytes, fewer than the 5 of magic byte and schema id"),
        (b"\x00\x00\x00\x01", "the value has 4 bytes"),
        (b'{"id": 5}', "the value begins with the byte 123, not with the magic byte 0"),
        (b"\xff\x00\x00\x00\x01", "the value begins with the byte 255"),
    ],
)
def test_a_value_without_the_framing_is_bad(value: bytes, message: str) -> None:
    with pytest.raises(BadRecord, match=message):
        unframed(value)
