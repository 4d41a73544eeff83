"""Tests of the codecs compiled from declarations: versions, nulls, tagged fields, and invalid values."""

from collections.abc import Callable, Generator
from functools import partial
from typing import Annotated, Any, ClassVar

import pytest
from msgspec import field

from wire.compile import decoder, encoder, stepwise_decoder, stepwise_encoder
from wire.declare import (
    NIL,
    UUID,
    AnyRecords,
    Bool,
    Buffer,
    Float64,
    FrozenStruct,
    Int8,
    Int16,
    Int32,
    Message,
    Records,
    Request,
    Stored,
    StoredPart,
    Struct,
    UInt16,
    UInt32,
    V,
)
from wire.errors import DecodeError, EncodeError


def encode(message: Message, version: int) -> str:
    out: list[Any] = []
    encoder(type(message), version)(message, out)
    in_steps: list[Any] = []
    for _ in stepwise_encoder(type(message), version)(message, in_steps):
        pass
    assert in_steps == out
    return b"".join(out).hex(" ")


def decode(cls: type[Message], version: int, text: str) -> Any:
    data = bytes.fromhex(text)
    try:
        return decoder(cls, version)(data, 0, len(data))
    finally:
        assert_same_in_steps(cls, version, data)


def assert_same_in_steps(cls: type[Message], version: int, data: bytes) -> None:
    outcomes: list[Any] = []
    for decode_whole in (decoder(cls, version), partial(in_steps, stepwise_decoder(cls, version))):
        try:
            outcomes.append(decode_whole(data, 0, len(data)))
        except DecodeError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


def in_steps(decode: Callable[..., Generator[None, None, Any]], *arguments: Any) -> Any:
    steps = decode(*arguments)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


class Point(FrozenStruct, frozen=True):
    x: Int8 = -1
    y: Int8 = -1


class Item(Struct):
    name: str = ""
    since: Annotated[Int8, V("1+")] = 5


class Mixed(Request[Any]):
    """A message whose version 0 is not flexible and whose versions 1 and 2 are."""

    versions: ClassVar = "0-2"
    flexible: ClassVar = "1+"

    flag: Bool = False
    port: UInt16 = 0
    crc: UInt32 = 0
    share: Float64 = 0.0
    id: UUID = NIL
    note: Annotated[str | None, V(nullable="1+")] = ""
    data: Annotated[bytes | None, V(nullable="0+")] = None
    items: Annotated[list[Item] | None, V(nullable="0+")] = []
    numbers: list[Int16] = []
    ids: list[UUID] = []
    point: Annotated[Point | None, V("1+", nullable="1+", ignorable=True)] = None
    records: Annotated[Records, V("2+", nullable="2+")] = None
    limit: Annotated[Int32, V("1+", tag=1)] = 10
    names: Annotated[list[str], V("1+", tag=0)] = []
    corner: Annotated[Point, V("1+", tag=3)] = Point()


def test_a_version_without_tagged_fields_has_the_declared_layout() -> None:
    message = Mixed(True, 65535, 2**32 - 1, 1.0, bytes(range(16)), "a", b"bc", [Item("d")], [1, -1], [NIL], Point(1, 2))
    text = (
        "01 ffff ffffffff 3ff0000000000000 000102030405060708090a0b0c0d0e0f 0001 61 00000002 6263 "
        "00000001 0001 64 00000002 0001 ffff 00000001 00000000000000000000000000000000"
    )
    assert encode(message, 0).replace(" ", "") == text.replace(" ", "")
    message.point = None  # The field is ignorable, so it is dropped if the version lacks it.
    assert decode(Mixed, 0, text) == message


def test_a_flexible_version_has_the_declared_layout() -> None:
    message = Mixed(
        note=None,
        data=b"bc",
        items=[Item("d", 9)],
        numbers=[1],
        point=Point(1, 2),
        records=b"rr",
        limit=11,
        names=["n"],
        corner=Point(3, 4),
    )
    text = (
        "00 0000 00000000 0000000000000000 00000000000000000000000000000000 00 03 6263 02 02 64 09 00 02 0001 01 "
        "01 0102 00 03 7272 03 00 03 02 02 6e 01 04 0000000b 03 03 0304 00"
    )
    assert encode(message, 2).replace(" ", "") == text.replace(" ", "")
    assert decode(Mixed, 2, text) == message


def test_null_fields_are_encoded_where_allowed() -> None:
    message = Mixed(note=None, data=None, items=None, point=None, records=None)
    for version in 1, 2:
        assert decode(Mixed, version, encode(message, version)) == message
    with pytest.raises(EncodeError, match="Mixed v0"):
        encode(message, 0)  # The field note may be null from version 1 on.


