"""Tests of the log-in of a client on a connection without a socket."""

from __future__ import annotations

import logging
import re
import struct
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from pykbroker.core.security.sasl.mechanism import Mechanism
from pykbroker.core.security.sasl.plain import Plain
from pykbroker.core.security.sasl.plain_by_scram import PlainByScram
from pykbroker.core.security.sasl.scram import SHA_256, Scram, scram_credential
from pykbroker.core.security.secret import Secret
from pykbroker.core.security.session import ANONYMOUS
from pykbroker.server.ending import ConnectionEnding
from pykbroker.server.handler import Later, RequestContext
from pykbroker.server.login.logins import LOGIN_S_MAX, LOGIN_SHARE, Logins
from pykbroker.server.login.table import SaslListener
from pykbroker.server.shared import Shared
from tests.unit.core.security.sasl.scram_client import final
from tests.unit.server.rig import Api, Rig, Ticks, shared
from wire.api import ApiKey
from wire.apis import APIS
from wire.declare import Request
from wire.error_codes import ErrorCode
from wire.frame import decode_response, encode_request
from wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from wire.messages.metadata import MetadataRequest, MetadataResponse
from wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

RECEIVE_BYTES_MAX = 50_000
DELAY_S = 0.1
GOOD, WRONG = b"\0alice\0secret", b"\0alice\0wrong"
INVALID = "Authentication failed: Invalid username or password"
SECOND_NS = 1_000_000_000
NAMES = ["PLAIN", "SCRAM-SHA-256", "LASTING", "BY_SCRAM"]


async def compute(function: Callable[[], bytes]) -> bytes:
    """Return the result of a function, after other tasks have run."""
    await trio.lowlevel.checkpoint()
    return function()


def listener(reauth_ms: int = 0) -> SaslListener:
    users = {"alice": Secret("secret"), "bob": Secret("secret")}
    credential = scram_credential(SHA_256, "secret", b"salt", 4096)
    mechanisms: dict[str, Mechanism] = {
        "PLAIN": Plain(users),
        "SCRAM-SHA-256": Scram(SHA_256, {"alice": credential}.get, lambda: b"key"),
        "LASTING": Plain(users),
        "BY_SCRAM": PlainByScram(lambda of, user: {"alice": credential}.get(user), lambda of: b"key", b"key"),
    }
    reauth = {"PLAIN": reauth_ms, "LASTING": 3000}
    return SaslListener(mechanisms, reauth, RECEIVE_BYTES_MAX, DELAY_S, lambda: "nonce", compute)


def echo(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time_ms=len(context.session.principal))


def versions(context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=42 if request.client_software_name == "-" else 0)


def illegal(context: RequestContext, request: Any) -> Any:
    kind = SaslHandshakeResponse if isinstance(request, SaslHandshakeRequest) else SaslAuthenticateResponse
    return kind(error_code=ErrorCode.ILLEGAL_SASL_STATE)


HANDLERS = [
    Api(ApiKey.HEARTBEAT, "0-4", echo),
    Api(ApiKey.API_VERSIONS, "0-4", versions),
    Api(ApiKey.SASL_HANDSHAKE, "0-1", illegal),
    Api(ApiKey.SASL_AUTHENTICATE, "0-2", illegal),
    Api(ApiKey.METADATA, "0-13", lambda context, request: MetadataResponse()),
]


class Unrun:
    """A nursery that runs nothing. The waits of failed log-ins are dropped at its end."""

    def __init__(self) -> None:
        self.waiting: list[Coroutine[Any, Any, None]] = []

    def start_soon(self, function: Callable[..., Coroutine[Any, Any, None]], slot: Any, later: Any) -> None:
        self.waiting.append(later.work)

    def clear(self) -> None:
        for work in self.waiting:
            work.close()
        self.waiting.clear()


@pytest.fixture
def unrun() -> Iterator[Unrun]:
    tasks = Unrun()
    yield tasks
    tasks.clear()


def logins_of(of: Shared) -> Logins:
    """Return the log-ins of connections that forget them when they close."""
    made: list[Logins] = []
    of.on_closed = lambda connection: made[0].forget(connection.session)
    made.append(Logins(of))
    return made[0]


class Client(Rig):
    """A client of a listener with SASL."""

    def __init__(self, of: Shared, logins: Logins | None = None, reauth_ms: int = 0) -> None:
        super().__init__(None, of=of)
        self.last: list[bytes] = []
        self.logins = logins_of(of) if logins is None else logins
        self.connection.session = msgspec.structs.replace(self.connection.session, client_port=id(self))
        self.logins.begin(self.connection, listener(reauth_ms))

    def replies(self) -> list[bytes]:
        """Return the frames that were sent when the connection ended, or else those in `out`."""
        return self.last or super().replies()

    def flush(self) -> None:
        """Send everything, as the pump does."""
        super().flush()
        self.last += super().replies()
        self.connection.out.clear()

    def ask(self, request: Request[Any], version: int) -> Any:
        """Send a request, and return its response, or None without one."""
        self.feed(encode_request(request, version, 7, "me"))
        return self.answer(type(request), version)

    def answer(self, request: type[Request[Any]], version: int) -> Any:
        """Take the only response, or return None without one."""
        frames = self.replies()
        self.connection.out.clear()
        if not frames:
            return None
        (frame,) = frames
        return decode_response(APIS[request.key].response, version, frame)[1]

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        return self.ask(SaslHandshakeRequest(mechanism=mechanism), version)

    def token(self, token: bytes, version: int = 2) -> Any:
        return self.ask(SaslAuthenticateRequest(auth_bytes=token), version)

    def raw(self, token: bytes) -> list[bytes]:
        self.feed(struct.pack(">i", len(token)) + token)
        frames = self.replies()
        self.connection.out.clear()
        return frames

    def heartbeat(self) -> int | None:
        """Return the length of the principal as the handler sees it, or None without a response."""
        response = self.ask(HeartbeatRequest(group_id="g"), 4)
        return None if response is None else response.throttle_time_ms

    @property
    def is_held(self) -> bool:
        """Whether the connection waits for the delay of a failed log-in."""
        return not self.connection.wants_input and len(self.connection.replies) == 1

    @property
    def principal(self) -> str:
        return self.connection.session.principal


