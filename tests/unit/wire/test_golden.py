"""Tests with frames recorded between real clients and Apache Kafka 4.3.1: the same bytes and values in
both directions.
"""

import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.unit.wire.plain import plain, snaked
from wire.apis import APIS
from wire.compile import decoder, encoder
from wire.declare import Message
from wire.header import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)

GOLDEN = Path(__file__).parents[2] / "data/golden"


def lines(name: str) -> Iterator[Any]:
    with lzma.open(GOLDEN / name, "rt") as file:
        yield from map(json.loads, file)


def sides(pair: Any) -> Iterator[tuple[str, bytes, type[Message]]]:
    """Yield the frames of an exchange in an accepted version; Kafka closed the connection for other versions."""
    api = APIS[pair["api_key"]]
    if pair["version"] in api.accepted:
        yield "request", bytes.fromhex(pair["request_hex"]), api.request
        if pair["response_hex"]:
            yield "response", bytes.fromhex(pair["response_hex"]), api.response


def decode(side: str, frame: bytes, key: int, version: int) -> tuple[dict[str, Any], bytes, int]:
    """Return the decoded header, the header encoded again, and the position of the body."""
    if side == "request":
        header, pos = decode_request_header(frame, 0, len(frame))
        names = ("request_api_key", "request_api_version", "correlation_id", "client_id")
        return dict(zip(names, header, strict=True)), encode_request_header(header), pos
    correlation_id, pos = decode_response_header(frame, 0, len(frame), key, version)
    return {"correlation_id": correlation_id}, encode_response_header(key, version, correlation_id), pos


def test_recorded_frames_are_encoded_to_the_same_bytes() -> None:
    versions = set()
    for pair in lines("wire.jsonl.xz"):
        key, version = pair["api_key"], pair["version"]
        for side, frame, cls in sides(pair):
            _, header, pos = decode(side, frame, key, version)
            out: list[Any] = [header]
            encoder(cls, version)(decoder(cls, version)(frame, pos, len(frame)), out)
            assert b"".join(out) == frame, (pair["i"], side)
            versions.add((side, key, version))
    assert len(versions) == 2 * 282


def test_views_of_a_larger_buffer_decode_to_the_same_messages() -> None:
    for pair in lines("wire.jsonl.xz"):
        key, version = pair["api_key"], pair["version"]
        for side, frame, cls in sides(pair):
            _, _, pos = decode(side, frame, key, version)
            message = decoder(cls, version)(frame, pos, len(frame))
            for buf in bytearray(b"ahead" + frame + b"behind"), memoryview(b"ahead" + frame + b"behind"):
                assert decoder(cls, version)(buf, pos + 5, len(frame) + 5) == message, (pair["i"], side)


def test_recorded_frames_have_the_values_that_kafka_decoded() -> None:
    frames = {pair["i"]: pair for pair in lines("wire.jsonl.xz")}
    compared = 0
    for kafkas in lines("wire-decoded.jsonl.xz"):
        pair = frames[kafkas["i"]]
        key, version = pair["api_key"], pair["version"]
        for side, frame, cls in sides(pair):
            header, _, pos = decode(side, frame, key, version)
            body = plain(decoder(cls, version)(frame, pos, len(frame)), version)
            assert {"header": header, "body": body} == snaked(kafkas[side]), (kafkas["i"], side)
            compared += 1
    assert compared > 1000


def test_request_headers_without_a_client_id_are_decoded() -> None:
    header = RequestHeader(18, 3, 7, None)
    frame = encode_request_header(header)
    assert frame == bytes.fromhex("0012 0003 00000007 ffff 00")
    assert decode_request_header(frame, 0, len(frame)) == (header, len(frame))
