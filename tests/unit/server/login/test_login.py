"""Tests of the log-in of a client on a connection without a socket."""

from __future__ import annotations

import gc
import logging
import re
import struct
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from pykbroker.core.security.sasl.scram import SHA_256
from pykbroker.core.security.session import ANONYMOUS
from pykbroker.server.authentications import Authentications, total
from pykbroker.server.ending import ConnectionEnding
from pykbroker.server.handler import Later
from pykbroker.server.login.refusal import LoginRefused
from pykbroker.server.login.table import SaslClient
from pykbroker.server.shared import Shared
from tests.unit.core.security.sasl.scram_client import final
from tests.unit.server.login.client import (
    DELAY_S,
    GOOD,
    HANDLERS,
    INVALID,
    NAMES,
    RECEIVE_BYTES_MAX,
    SECOND_NS,
    WRONG,
    Client,
    Unrun,
    listener,
    logins_of,
)
from tests.unit.server.rig import Api, Ticks, shared
from wire.api import ApiKey
from wire.declare import Request
from wire.error_codes import ErrorCode
from wire.frame import decode_response, encode_request
from wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from wire.messages.metadata import MetadataRequest
from wire.messages.sasl_authenticate import SaslAuthenticateRequest
from wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

ALICE = len("User:alice")


def test_a_client_logs_in_by_plain_and_is_then_served_by_the_table_of_the_listener(unrun: Unrun) -> None:
    of = shared(unrun, *HANDLERS)
    client = Client(of)
    assert client.ask(ApiVersionsRequest(client_software_name="me", client_software_version="1"), 4).error_code == 0
    response = client.handshake()
    assert (response.error_code, response.mechanisms) == (0, NAMES)
    assert (client.principal, len(client.logins), client.is_last) == (ANONYMOUS, 1, True)
    response = client.token(GOOD)
    assert (response.error_code, response.auth_bytes, response.session_lifetime_ms) == (0, b"", 0)
    assert (client.principal, len(client.logins), client.is_last) == ("User:alice", 0, False)
    assert client.connection._table is of.table
    assert type(client.connection._frames).__name__ == "FrameReader"
    assert client.heartbeat() == ALICE
    assert client.handshake().error_code == client.token(GOOD).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.heartbeat() == ALICE
    assert (client.counts.successes, client.counts.failures) == (1, 0)


@pytest.mark.parametrize("version", [0, 1])
def test_a_client_logs_in_by_scram_with_and_without_request_headers(unrun: Unrun, version: int) -> None:
    client = Client(shared(unrun, *HANDLERS))
    client.handshake("SCRAM-SHA-256", version)
    bare = "n=alice,r=client"

    def send(token: bytes) -> bytes:
        if version:
            answer: bytes = client.token(token, 0).auth_bytes
            return answer
        (raw,) = client.raw(token)
        return raw

    first = send(f"n,,{bare}".encode())
    assert first.startswith(b"r=clientnonce,s=")
    assert client.principal == ANONYMOUS
    assert send(final(SHA_256, bare, first)).startswith(b"v=")
    assert (client.principal, client.heartbeat()) == ("User:alice", ALICE)


@pytest.mark.parametrize("version", [0, 1])
def test_the_bytes_of_a_log_in_may_be_split_anywhere(unrun: Unrun, version: int) -> None:
    token = encode_request(SaslAuthenticateRequest(auth_bytes=GOOD), 0, 2, "me")
    if not version:
        token = struct.pack(">i", len(GOOD)) + GOOD
    data = encode_request(SaslHandshakeRequest(mechanism="PLAIN"), version, 1, "me") + token
    data += encode_request(HeartbeatRequest(group_id="g"), 4, 3, "me") * 2
    expected = None
    for split in range(len(data)):
        client = Client(shared(unrun, *HANDLERS))
        for part in (data[:split], data[split:]):
            client.feed(part)
        assert (client.principal, client.connection.ended) == ("User:alice", False), split
        out = b"".join(client.connection.out)  # type: ignore[arg-type]
        expected = expected or out
        assert out == expected
    client = Client(shared(unrun, *HANDLERS))
    for byte in data:
        client.feed(bytes((byte,)))
    assert b"".join(client.connection.out) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [0, 1])