ALICE = len("User:alice")


def test_a_client_logs_in_by_plain_and_is_then_served_by_the_table_of_the_listener(unrun: Unrun) -> None:
    of = shared(unrun, *HANDLERS)
    client = Client(of)
    assert client.ask(ApiVersionsRequest(client_software_name="me", client_software_version="1"), 4).error_code == 0
    response = client.handshake()
    assert (response.error_code, response.mechanisms) == (0, NAMES)
    assert (client.principal, len(client.logins)) == (ANONYMOUS, 1)
    response = client.token(GOOD)
    assert (response.error_code, response.auth_bytes, response.session_lifetime_ms) == (0, b"", 0)
    assert (client.principal, len(client.logins)) == ("User:alice", 0)
    assert client.connection._table is of.table
    assert type(client.connection._frames).__name__ == "FrameReader"
    assert client.heartbeat() == ALICE
    assert client.handshake().error_code == client.token(GOOD).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.heartbeat() == ALICE
    assert (client.logins.successes, client.logins.failures) == (1, 0)


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
        assert (client.principal, client.logins.failures, len(client.logins)) == (ANONYMOUS, 1, 0)


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
    autojump_clock: trio.testing.MockClock,
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


def test_clients_that_do_not_log_in_in_time_lose_their_connections(unrun: Unrun) -> None:
    of = shared(unrun, *HANDLERS)
    logins = logins_of(of)
    clients = [Client(of, logins) for _ in range(3)]
    clients[1].handshake()
    clients[1].token(GOOD)
    limit = LOGIN_S_MAX * SECOND_NS
    for now, closed in ((limit - 1, [0, 0, 0]), (limit, [1, 0, 1]), (limit + 1, [1, 0, 1])):
        logins.end_overdue(now)
        assert [client.closes for client in clients] == closed
    assert clients[0].connection.ending is ConnectionEnding.SLOW_LOGIN
    assert (len(logins), logins._tables) == (0, {})


def test_the_memory_of_clients_before_their_log_in_is_limited_and_the_oldest_make_room(unrun: Unrun) -> None:
    part = struct.pack(">i", 30_000) + bytes(20_000 - 4)
    of = shared(unrun, *HANDLERS, bytes_max=LOGIN_SHARE * 40_000)
    logins = logins_of(of)
    clients = [Client(of, logins) for _ in range(5)]
    for client in clients[:2]:
        client.feed(part)
    assert [client.closes for client in clients] == [0] * 5  # at the limit
    clients[2].feed(part[:5])
    assert [client.closes for client in clients] == [1, 0, 0, 0, 0]
    clients[3].handshake()
    clients[3].token(GOOD)
    assert clients[3].principal == "User:alice"
    for client in clients[3:]:
        client.feed(part)
    assert [client.closes for client in clients] == [1, 1, 0, 0, 0]
    assert clients[1].connection.ending is ConnectionEnding.CROWDED_OUT
    assert of.budget.bytes == 20_000  # the client that has logged in has the budget of the others
    for client in clients:
        client.close()
    assert (of.budget.bytes, logins._before.budget.bytes, len(logins)) == (0, 0, 0)


def test_many_failed_log_ins_make_room_one_after_the_other(unrun: Unrun) -> None:
    count, size = 300, 20_000
    of = shared(unrun, *HANDLERS, bytes_max=LOGIN_SHARE * count * size)
    logins = logins_of(of)
    clients = [Client(of, logins) for _ in range(count + 2)]
    for client in clients:
        client.handshake()
        client.token(WRONG + b"!" * size, 0)
    closed = [client for client in clients if client.closes]
    assert closed == clients[: len(closed)]
    assert {client.connection.ending for client in closed} == {ConnectionEnding.CROWDED_OUT}
    assert len(logins) == len(logins._tables) == len(clients) - len(closed)
    before = logins._before.budget
    assert (
        before.bytes == sum(before.holders.values()) == sum(client.connection.replies.kept_bytes for client in clients)
    )


def test_a_client_makes_room_for_its_own_request(unrun: Unrun) -> None:
    of = shared(unrun, *HANDLERS, bytes_max=LOGIN_SHARE * 660_000)
    logins = logins_of(of)
    oldest, other = clients = Client(of, logins), Client(of, logins)
    for client in clients:
        client.connection._frames.bytes_max = 520_000
    part = struct.pack(">i", 520_000) + bytes(519_990)
    oldest.feed(part[:20_000])
    other.feed(part[:33_000])
    oldest.feed(part[20_000:40_000])  # gets a small buffer, since half of the budget is charged
    assert [client.closes for client in clients] == [0, 0]
    oldest.feed(part[40_000:])
    assert [client.closes for client in clients] == [1, 0]
    assert oldest.connection.ending is ConnectionEnding.CROWDED_OUT


# ---- sessions with a lifetime


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
    assert client.connection.ended == (answer is None)
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
    assert (logins.successes, logins.successes_again, len(logins)) == (1, 3, 0)
    ticks.now += 1
    assert client.handshake().error_code == ErrorCode.ILLEGAL_SASL_STATE  # sooner than a second after the last
    assert client.token(GOOD).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.heartbeat() == ALICE


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
        assert (client.logins.failures, client.logins.failures_again) == (0, 1)


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
