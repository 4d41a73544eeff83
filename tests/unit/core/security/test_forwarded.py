"""The principal and the address of a client in an Envelope."""

from __future__ import annotations

import pytest

from pykbroker.core.security.forwarded import decode_host, decode_principal, encode_host, encode_principal
from wire.errors import DecodeError


@pytest.mark.parametrize("principal", ["User:ANONYMOUS", "User:CN=a,O=b:c", "Group:"])
def test_a_principal_is_read_as_it_was_written(principal: str) -> None:
    assert decode_principal(encode_principal(principal)) == principal


def test_a_principal_has_the_bytes_of_kafka() -> None:
    assert encode_principal("User:al") == b"\0\0" + b"\x05User" + b"\x03al" + b"\0" + b"\0"


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0", b"\0\1\x05User\x03al\0\0", b"\0\0\x05User\x09al"])
def test_a_damaged_principal_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_principal(data)


@pytest.mark.parametrize(
    ("host", "read"),
    [("10.1.2.3", "10.1.2.3"), ("::1", "::1"), ("::ffff:10.1.2.3", "10.1.2.3"), ("fe80::1%eth0", "fe80::1")],
)
def test_an_address_has_4_or_16_bytes(host: str, read: str) -> None:
    assert len(encode_host(host)) == (4 if "." in read else 16)
    assert decode_host(encode_host(host)) == read


def test_an_ipv4_address_that_is_mapped_into_ipv6_is_the_ipv4_address() -> None:
    assert decode_host(bytes(10) + b"\xff\xff\x0a\1\2\3") == "10.1.2.3"


@pytest.mark.parametrize("data", [b"", b"1.2.3", b"a" * 17])
def test_an_address_of_another_size_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_host(data)