async def test_a_password_is_computed_while_the_connection_waits(
    version: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        client = Client(shared(nursery, *HANDLERS))
        client.handshake("BY_SCRAM", version)
        assert (client.token(GOOD) if version else client.raw(GOOD)) in (None, [])
        assert (client.is_held, client.principal, client.shared.budget.requests) == (True, ANONYMOUS, 0)
        await trio.testing.wait_all_tasks_blocked()
        assert len(client.replies()) == 1
        client.last.clear()
        assert (client.principal, client.heartbeat()) == ("User:alice", ALICE)
        again = Client(shared(nursery, *HANDLERS))
        again.handshake("BY_SCRAM")
        assert again.token(WRONG) is None
        await trio.sleep(DELAY_S)
        await trio.testing.wait_all_tasks_blocked()
        response = again.answer(SaslAuthenticateRequest, 2)
        assert (response.error_code, response.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, INVALID)


@pytest.mark.parametrize("closes_at", [1, 2])
async def test_a_client_that_has_gone_before_its_password_is_computed_or_meanwhile_does_not_log_in(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture, closes_at: int
) -> None:
    async with trio.open_nursery() as nursery:
        client, results = Client(shared(nursery, *HANDLERS)), list[bytes | None]()

        async def compute(one: SaslClient, function: Callable[[], bytes]) -> bytes | None:
            if closes_at == 1:
                client.connection.closed()
            results.append(None if one.ended else function())
            client.connection.closed()
            return results[0]

        client.logins.begin(client.connection, msgspec.structs.replace(listener(), compute=compute))
        client.handshake("BY_SCRAM")
        client.token(GOOD)
        await trio.testing.wait_all_tasks_blocked()
        assert [result is None for result in results] == [closes_at == 1]
        assert (client.counts.successes, client.principal, client.shared.budget.holders) == (0, ANONYMOUS, {})
        assert len(client.logins) == 0
    assert caplog.records == []


async def test_a_failed_log_in_is_answered_after_the_delay_and_nothing_is_read_before(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        client = Client(shared(nursery, *HANDLERS, ticks=lambda: int(trio.current_time() * SECOND_NS)))
        client.handshake()
        assert client.token(WRONG) is None
        assert (client.is_held, client.shared.budget.requests) == (True, 0)
        assert client.feed(encode_request(SaslAuthenticateRequest(auth_bytes=GOOD), 2, 3, "me")) == 0
        await trio.sleep(DELAY_S - 0.001)
        assert (client.replies(), client.closes) == ([], 0)
        await trio.sleep(0.002)
        response = client.answer(SaslAuthenticateRequest, 2)
        assert (response.error_code, response.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, INVALID)
        assert (client.flushes, client.closes) == (1, 1)
        assert client.connection.ending is ConnectionEnding.FAILED_LOGIN
        assert (client.principal, client.counts.failures, len(client.logins)) == (ANONYMOUS, 1, 0)


async def test_a_failed_log_in_is_freed_at_once(autojump_clock: trio.testing.MockClock) -> None:
    gc.collect()
    gc.disable()
    try:
        async with trio.open_nursery() as nursery:
            client = Client(shared(nursery, *HANDLERS))
            client.handshake()
            client.token(WRONG)
        assert client.closes == 1
        assert not any(isinstance(kept, LoginRefused) for kept in gc.get_objects())
    finally:
        gc.enable()


@pytest.mark.parametrize("raw", [WRONG, b"", encode_request(SaslAuthenticateRequest(auth_bytes=GOOD), 0, 2, "me")[4:]])
async def test_a_failed_log_in_without_request_headers_ends_without_a_byte(
    autojump_clock: trio.testing.MockClock, raw: bytes
) -> None:
    async with trio.open_nursery() as nursery:
        client = Client(shared(nursery, *HANDLERS))
        client.handshake(version=0)
        assert (client.raw(raw), client.is_held) == ([], True)
        await trio.sleep(DELAY_S)
        await trio.testing.wait_all_tasks_blocked()
        assert (client.connection.out, client.closes) == ([], 1)


@pytest.mark.parametrize(
    ("request_", "version", "code"),
    [
        (HeartbeatRequest(group_id="g"), 4, ErrorCode.ILLEGAL_SASL_STATE),
        (ApiVersionsRequest(client_software_name="me", client_software_version="1"), 3, ErrorCode.ILLEGAL_SASL_STATE),
        (SaslHandshakeRequest(mechanism="PLAIN"), 1, ErrorCode.ILLEGAL_SASL_STATE),
        (MetadataRequest(topics=[]), 9, ErrorCode.NONE),  # its response has no error code
    ],
)
async def test_another_api_in_the_middle_gets_its_error_response_and_the_connection_ends(
    autojump_clock: trio.testing.MockClock, request_: Request[Any], version: int, code: ErrorCode
) -> None:
    async with trio.open_nursery() as nursery:
        client = Client(shared(nursery, *HANDLERS))
        client.handshake()
        assert client.ask(request_, version) is None
        assert client.is_held
        await trio.sleep(DELAY_S)
        await trio.testing.wait_all_tasks_blocked()
        response = client.answer(type(request_), version)
        assert response.error_code == code
        assert (client.closes, client.connection.ending) == (1, ConnectionEnding.FAILED_LOGIN)


async def test_a_mechanism_that_is_not_enabled_gets_the_list_after_the_delay(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    for mechanism, version in (("GSSAPI", 1), ("plain", 0), ("", 1)):
        async with trio.open_nursery() as nursery:
            client = Client(shared(nursery, *HANDLERS))
            assert client.handshake(mechanism, version) is None
            await trio.sleep(DELAY_S)
            await trio.testing.wait_all_tasks_blocked()
            response = client.answer(SaslHandshakeRequest, version)
            assert (response.error_code, response.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, NAMES)
            assert client.closes == 1
    what_to_do = f"that is not enabled: set sasl.mechanism={' or '.join(NAMES)} in the client"
    ends = [line.partition(what_to_do)[2] for line in caplog.messages]
    assert ends == [" (mechanism 'GSSAPI')", " (mechanism 'plain')", ""]


@pytest.mark.parametrize(
    "data",
    [
        encode_request(HeartbeatRequest(group_id="g"), 4, 3, "me"),
        encode_request(HeartbeatRequest(group_id="g"), 4, 3, "me")[:14] + b"\xff" * 64,  # the body is not parsed
        encode_request(SaslAuthenticateRequest(auth_bytes=GOOD), 2, 2, "me"),
        struct.pack(">i", 40) + b"z" * 40,
        struct.pack(">i", 0),
        struct.pack(">i", -1),
        struct.pack(">i", 4) + b"abcd",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x01\x00\x01\x00\x00",
        encode_request(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4, 1, "me") * 2,
    ],
)
def test_a_request_before_the_log_in_ends_the_connection_at_once(
    unrun: Unrun, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    of = shared(unrun, *HANDLERS)
    logins = logins_of(of)
    for _ in range(3):
        client = Client(of, logins)
        client.feed(data)
        assert (client.connection.ended, client.principal) == (True, ANONYMOUS)
        assert all(struct.unpack_from(">i", frame)[0] == 1 for frame in client.replies())
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    if client.connection.ending is ConnectionEnding.FAILED_LOGIN:
        assert "security.protocol=SASL_PLAINTEXT" in record.getMessage()


def test_api_versions_may_be_asked_again_only_after_an_error(unrun: Unrun) -> None:
    client = Client(shared(unrun, *HANDLERS))
    invalid = ApiVersionsRequest(client_software_name="-", client_software_version="1")
    for _ in range(3):
        assert client.ask(invalid, 3).error_code == 42
    client.feed(bytes.fromhex("0000000b 0012 0063 00000007 0000 00"))
    _, response = decode_response(ApiVersionsResponse, 0, client.replies()[0])
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    client.connection.out.clear()
    assert client.ask(ApiVersionsRequest(client_software_name="me", client_software_version="1"), 3).error_code == 0
    assert client.handshake().error_code == client.token(GOOD).error_code == 0


EVENTS: dict[str, bytes] = {
    "v": encode_request(ApiVersionsRequest(client_software_name="-", client_software_version="1"), 3, 1, "me"),
    "V": encode_request(ApiVersionsRequest(client_software_name="me", client_software_version="1"), 3, 1, "me"),
    "H": encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, "me"),
    "R": encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 0, 1, "me"),
    "S": encode_request(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1, 1, "me"),
    "X": encode_request(SaslHandshakeRequest(mechanism="X"), 1, 1, "me"),
    "t": encode_request(SaslAuthenticateRequest(auth_bytes=GOOD), 2, 1, "me"),
    "w": encode_request(SaslAuthenticateRequest(auth_bytes=WRONG), 2, 1, "me"),
    "r": struct.pack(">i", len(GOOD)) + GOOD,
    "f": encode_request(SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=client"), 2, 1, "me"),
    "O": encode_request(HeartbeatRequest(group_id="g"), 4, 1, "me"),
}
MODEL = re.compile(r"v*V?(Ht|Rr)")


def test_all_orders_of_frames_log_in_exactly_as_the_model(unrun: Unrun) -> None:
    length, checked, beginnings = 6, 0, [""]
    of = shared(unrun, *HANDLERS)
    logins = logins_of(of)
    while beginnings:
        beginning = beginnings.pop()
        for event in EVENTS:
            tried = beginning + event
            client = Client(of, logins)
            client.feed(b"".join(map(EVENTS.__getitem__, tried)))
            is_in = client.principal != ANONYMOUS
            assert is_in == (MODEL.fullmatch(tried) is not None), tried
            is_over = is_in or client.connection.ended or client.is_held or client.connection.begun_at is not None
            if is_over or len(tried) == length:
                checked += len(EVENTS) ** (length - len(tried))
            else:
                beginnings.append(tried)
            client.close()
    assert checked == len(EVENTS) ** length  # 1.7 million


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_frame_before_the_log_in_has_a_limit_of_its_own(unrun: Unrun, version: int, more: int) -> None:
    client = Client(shared(unrun, *HANDLERS))
    client.handshake(version=version)
    empty = len(encode_request(SaslAuthenticateRequest(), 0, 7, "me")) - 4 if version else 0
    token = WRONG + b"!" * (RECEIVE_BYTES_MAX + more - empty - len(WRONG))
    if version:
        client.token(token, 0)
        unrun.clear()
    else:
        client.raw(token)
    assert (client.connection.ended, client.connection.ending is ConnectionEnding.BAD_REQUEST) == (more > 0, more > 0)


def test_a_client_that_has_logged_in_may_send_large_requests(unrun: Unrun) -> None:
    client = Client(shared(unrun, *HANDLERS))
    client.handshake()
    client.token(GOOD)
    (size,) = struct.unpack_from(">i", frame := encode_request(HeartbeatRequest(group_id="g" * 30_000), 0, 1, "me"))
    assert size < RECEIVE_BYTES_MAX
    client.feed(frame * 3)
    assert len(client.replies()) == 3
    client.connection.out.clear()
    client.feed(struct.pack(">i", client.shared.request_bytes_max) + bytes(10))
    assert not client.connection.ended
    other = Client(client.shared)
    other.feed(struct.pack(">i", RECEIVE_BYTES_MAX + 1) + bytes(10))
    assert other.connection.ended


# ---- sessions with a lifetime


@pytest.mark.parametrize(("version", "cannot"), [(0, 1), (1, 0), (2, 0)])
def test_a_client_of_an_old_version_counts_as_one_that_cannot_authenticate_again(
    unrun: Unrun, version: int, cannot: int
) -> None:
    client = Client(shared(unrun, *HANDLERS))
    client.handshake()
    client.token(GOOD, version)
    assert (client.counts.successes, client.counts.successes_without_again) == (1, cannot)


def logged_in(of: Shared, reauth_ms: int = 3000, mechanism: str = "PLAIN") -> Client:
    client = Client(of, reauth_ms=reauth_ms)
    client.handshake(mechanism)
    assert client.token(GOOD).session_lifetime_ms == reauth_ms
    return client


@pytest.mark.parametrize(("late_ns", "answer"), [(-1000, ALICE), (0, ALICE), (1, None), (SECOND_NS, None)])
def test_a_session_ends_at_the_first_request_after_its_lifetime(unrun: Unrun, late_ns: int, answer: int | None) -> None:
    ticks = Ticks(0)
    client = logged_in(shared(unrun, *HANDLERS, ticks=ticks))
    ticks.now = 3 * SECOND_NS + late_ns
    assert client.heartbeat() == answer
    assert client.connection.ended == (answer is None) == client.counts.expired
    if answer is None:
        assert client.connection.ending is ConnectionEnding.EXPIRED_SESSION


def test_a_client_authenticates_again_also_late_and_without_request_headers(unrun: Unrun) -> None:
    ticks = Ticks(0)
    client = logged_in(shared(unrun, *HANDLERS, ticks=ticks))
    for version in (1, 0, 1):
        ticks.now += 5 * SECOND_NS
        assert client.handshake(version=version).mechanisms == NAMES
        if version:
            assert client.token(GOOD).session_lifetime_ms == 3000
        else:
            assert client.raw(GOOD) == [b""]
        assert (client.heartbeat(), client.principal) == (ALICE, "User:alice")
    logins = client.logins
    assert (client.counts.successes, client.counts.successes_again, len(logins)) == (1, 3, 0)
    ticks.now += 1
    assert client.handshake().error_code == ErrorCode.ILLEGAL_SASL_STATE  # sooner than a second after the last
    assert client.token(GOOD).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.heartbeat() == ALICE


def test_the_times_of_further_log_ins_are_measured(unrun: Unrun) -> None:
    ticks = Ticks(0)
    client = logged_in(shared(unrun, *HANDLERS, ticks=ticks))
    for took_ns in (5, 8, 3):
        ticks.now += 2 * SECOND_NS
        client.handshake()
        ticks.now += took_ns
        client.token(GOOD)
    found = total([client.counts, Authentications(again_ns=1, again_ns_longest=7)])
    assert (client.counts.again_ns, client.counts.again_ns_longest) == (16, 8)
    assert (found.successes, found.successes_again, found.again_ns, found.again_ns_longest) == (1, 3, 17, 8)
    assert total([]) == Authentications()


@pytest.mark.parametrize("token", [GOOD, GOOD + b"?", b"\0alice\0secret\0"])
def test_a_token_without_a_header_may_come_with_the_handshake_and_the_next_request(unrun: Unrun, token: bytes) -> None:
    client = logged_in(shared(unrun, *HANDLERS))
    handshake = encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 0, 7, "me")
    heartbeat = encode_request(HeartbeatRequest(group_id="g"), 4, 8, "me")
    client.feed(handshake + struct.pack(">i", len(token)) + token + heartbeat)
    while client.connection.wants_turn and client.connection.wants_input:
        client.connection.resume()
    shaken, *rest = client.replies()
    assert decode_response(SaslHandshakeResponse, 0, shaken)[1].mechanisms == NAMES
    if token == GOOD:
        authenticated, beaten = rest
        assert (authenticated, decode_response(HeartbeatResponse, 4, beaten)[1].throttle_time_ms) == (b"", ALICE)
    else:
        assert (rest, client.counts.failures_again, client.connection.wants_input) == ([], 1, False)


def test_a_token_without_a_header_waits_while_no_request_may_start(unrun: Unrun) -> None:
    client = logged_in(shared(unrun, *HANDLERS))
    client.handshake(version=0)
    client.budget.is_full = True
    client.feed(struct.pack(">i", len(GOOD)) + GOOD)
    assert client.replies() == []
    client.budget.is_full = False
    client.connection.relieved()
    client.connection.resume()
    assert client.replies() == [b""]
    client.connection.out.clear()
    assert (client.counts.successes_again, client.heartbeat()) == (1, ALICE)


@pytest.mark.parametrize(
    ("mechanism", "token", "message"),
    [
        ("PLAIN", b"\0bob\0secret", "Cannot change principals during re-authentication from User.alice: User.bob"),
        ("PLAIN", WRONG, INVALID),
        ("LASTING", GOOD, None),
    ],
)
async def test_another_principal_or_mechanism_ends_the_connection(
    autojump_clock: trio.testing.MockClock, mechanism: str, token: bytes, message: str | None
) -> None:
    async with trio.open_nursery() as nursery:
        client = logged_in(shared(nursery, *HANDLERS))
        assert client.handshake(mechanism).error_code == 0
        assert client.token(token) is None
        await trio.sleep(DELAY_S)
        await trio.testing.wait_all_tasks_blocked()
        response = client.answer(SaslAuthenticateRequest, 2)
        assert (None if response is None else response.error_message) == message
        assert (client.closes, client.principal) == (1, "User:alice")
        assert (client.counts.failures, client.counts.failures_again) == (0, 1)


def test_a_mechanism_that_is_not_enabled_ends_a_session_at_once(unrun: Unrun) -> None:
    client = logged_in(shared(unrun, *HANDLERS))
    assert client.handshake("GSSAPI") is None
    assert client.connection.ended


def test_only_tokens_may_follow_while_a_client_authenticates_again(unrun: Unrun) -> None:
    client = logged_in(shared(unrun, *HANDLERS))
    client.handshake()
    assert client.heartbeat() is None
    assert client.is_held


async def test_responses_of_earlier_requests_still_leave(autojump_clock: trio.testing.MockClock) -> None:
    event = trio.Event()

    async def wait() -> HeartbeatResponse:
        await event.wait()
        return HeartbeatResponse()

    slow = Api(ApiKey.HEARTBEAT, "0-4", lambda context, request: Later(wait(), holds_connection=False))
    async with trio.open_nursery() as nursery:
        client = logged_in(shared(nursery, slow, *HANDLERS[1:]))
        assert client.heartbeat() is None
        client.feed(EVENTS["H"] + EVENTS["t"])
        assert client.replies() == []
        event.set()
        await trio.testing.wait_all_tasks_blocked()
        assert len(client.replies()) == 3
        assert client.principal == "User:alice"


def test_failures_are_logged_once_a_minute_for_each_host_and_cause(
    unrun: Unrun, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            of = shared(nursery, *HANDLERS)
            for i in range(50):
                client = Client(of)
                client.handshake()
                client.token(f"\0canary{i}{'x' * 100}\0canary-password".encode())

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    (record,) = caplog.records
    assert f"its log-in by PLAIN failed: {INVALID} (user 'canary" in record.getMessage()
    assert "canary-password" not in caplog.text
    assert len(record.getMessage()) < 300