@pytest.mark.parametrize(
    "text",
    [
        "00 0000 00000000 0000000000000000 00000000000000000000000000000000 ffff",
        "00 0000 00000000 0000000000000000 00000000000000000000000000000000 0000 ffffffff ffffffff ffffffff",
    ],
    ids=["string", "array"],
)
def test_null_is_refused_where_it_is_not_allowed(text: str) -> None:
    with pytest.raises(DecodeError, match="Mixed v0"):
        decode(Mixed, 0, text + "00" * 8)


def test_default_lists_are_new_and_frozen_defaults_are_shared() -> None:
    text = encode(Mixed(), 1)
    one, other = decode(Mixed, 1, text), decode(Mixed, 1, text)
    one.names.append("x")
    one.items.append(Item())
    assert (other.names, other.items, Mixed().names) == ([], [], [])
    assert one.corner is other.corner
    with pytest.raises(AttributeError):
        one.corner.x = 1


@pytest.mark.parametrize(
    ("change", "versions"),
    [
        ({"records": b"r"}, {2}),
        ({"limit": 11}, {1, 2}),
        ({"names": ["n"]}, {1, 2}),
        ({"corner": Point(1, 1)}, {1, 2}),
        ({"corner": Point()}, {0, 1, 2}),
        ({"point": Point(1, 1)}, {0, 1, 2}),
        ({"items": [Item("x", 6)]}, {1, 2}),
        ({"items": [Item("x", 5)]}, {0, 1, 2}),
        ({"port": -1}, set()),
        ({"port": 65536}, set()),
        ({"crc": 2**32}, set()),
        ({"flag": 1}, {0, 1, 2}),
        ({"id": b"short"}, set()),
        ({"id": None}, set()),
        ({"ids": [bytes(15), bytes(17)]}, set()),
        ({"numbers": [1 << 15]}, set()),
        ({"numbers": None}, set()),
        ({"note": "x" * 32_767}, {0, 1, 2}),
        ({"note": "x" * 32_768}, set()),
        ({"note": "\ud800"}, set()),
        ({"note": b"bytes"}, set()),
        ({"items": [None]}, set()),
        ({"corner": None}, set()),
        ({"point": 1}, {0}),
    ],
)
def test_a_value_that_the_version_lacks_is_dropped_or_refused(change: dict[str, Any], versions: set[int]) -> None:
    message = Mixed(**change)
    for version in range(3):
        out: list[Any] = [b"before"]
        if version in versions:
            encoder(Mixed, version)(message, out)
            assert len(out) > 1
        else:
            with pytest.raises(EncodeError, match=f"Mixed v{version}"):
                encoder(Mixed, version)(message, out)
            assert out == [b"before"]


def test_strings_that_are_too_long_or_not_utf_8_are_refused() -> None:
    head = "00" * 31
    assert decode(Mixed, 1, head + "80 80 02" + "61" * 32_767 + "00 01 01 01 ff 00").note == "a" * 32_767
    for note in "81 80 02" + "61" * 32_768, "03 c3 28", "04 ed a0 80":
        with pytest.raises(DecodeError, match="Mixed v1"):
            decode(Mixed, 1, head + note + "00 01 01 01 ff 00")


@pytest.mark.parametrize(
    ("tags", "names", "limit"),
    [
        ("00", [], 10),
        ("01 01 04 0000000b", [], 11),
        ("02 00 03 02 02 6e 01 04 0000000b", ["n"], 11),
        ("02 01 04 0000000b 00 03 02 02 6e", ["n"], 11),  # Kafka accepts any order
        ("02 01 04 0000000b 01 04 0000000c", [], 12),  # Kafka accepts a repeated tag
        ("02 63 02 ffff 01 04 0000000b", [], 11),  # an unknown tag
        ("01 ff ff ff ff 0f 00", [], 10),
        ("81 00 63 00", [], 10),  # a count that is encoded in too many bytes
    ],
)
def test_tagged_fields_are_decoded(tags: str, names: list[str], limit: int) -> None:
    message = decode(Mixed, 1, "00" * 31 + "01 00 01 01 01 ff" + tags)
    assert (message.names, message.limit) == (names, limit)


@pytest.mark.parametrize(
    "tags",
    [
        "01 01 03 0000000b",
        "01 01 05 0000000b 00",
        "01 00 04 02 02 6e 00",
        "01 01 04 0000",
        "02 01 04 0000000b",
        "01",
        "01 63 05 00",
        "01 63 ff ff ff ff ff 0f",
        "ff ff ff ff 0f",
        "01 03 02 0101 00 00",
    ],
)
def test_malformed_tag_sections_are_refused(tags: str) -> None:
    with pytest.raises(DecodeError, match="Mixed v1"):
        decode(Mixed, 1, "00" * 31 + "01 00 01 01 01 ff" + tags)


