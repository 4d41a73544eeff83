"""Tests of malformed bytes: decoding raises only DecodeError, and memory stays bounded, for every
message and version.
"""

import random
import tracemalloc
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

import pytest

from tests.unit.wire.filled import filled, filled_bytes
from tools.compare_schemas import declarations
from wire.compile import decoder, encoder
from wire.declare import REQUEST_ELEMENTS_MAX, Int8, Int32, Message, Request, Response, Struct, V
from wire.errors import DecodeError
from wire.messages.fetch import FetchRequest
from wire.messages.metadata import MetadataRequest
from wire.stored.consumer_protocol import ConsumerProtocolSubscription
from wire.stored.framing import decode_versioned
from wire.varint import uvarint
from wire.versions import parse_versions

DECLARED = declarations()


def codecs(cls: type[Message]) -> Iterator[tuple[int, Any]]:
    first, last = parse_versions(cls.versions)
    for version in range(first, last + 1):
        yield version, decoder(cls, version)


@pytest.mark.parametrize("name", DECLARED)
def test_complete_messages_are_decoded(name: str) -> None:
    for version, decode in codecs(DECLARED[name]):
        frame = filled_bytes(DECLARED[name], version)
        assert decode(frame, 0, len(frame)) == filled(DECLARED[name], version)


@pytest.mark.parametrize("name", DECLARED)
def test_an_incomplete_message_is_refused(name: str) -> None:
    for version, decode in codecs(DECLARED[name]):
        frame = filled_bytes(DECLARED[name], version)
        for size in range(len(frame)):
            for buf in frame[:size], frame:  # The rest is missing, or belongs to the next frame.
                with pytest.raises(DecodeError):
                    decode(buf, 0, size)


@pytest.mark.parametrize("name", DECLARED)
def test_a_changed_message_is_refused_or_decodes_to_a_message(name: str) -> None:
    cls = DECLARED[name]
    rng = random.Random(name)
    for version, decode in codecs(cls):
        encode = encoder(cls, version)
        for _ in range(60):
            frame = bytearray(filled_bytes(cls, version) or b"\0")
            for _ in range(rng.randint(1, 3)):
                frame[rng.randrange(len(frame))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
            try:
                message = decode(bytes(frame), 0, len(frame))
            except DecodeError:
                continue
            out: list[Any] = []
            encode(message, out)
            again = b"".join(out)
            assert decode(again, 0, len(again)) == message or "nan" in repr(message)


@pytest.mark.parametrize("name", DECLARED)
def test_random_bytes_are_refused_or_decode_to_a_message(name: str) -> None:
    rng = random.Random(name)
    for _, decode in codecs(DECLARED[name]):
        for size in 1, 10, 100:
            noise = rng.randbytes(size)
            try:
                message = decode(noise, 0, size)
            except DecodeError:
                continue
            assert isinstance(message, DECLARED[name])


class Inner(Struct):
    numbers: list[Int8] = []


class Outer(Request[Any]):
    versions: ClassVar = "0-1"
    flexible: ClassVar = "1+"

    inners: list[Inner] = []
    tagged: Annotated[Int32, V("1+", tag=0)] = 0


def outer(inners: int, numbers: int) -> bytes:
    """Return a message with `inners` structs, of which the first has `numbers` elements."""
    count = inners.to_bytes(4, "big")
    return count + numbers.to_bytes(4, "big") + bytes(numbers) + bytes(4 * (inners - 1))


@pytest.mark.parametrize(
    ("inners", "numbers", "fits"),
    [
        (1, REQUEST_ELEMENTS_MAX - 2, True),
        (1, REQUEST_ELEMENTS_MAX - 1, True),
        (1, REQUEST_ELEMENTS_MAX, False),
        (1000, REQUEST_ELEMENTS_MAX - 1000, True),
        (1000, REQUEST_ELEMENTS_MAX - 999, False),
        (REQUEST_ELEMENTS_MAX, 0, True),
        (REQUEST_ELEMENTS_MAX + 1, 0, False),
    ],
)
def test_the_elements_of_all_arrays_share_one_limit(inners: int, numbers: int, fits: bool) -> None:
    frame = outer(inners, numbers)
    if fits:
        message = decoder(Outer, 0)(frame, 0, len(frame))
        assert (len(message.inners), len(message.inners[0].numbers)) == (inners, numbers)
    else:
        with pytest.raises(DecodeError, match="count of"):
            decoder(Outer, 0)(frame, 0, len(frame))


@pytest.mark.parametrize(("tags", "fits"), [(REQUEST_ELEMENTS_MAX, True), (REQUEST_ELEMENTS_MAX + 1, False)])
@pytest.mark.parametrize("before", [b"\1", b"\2\1"], ids=["known beside", "all unknown"])
def test_unknown_tagged_fields_count_as_elements(tags: int, fits: bool, before: bytes) -> None:
    tags -= len(before) - 1  # The element of the array counts as well.
    section = uvarint(tags) + b"\5\0" * tags
    frame = before + section + (b"\0" if len(before) == 2 else b"")
    if fits:
        assert len(decoder(Outer, 1)(frame, 0, len(frame)).inners) == len(before) - 1
    else:
        with pytest.raises(DecodeError, match="count of tagged"):
            decoder(Outer, 1)(frame, 0, len(frame))


class Answer(Response):
    versions: ClassVar = "0"
    flexible: ClassVar = "none"

    numbers: list[Int8] = []


def test_the_element_limit_of_requests_applies_to_payloads_inside_them() -> None:
    topics = REQUEST_ELEMENTS_MAX + 1
    data = b"\0\0" + topics.to_bytes(4, "big") + bytes(2 * topics)
    with pytest.raises(DecodeError, match="count of topics"):
        decode_versioned(ConsumerProtocolSubscription, data)


def test_a_response_may_have_more_elements_than_a_request() -> None:
    size = REQUEST_ELEMENTS_MAX + 1
    frame = size.to_bytes(4, "big") + bytes(size)
    assert len(decoder(Answer, 0)(frame, 0, len(frame)).numbers) == size


@pytest.mark.parametrize(
    "frame",
    [
        bytes.fromhex("7fffffff"),
        bytes.fromhex("7fffffff") + bytes(100),
        bytes.fromhex("80000000"),
        bytes.fromhex("00000001 7fff 61"),
    ],
    ids=["claims 2 G elements", "claims more than it has", "negative", "a string that ends early"],
)
def test_a_claimed_array_length_allocates_no_memory(frame: bytes) -> None:
    decode = decoder(MetadataRequest, 0)
    tracemalloc.start()
    with pytest.raises(DecodeError):
        decode(frame, 0, len(frame))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000


@pytest.mark.timeout(240)  # Tracing memory takes seconds of CPU time.
def test_the_request_with_most_elements_uses_bounded_memory() -> None:
    """The worst case is an array of structs that have one byte each, an empty section of tagged fields."""
    frame = b"\0" * 4 + outer(REQUEST_ELEMENTS_MAX, 0)
    decode = decoder(Outer, 0)
    tracemalloc.start()
    decode(frame, 4, len(frame))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < REQUEST_ELEMENTS_MAX * 200


@pytest.mark.parametrize(
    ("version", "frame"),
    [
        (12, "8080808080"),  # a varint that never ends
        (12, "ffffffffffffffff01"),
        (12, "00" * 30 + "ff"),
        (4, "ff" * 17 + "7fffffff"),
    ],
)
def test_malformed_fetch_requests_are_refused(version: int, frame: str) -> None:
    data = bytes.fromhex(frame)
    with pytest.raises(DecodeError):
        decoder(FetchRequest, version)(data, 0, len(data))
