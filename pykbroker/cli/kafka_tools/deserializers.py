"""Kafka's deserializers of the console consumer: the text that Java prints for the bytes of a key, value or header."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from math import isfinite, isnan

from pykbroker.cli.records.record_formats import without_nulls

ContentText = Callable[[bytes], bytes]

PACKAGE = "org.apache.kafka.common.serialization."
PLAIN_MIN, PLAIN_END = 1e-3, 1e7
"""Java prints floating-point numbers from PLAIN_MIN up to PLAIN_END without an exponent."""
DIGITS_MAX = 17
"""The digits that identify any number of 8 bytes."""


class InvalidContent(ValueError):
    """The error of bytes that a deserializer cannot read, as a sentence without a subject."""


def numbers(name: str, form: str, text: Callable[[float], str] = str) -> ContentText:
    """Return the deserializer of numbers, which `form` describes for the module struct."""
    packed = struct.Struct(form)

    def read(content: bytes) -> bytes:
        if len(content) != packed.size:
            size = "1 byte" if len(content) == 1 else f"{len(content)} bytes"
            raise InvalidContent(f"has {size}, and {name} reads {packed.size}")
        return text(packed.unpack(content)[0]).encode()

    return read


def double_text(number: float) -> str:
    """Return a number of 8 bytes as Java's Double.toString prints it."""
    return floating_text(number, lambda found: found)


def float_text(number: float) -> str:
    """Return a number of 4 bytes as Java's Float.toString prints it."""
    return floating_text(number, single)


def single(number: float) -> float:
    """Return the nearest number of 4 bytes."""
    try:
        return float(struct.unpack(">f", struct.pack(">f", number))[0])
    except OverflowError:
        return float("inf")


def floating_text(number: float, nearest: Callable[[float], float]) -> str:
    """Return the text with the fewest digits that identify a number, but at least two. `nearest` rounds to its type."""
    if not isfinite(number):
        return "NaN" if isnan(number) else "Infinity" if number > 0 else "-Infinity"
    texts = (f"{number:.{digits}e}" for digits in range(1, DIGITS_MAX))
    shortest = Decimal(next(text for text in texts if nearest(float(text)) == number)).normalize()
    if number == 0 or PLAIN_MIN <= abs(number) < PLAIN_END:
        text = f"{shortest:f}"
        return text if "." in text else f"{text}.0"
    mantissa, _, exponent = f"{shortest:E}".partition("E")
    return f"{mantissa if '.' in mantissa else f'{mantissa}.0'}E{int(exponent)}"


def boolean(content: bytes) -> bytes:
    """Return the text of a byte that is 0 or 1."""
    if content not in (b"\0", b"\1"):
        raise InvalidContent("is not one byte of 0 or 1, which BooleanDeserializer reads")
    return b"true" if content == b"\1" else b"false"


DESERIALIZERS: dict[str, ContentText | None] = {
    **dict.fromkeys(("StringDeserializer", "ByteArrayDeserializer", "BytesDeserializer", "UUIDDeserializer")),
    "LongDeserializer": numbers("LongDeserializer", ">q"),
    "IntegerDeserializer": numbers("IntegerDeserializer", ">i"),
    "ShortDeserializer": numbers("ShortDeserializer", ">h"),
    "DoubleDeserializer": numbers("DoubleDeserializer", ">d", double_text),
    "FloatDeserializer": numbers("FloatDeserializer", ">f", float_text),
    "BooleanDeserializer": boolean,
}
"""The deserializers of `PACKAGE`. None stands for those whose text is the bytes themselves."""


def deserialized(column: Sequence[bytes | None], deserialize: ContentText | None, null: bytes) -> Sequence[bytes]:
    """Return the texts of a column, with a text for null. InvalidContent: a deserializer cannot read the bytes."""
    if deserialize is None:
        return without_nulls(column, null)
    return [null if content is None else deserialize(bytes(content)) for content in column]
