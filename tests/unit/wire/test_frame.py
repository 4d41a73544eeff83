"""Tests of the headers and frames of requests and responses."""

import pytest

from wire.declare import STRING_BYTES_MAX
from wire.errors import DecodeError, EncodeError
from wire.frame import decode_request, decode_response, encode_request, encode_response
from wire.header import FIXED, RequestHeader, decode_request_header, decode_response_header, encode_request_header
from wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse


@pytest.mark.parametrize(
    ("version", "frame"),
    [
        (4, "00000017 0003 0004 00000007 0003 6d6521 00000001 0003 666f6f 01"),
        (12, "00000027 0003 000c 00000007 0003 6d6521 00 02 00000000000000000000000000000000 04 666f6f 00 01 00 00"),
    ],
)
def test_a_request_frame_is_encoded_and_decoded(version: int, frame: str) -> None:
    request = MetadataRequest([MetadataRequestTopic(name="foo")], True)
    data = encode_request(request, version, 7, "me!")
    assert data == bytes.fromhex(frame)
    assert decode_request(data[4:]) == (RequestHeader(3, version, 7, "me!"), request)


@pytest.mark.parametrize(("version", "header"), [(8, "00000007"), (9, "00000007 00")])
def test_a_response_frame_is_encoded_and_decoded(version: int, header: str) -> None:
    response = MetadataResponse(cluster_id="c")
    data = encode_response(response, version, 7)
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    assert data[4:].startswith(bytes.fromhex(header))
    assert decode_response(MetadataResponse, version, data[4:]) == (7, response)


@pytest.mark.parametrize("version", range(5))
def test_the_header_of_an_api_versions_response_never_has_tagged_fields(version: int) -> None:
    data = encode_response(ApiVersionsResponse(error_code=35), version, 9)
    assert data[4:10] == bytes.fromhex("00000009 0023")
    assert decode_response(ApiVersionsResponse, version, data[4:])[0] == 9


def test_the_header_of_a_request_in_an_unknown_version_is_decoded() -> None:
    """A broker answers ApiVersions in an unknown version with version 0."""
    header = RequestHeader(18, 99, 1, "new")
    data = encode_request_header(header)
    assert decode_request_header(data + b"unreadable", 0, len(data) + 10) == (header, len(data))
    with pytest.raises(DecodeError, match="ApiVersions has no version 99"):
        decode_request(data)


def test_unknown_tagged_fields_of_a_header_are_skipped() -> None:
    data = bytes.fromhex("0012 0003 00000001 ffff 01 05 02 abcd 02 61 02 62 00")
    assert decode_request(data) == (RequestHeader(18, 3, 1, None), ApiVersionsRequest("a", "b"))


@pytest.mark.parametrize(
    ("size", "fits"), [(1, True), (STRING_BYTES_MAX // 3, True), (STRING_BYTES_MAX // 3 + 1, False)]
)
def test_a_client_id_that_is_not_utf_8_is_decoded_as_in_java(size: int, *, fits: bool) -> None:
    """Invalid bytes become the replacement character, which has three bytes in UTF-8."""
    data = FIXED.pack(3, 9, 1, size) + b"\xff" * size + b"\0"
    if fits:
        assert decode_request_header(data, 0, len(data)) == (RequestHeader(3, 9, 1, "\ufffd" * size), len(data))
    else:
        with pytest.raises(DecodeError, match="longer than a string may be"):
            decode_request_header(data, 0, len(data))


@pytest.mark.parametrize(
    "header",
    [
        pytest.param("", id="empty"),
        pytest.param("0003 0009 00000001 00", id="cut"),
        pytest.param("0003 0009 00000001 0005 6161", id="name cut"),
        pytest.param("0003 0009 00000001 ffff", id="no tags"),
        pytest.param("0003 0009 00000001 ffff 01 00 05", id="tags cut"),
        pytest.param("0063 0000 00000001 ffff", id="no such API"),
        pytest.param("ffff 0000 00000001 ffff", id="negative"),
        pytest.param("0004 0000 00000001 ffff", id="removed from Kafka"),
    ],
)
def test_malformed_request_headers_are_refused(header: str) -> None:
    data = bytes.fromhex(header)
    with pytest.raises(DecodeError):
        decode_request_header(data, 0, len(data))
    with pytest.raises(DecodeError):
        decode_request_header(data + bytes(100), 0, len(data))


@pytest.mark.parametrize("header", ["", "000000", "00000001", "00000001 01", "00000001 01 00 05"])
def test_malformed_response_headers_are_refused(header: str) -> None:
    data = bytes.fromhex(header)
    with pytest.raises(DecodeError):
        decode_response_header(data, 0, len(data), 3, 9)
    with pytest.raises(DecodeError):
        decode_response_header(data + bytes(100), 0, len(data), 3, 9)


@pytest.mark.parametrize(
    "header",
    [RequestHeader(3, 9, 1 << 31, None), RequestHeader(3, 9, 1, "x" * 40_000), RequestHeader(3, 1 << 15, 1, None)],
)
def test_headers_that_cannot_be_encoded_are_encode_errors(header: RequestHeader) -> None:
    with pytest.raises(EncodeError):
        encode_request_header(header)