class KeptPart(StoredPart):
    n: Int8 = 0
    t: Annotated[Int8, V(tag=1)] = 0


class Kept(Stored):
    versions: ClassVar = "0"
    flexible: ClassVar = "0+"

    parts: list[KeptPart] = []
    inner: KeptPart = field(default_factory=KeptPart)
    maybe: Annotated[KeptPart | None, V(nullable="0+", tag=4)] = None


class Tagged(Stored):
    versions: ClassVar = "0"
    flexible: ClassVar = "0+"

    part: Annotated[KeptPart | None, V(nullable="0+", tag=0)] = field(default_factory=KeptPart)
    more: Annotated[list[Int8] | None, V(nullable="0+", tag=1)] = []


class Exact(Stored):
    versions: ClassVar = "0"
    flexible: ClassVar = "0+"
    exact: ClassVar = True


def test_stored_messages_keep_unknown_tagged_fields() -> None:
    text = "02 01 02 01 01 09 07 02 abcd 02 00 02 04 05 01 03 01 08 00 05 00"
    message = decode(Kept, 0, text)
    assert message.parts[0] == KeptPart(1, 9, unknown_tags={7: b"\xab\xcd"})
    assert (message.inner, message.unknown_tags) == (KeptPart(2), {5: b""})
    assert message.maybe.unknown_tags == {8: b""}
    assert encode(message, 0).replace(" ", "") == text.replace(" ", "")


@pytest.mark.parametrize(
    ("part", "text"), [(KeptPart(), "00"), (None, "01 00 01 00"), (KeptPart(5), "01 00 03 01 05 00")]
)
def test_a_struct_in_a_tagged_field_has_its_own_null_marker(part: KeptPart | None, text: str) -> None:
    """The marker in a tagged field is 1, or 0 for null. Elsewhere it is 1, or -1 for null."""
    assert decode(Tagged, 0, text) == Tagged(part)
    assert encode(Tagged(part), 0) == text


@pytest.mark.parametrize(("more", "text"), [([], "00"), (None, "01 01 01 00"), ([5], "01 01 02 02 05")])
def test_null_and_an_empty_list_are_different_values(more: list[int] | None, text: str) -> None:
    assert decode(Tagged, 0, text) == Tagged(more=more)
    assert encode(Tagged(more=more), 0) == text


def test_each_decoded_message_has_its_own_structs() -> None:
    one, other = Kept(), decode(Kept, 0, "01 00 00 00")
    assert one.inner is not Kept().inner
    assert one.inner is not other.inner


def test_requests_skip_unknown_tagged_fields() -> None:
    plain = encode(Mixed(), 1)
    assert encode(decode(Mixed, 1, plain[:-2] + "01 63 02 abcd"), 1) == plain


def test_bytes_after_a_message_are_ignored_unless_the_message_is_declared_exact() -> None:
    assert decode(Kept, 0, "01 00 00 00 ff") == Kept()
    assert decode(Exact, 0, "00") == Exact()
    with pytest.raises(DecodeError, match="Exact v0"):
        decode(Exact, 0, "00 00")


class Carrier(Request[Any]):
    versions: ClassVar = "0-1"
    flexible: ClassVar = "1+"

    records: Annotated[AnyRecords, V(nullable="0+")] = None
    after: Int8 = 0


class Slice:
    """A double of a part of a file, which only the socket can read."""

    def __len__(self) -> int:
        return 300


@pytest.mark.parametrize("version", [0, 1])
def test_records_are_encoded_without_a_copy(version: int) -> None:
    records: Any
    for records in b"r" * 300, bytearray(300), memoryview(b"r" * 300), Slice():
        out: list[Any] = []
        encoder(Carrier, version)(Carrier(records, 1), out)
        assert any(buffer is records for buffer in out)
        assert b"".join(buffer for buffer in out if buffer is not records)[: 4 - 2 * version].endswith(
            b"\x01\x2c" if version == 0 else b"\xad\x02"
        )


@pytest.mark.parametrize("size", [0, 100, 20_000])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_decoded_records_are_views_if_large_or_if_the_buffer_is_a_view(size: int, kind: type[Buffer]) -> None:
    frame = kind(bytes.fromhex(encode(Carrier(b"r" * size, 1), 0)))
    records = decoder(Carrier, 0)(frame, 0, len(frame)).records
    assert records == b"r" * size
    assert isinstance(records, bytes if kind is bytes and size < 16_384 else memoryview)


def test_an_unknown_version_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="Mixed has no version 3"):
        decoder(Mixed, 3)
    with pytest.raises(ValueError, match="Mixed has no version -1"):
        encoder(Mixed, -1)


def test_each_codec_is_compiled_once() -> None:
    assert decoder(Mixed, 1) is decoder(Mixed, 1)
    assert encoder(Mixed, 1) is encoder(Mixed, 1)
