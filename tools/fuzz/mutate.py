"""Mutations of requests. A mutation of the field tree stays well-formed; a mutation of the bytes may break it."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from typing import Any

import msgspec

from tools.fuzz.values import Maker
from wire.api import ApiKey
from wire.apis import APIS
from wire.declare import FrozenStruct
from wire.errors import DecodeError, EncodeError
from wire.frame import decode_request, encode_request
from wire.header import RequestHeader
from wire.messages.create_partitions import CreatePartitionsRequest
from wire.messages.create_topics import CreateTopicsRequest
from wire.messages.delete_topics import DeleteTopicsRequest
from wire.messages.unregister_broker import UnregisterBrokerRequest
from wire.schema import Field, fields_of

SIZE_BYTES, HEADER_BYTES = 4, 10
CLIENT_ID = "fuzz"
REPEATED = (2, 3, 100)
OWN_ID = 1
COORDINATED = {"__consumer_offsets", "__transaction_state"}
"""The topics of coordinators. Their partitions have tasks, which do not count as leaked."""
PARTITIONS_CHEAP, PARTITIONS_MAX = 20, 10_000
"""Valid partition counts between these numbers are not sent, since creating so many partitions takes too long."""
WORDS = [
    value.to_bytes(size, "big", signed=True)
    for size in (1, 2, 4, 8)
    for value in (0, 1, -1, -2, 2 ** (size * 8 - 1) - 1, -(2 ** (size * 8 - 1)))
]


def frame_of(maker: Maker, key: ApiKey, version: int) -> bytes:
    """Return the frame of a request without any mutation."""
    while True:
        try:
            return encode_request(maker.request(key, version), version, maker.dice.getrandbits(31), CLIENT_ID)
        except EncodeError:  # The version lacks a field that is not ignorable.
            continue


def mutated(maker: Maker, frame: bytes) -> bytes:
    """Return a mutation of a frame: another request, or bytes that are not a request."""
    dice = maker.dice
    for _ in range(dice.choice((1, 1, 2, 4))):
        frame = as_tree(maker, frame) if dice.random() < 0.5 else as_bytes(dice, frame)
    return frame


# ---- trees


def as_tree(maker: Maker, frame: bytes) -> bytes:
    """Replace one field of the request. If the frame does not decode, change its bytes instead."""
    try:
        header, request = decode_request(frame[SIZE_BYTES:])
    except DecodeError:
        return as_bytes(maker.dice, frame)
    places = list(places_of(request, header.version))
    if places:
        owner, field = maker.dice.choice(places)
        setattr(owner, field.name, another(maker, owner, field, header.version))
    return encoded(header, request) or frame


def places_of(owner: msgspec.Struct, version: int) -> Iterator[tuple[msgspec.Struct, Field]]:
    """Yield every field that the version has, in the message and its structs."""
    for field in fields_of(type(owner)):
        if version in field.versions:
            yield owner, field
            value = getattr(owner, field.name)
            for part in value if isinstance(value, list) else (value,):
                if isinstance(part, msgspec.Struct) and not isinstance(part, FrozenStruct):
                    yield from places_of(part, version)


def another(maker: Maker, owner: msgspec.Struct, field: Field, version: int) -> Any:
    """Return a shortened, reordered or repeated list, or any new value."""
    value = getattr(owner, field.name)
    if isinstance(value, list) and value and maker.dice.random() < 0.6:
        match maker.dice.randrange(4):
            case 0:
                return value[:-1]
            case 1:
                return value[::-1]
            case 2:
                return value * maker.dice.choice(REPEATED)
        return [*value, maker.dice.choice(value)]
    return maker.value(field, version, type(owner).__name__)


def encoded(header: RequestHeader, request: Any) -> bytes | None:
    """Return the encoded request, or None if the version cannot encode its values."""
    try:
        return encode_request(request, header.version, header.correlation_id, header.client_id)
    except EncodeError:
        return None


# ---- bytes


def as_bytes(dice: random.Random, frame: bytes) -> bytes:
    """Change a few bytes. The size field usually stays correct."""
    body = bytearray(frame[SIZE_BYTES:])
    at = dice.randrange(len(body)) if body else 0
    match dice.randrange(6):
        case 0 if body:
            body[at] ^= 1 << dice.randrange(8)
        case 1:
            word = dice.choice(WORDS)
            body[at : at + len(word)] = word
        case 2:
            del body[at:]
        case 3:
            del body[at : at + dice.randint(1, 8)]
        case 4:
            body[at:at] = dice.randbytes(dice.randint(1, 8))
        case _:
            body += body[at : at + dice.randint(1, 60)]
    size = len(body) if dice.random() < 0.95 else dice.choice((0, -1, len(body) - 1, len(body) + 1, 2**31 - 1))
    return struct.pack(">i", size) + bytes(body)


def costly(data: bytes) -> bool:
    """Whether a valid request would take too long for the fuzzer, or stop the broker."""
    return any(map(costs, frames(data)))


def costs(frame: bytes) -> bool:
    """Whether one request is `costly`."""
    try:
        _, request = decode_request(frame)
    except DecodeError:
        return False
    counts: list[int] = []
    match request:
        case CreateTopicsRequest():
            counts = [topic.num_partitions for topic in request.topics]
        case CreatePartitionsRequest():
            counts = [PARTITIONS_MAX if topic.name in COORDINATED else topic.count for topic in request.topics]
        case DeleteTopicsRequest():
            return bool(COORDINATED & {*request.topic_names, *(topic.name for topic in request.topics)})
        case UnregisterBrokerRequest():
            return request.broker_id == OWN_ID
    return any(PARTITIONS_CHEAP < count <= PARTITIONS_MAX for count in counts)


def frames(data: bytes) -> list[bytes]:
    """Return the complete frames, without their size fields."""
    found = []
    while len(data) >= SIZE_BYTES:
        end = SIZE_BYTES + max(0, struct.unpack_from(">i", data)[0])
        if end > len(data):
            break
        found.append(data[SIZE_BYTES:end])
        data = data[end:]
    return found


def api_of(frame: bytes) -> tuple[int, int, int] | None:
    """Return the API key, version and correlation id in the header of a complete frame."""
    if len(frame) < SIZE_BYTES + HEADER_BYTES:
        return None
    key, version, correlation_id = struct.unpack_from(">hhi", frame, SIZE_BYTES)
    return (key, version, correlation_id) if key in APIS else None
