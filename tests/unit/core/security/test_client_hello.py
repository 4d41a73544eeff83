"""Tests of the first message of a client in TLS: those of OpenSSL, whole, cut off and changed, and made-up ones."""

from __future__ import annotations

import random
import ssl
from contextlib import suppress

import pytest

from pykbroker.core.security.client_hello import (
    CURVES,
    KEY_SHARE,
    START_BYTES_MAX,
    SUPPORTED_VERSIONS,
    TLS13,
    has_quick_keys,
    is_cut_off,
)
from tests.unit.world.tls_ends import server_context

P256, X25519, FFDHE_8192, GREASE, HYBRID = 0x17, 0x1D, 0x104, 0x2A2A, 0x11EC


def of_openssl(version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, group: str = "") -> bytes:
    """Return the first message of a client of this version, which has one group alone or those of OpenSSL."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.maximum_version = version
    if group:
        context.set_ecdh_curve(group)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def sized(data: bytes, size_bytes: int) -> bytes:
    return len(data).to_bytes(size_bytes, "big") + data


def made(*groups: int, versions: bytes = TLS13) -> bytes:
    """Return a message with keys for these groups."""
    shares = b"".join(group.to_bytes(2, "big") + sized(b"key", 2) for group in groups)
    found = [(KEY_SHARE, sized(shares, 2)), (SUPPORTED_VERSIONS, sized(versions, 1)), (1, b"")]
    extensions = b"".join(number.to_bytes(2, "big") + sized(content, 2) for number, content in found)
    body = b"\3\3" + bytes(32) + sized(bytes(32), 1) + sized(b"\x13\1", 2) + sized(b"\0", 1) + sized(extensions, 2)
    return b"\x16\3\1" + sized(b"\1" + sized(body, 3), 2)


@pytest.mark.parametrize(
    ("start", "is_quick"),
    [
        (of_openssl(), True),
        (of_openssl(ssl.TLSVersion.TLSv1_2), True),
        (of_openssl(group="prime256v1"), True),
        (of_openssl(group="ffdhe8192"), False),
        (made(X25519), True),
        (made(GREASE, HYBRID, X25519), True),
        (made(P256, FFDHE_8192), False),
        (made(FFDHE_8192, P256), False),
        (made(FFDHE_8192), False),
        (made(GREASE, HYBRID), False),
        (made(), False),
        (made(FFDHE_8192, versions=b"\3\3"), True),
        (made(FFDHE_8192, versions=b"\3\3" + TLS13), False),
        (made(X25519, versions=b"\3\3" + TLS13), True),
        (b"\x16\3\1\0\1\2", False),
        (b"GET / HTTP/1.1\r\n\r\n", False),
    ],
)
def test_only_keys_for_curves_are_quick(start: bytes, is_quick: bool) -> None:
    assert has_quick_keys(start) is is_quick
    assert not is_cut_off(start)


def test_all_curves_are_quick() -> None:
    assert all(has_quick_keys(made(group)) for group in CURVES)


def test_a_message_is_waited_for_until_it_is_whole() -> None:
    start = of_openssl()
    for end in range(1, len(start)):
        assert is_cut_off(start[:end])
        assert not has_quick_keys(start[:end])
    assert not is_cut_off(start + b"more")
    assert is_cut_off(b"\x16\3\1\xff\xff" + bytes(START_BYTES_MAX - 6))
    assert not is_cut_off(b"\x16\3\1\xff\xff" + bytes(START_BYTES_MAX - 5))
    assert not is_cut_off(b"G")


SERVER = server_context()
IN_SERVER_HELLO, IN_RETRY = b"\0\x33\1\4\1\0\1\0", b"\0\x33\0\2\1\0"
"""A key, or the request for one, of the group ffdhe2048 in an answer."""


def answer(start: bytes) -> bytes:
    """Return what OpenSSL answers."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = SERVER.wrap_bio(incoming, outgoing, server_side=True)
    incoming.write(start)
    with suppress(ssl.SSLError):
        server.do_handshake()
    return outgoing.read()


def test_openssl_exchanges_no_slow_keys_after_any_message_that_is_found_quick() -> None:
    slow = of_openssl(group="ffdhe2048")
    assert IN_SERVER_HELLO in answer(slow)
    dice, quick = random.Random(1), 0
    for _ in range(20_000):
        data = bytearray(slow)
        at = dice.randrange(len(data) - 256)  # before the key itself
        match dice.randrange(3):
            case 0:
                data[at] = dice.randrange(256)
            case 1:
                data[at] ^= 1 << dice.randrange(8)
            case _:
                data[at : at + 2] = dice.choice((P256, X25519, KEY_SHARE, SUPPORTED_VERSIONS)).to_bytes(2, "big")
        if has_quick_keys(bytes(data)):
            quick += 1
            answered = answer(bytes(data))
            assert IN_SERVER_HELLO not in answered
            assert IN_RETRY not in answered
    assert quick > 100
