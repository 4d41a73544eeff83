"""Tests of a client's log-in on its connection, against the broker's side of SASL, in pieces of any size."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from pykbroker.client.connection import BrokerConnection
from pykbroker.client.errors import AuthenticationError, Disconnected, Silent
from pykbroker.client.security import ClientSecurity
from pykbroker.core.security.sasl.client import CLIENT_MECHANISMS, client_mechanism
from pykbroker.core.security.sasl.login import Login
from pykbroker.core.security.sasl.mechanism import AuthenticationFailed, Mechanism
from pykbroker.core.security.sasl.plain import Plain
from pykbroker.core.security.sasl.scram import SCRAM_HASHES, Scram, UnknownUsers, scram_credential
from pykbroker.core.security.secret import Secret
from tests.unit.client.fake_broker import FakeBroker
from wire.api import ApiKey
from wire.apis import APIS
from wire.error_codes import ErrorCode
from wire.frame import encode_response
from wire.header import RequestHeader
from wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

LIFETIME_MS = 10_000
DUE_S = 9.0
"""The time at which a client with these random numbers authenticates again: 90 % of the lifetime."""
KEYS = (ApiKey.FIND_COORDINATOR, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
VERSIONS = [ApiVersion(key, APIS[key].accepted.first, APIS[key].accepted.last) for key in KEYS]
CREDENTIALS = {name: scram_credential(of, "secret", b"salt", 4096) for name, of in SCRAM_HASHES.items()}


def half(bits: int) -> int:
    """Return the middle of the numbers of so many bits, in place of random ones."""
    return 1 << (bits - 1)


class SaslBroker(FakeBroker):
    """A fake broker with the broker's side of SASL. Its responses arrive in two pieces, or once a test lets them."""

    def __init__(self, lifetime_ms: int = 0) -> None:
        super().__init__()
        mechanisms: dict[str, Mechanism] = {"PLAIN": Plain({"alice": Secret("secret")})}
        for name, of in SCRAM_HASHES.items():
            mechanisms[name] = Scram(of, {"alice": CREDENTIALS[name]}.get, lambda: UnknownUsers(b"key"))
        self.login = Login(mechanisms, dict.fromkeys(mechanisms, lifetime_ms), 0)
        self.seen: list[str] = []
        self.split_at = 0
        self.held: list[bytes] | None = None
        """The responses that wait, or None if they are sent at once."""
        self.is_deaf = False

    def flush(self) -> None:
        super().flush()
        for header, request in self.requests():
            self.seen.append(type(request).__name__.removesuffix("Request"))
            if self.is_deaf:
                continue
            response = self.response(header, request)
            if response is not None:
                data = encode_response(response, header.version, header.correlation_id)
                if self.held is None:
                    trio.lowlevel.current_trio_token().run_sync_soon(self.deliver, data)
                else:
                    self.held.append(data)

    def deliver(self, data: bytes) -> None:
        at = self.split_at % len(data)
        self.send(data[:at])
        self.send(data[at:])

    def let_go(self) -> None:
        """Send the responses that wait."""
        for data in self.held or []:
            self.deliver(data)
        self.held = None

    def response(self, header: RequestHeader, request: Any) -> Any:
        if isinstance(request, ApiVersionsRequest):
            return ApiVersionsResponse(api_keys=VERSIONS)
        if isinstance(request, FindCoordinatorRequest):
            return FindCoordinatorResponse(host=request.key_)
        if isinstance(request, SaslHandshakeRequest):
            if self.login.identity is not None:
                self.login = self.login.again(int(trio.current_time() * 1e9))
            try:
                self.login.handshake(request.mechanism, header.version, "server")
            except AuthenticationFailed:
                return SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["OTHER"])
            return SaslHandshakeResponse()
        assert isinstance(request, SaslAuthenticateRequest)
        assert header.version == 2
        try:
            token = self.login.token(request.auth_bytes, int(trio.current_time() * 1e9)).token
        except AuthenticationFailed as error:
            return SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, self.login.message(error))
        return SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=self.login.lifetime_ms)


def client(broker: SaslBroker, mechanism: str = "PLAIN", password: str = "secret") -> BrokerConnection:
    sasl = client_mechanism(mechanism, "alice", Secret(password))
    return BrokerConnection(broker.connection, ClientSecurity(None, sasl, half))


async def find(connection: BrokerConnection, key: str = "group") -> str:
    return (await connection.ask(FindCoordinatorRequest(key_=key), 3)).host


@pytest.mark.parametrize("mechanism", CLIENT_MECHANISMS)
async def test_a_client_logs_in_before_its_first_request_at_every_split(autojump_clock, mechanism: str) -> None:
    for split_at in range(0, 140, 7 if mechanism != "SCRAM-SHA-256" else 1):
        broker = SaslBroker()
        broker.split_at = split_at
        connection = client(broker, mechanism)
        await connection.negotiate()
        assert await find(connection) == "group"
        tokens = 1 if mechanism == "PLAIN" else 2
        assert broker.seen == ["ApiVersions", "SaslHandshake", *["SaslAuthenticate"] * tokens, "FindCoordinator"]
        assert broker.login.identity is not None
        assert (broker.login.identity.user, broker.login.identity.mechanism) == ("alice", mechanism)


@pytest.mark.parametrize("mechanism", CLIENT_MECHANISMS)
async def test_a_wrong_password_is_final_and_told_in_the_words_of_the_broker(autojump_clock, mechanism: str) -> None:
    with pytest.raises(AuthenticationError, match="^127.0.0.1:9092: Authentication failed") as refused:
        await client(SaslBroker(), mechanism, "wrong").negotiate()
    assert refused.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "wrong" not in str(refused.value)


@pytest.mark.parametrize(
    ("code", "mechanisms", "text"),
    [
        (33, ["GSSAPI", "SCRAM-SHA-512"], "does not enable the SASL mechanism PLAIN: it has GSSAPI, SCRAM-SHA-512"),
        (33, [], "it has none"),
        (34, [], "the listener takes no log-in"),
        (4711, [], "the listener takes no log-in"),
    ],
)
async def test_a_refused_handshake_is_final(autojump_clock, code: int, mechanisms: list[str], text: str) -> None:
    class Refusing(SaslBroker):
        def response(self, header: RequestHeader, request: Any) -> Any:
            if isinstance(request, SaslHandshakeRequest):
                return SaslHandshakeResponse(code, mechanisms)
            return super().response(header, request)

    with pytest.raises(AuthenticationError, match=text) as refused:
        await client(Refusing()).negotiate()
    assert refused.value.code == (code if code < 100 else ErrorCode.UNKNOWN_SERVER_ERROR)


async def test_a_refusal_without_words_has_the_name_of_its_code_and_a_false_broker_none(autojump_clock) -> None:
    class Answering(SaslBroker):
        answer_to_token = SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, None)

        def response(self, header: RequestHeader, request: Any) -> Any:
            is_token = isinstance(request, SaslAuthenticateRequest)
            return self.answer_to_token if is_token else super().response(header, request)

    with pytest.raises(AuthenticationError, match="ILLEGAL_SASL_STATE$"):
        await client(Answering()).negotiate()
    Answering.answer_to_token = SaslAuthenticateResponse(auth_bytes=b"rubbish")
    with pytest.raises(AuthenticationError, match="no first message of SCRAM") as refused:
        await client(Answering(), "SCRAM-SHA-256").negotiate()
    assert refused.value.code is None


async def test_the_log_in_has_the_time_limit_of_the_negotiation(autojump_clock) -> None:
    class Silenced(SaslBroker):
        def response(self, header: RequestHeader, request: Any) -> Any:
            return super().response(header, request) if isinstance(request, ApiVersionsRequest) else None

    with pytest.raises(Silent):
        await client(Silenced()).negotiate(5)
    assert trio.current_time() == pytest.approx(5)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
async def test_a_session_is_renewed_before_it_ends_and_requests_wait_for_that(autojump_clock, mechanism: str) -> None:
    broker = SaslBroker(LIFETIME_MS)
    connection = client(broker, mechanism)
    await connection.negotiate()
    for at, expected in ((DUE_S - 0.01, []), (DUE_S, ["SaslHandshake"]), (2 * DUE_S - 0.01, []), (2 * DUE_S, None)):
        await trio.sleep(at - trio.current_time())
        broker.seen.clear()
        earlier = connection.ask_nowait(FindCoordinatorRequest(key_="earlier"), 3) if at == DUE_S - 0.01 else None
        assert await find(connection, str(at)) == str(at)
        assert broker.seen[-1] == "FindCoordinator"
        assert broker.seen[: len(expected or [])] == (expected or [])
        assert ("SaslHandshake" in broker.seen) == (at in (DUE_S, 2 * DUE_S))
        assert earlier is None or earlier.result().host == "earlier"
    assert broker.login.before is not None


async def test_responses_to_earlier_requests_arrive_while_the_client_authenticates_again(autojump_clock) -> None:
    broker = SaslBroker(LIFETIME_MS)
    connection = client(broker)
    sent: list[int] = []
    await connection.negotiate()
    connection.call_when_sent(lambda: sent.append(len(broker.seen)))
    broker.held = []
    earlier = connection.ask_nowait(FindCoordinatorRequest(key_="earlier"), 3)
    await trio.sleep(DUE_S)
    broker.seen.clear()
    later = [connection.ask_nowait(FindCoordinatorRequest(key_=each), 3) for each in ("a", "b")]
    later[1].expires_at = 77
    assert broker.seen == ["SaslHandshake"]
    assert (connection.pending_count, connection.expires_at, connection.has_unsent) == (4, 77, True)
    broker.let_go()
    await trio.testing.wait_all_tasks_blocked()
    assert [each.result().host for each in (earlier, *later)] == ["earlier", "a", "b"]
    assert broker.seen == ["SaslHandshake", "SaslAuthenticate", "FindCoordinator", "FindCoordinator"]
    assert (connection.pending_count, connection.has_unsent, sent) == (0, False, [4])


async def test_a_failed_renewal_ends_the_connection_and_all_requests(autojump_clock) -> None:
    broker = SaslBroker(LIFETIME_MS)
    connection = client(broker)
    await connection.negotiate()
    await trio.sleep(DUE_S)
    broker.login._mechanisms["PLAIN"]._users.clear()  # type: ignore[attr-defined]
    held = connection.ask_nowait(FindCoordinatorRequest(key_="held"), 3)
    with pytest.raises(AuthenticationError, match="Invalid username or password"):
        await connection.response(held)
    assert broker.is_closed
    with pytest.raises(Disconnected):
        connection.ask_nowait(FindCoordinatorRequest(key_="after"), 3)


async def test_requests_that_wait_for_the_renewal_end_with_the_connection(autojump_clock) -> None:
    broker = SaslBroker(LIFETIME_MS)
    connection = client(broker)
    await connection.negotiate()
    await trio.sleep(DUE_S)
    broker.is_deaf = True
    with pytest.raises(Silent):
        await connection.ask(FindCoordinatorRequest(key_="held"), 3, 5)
    assert broker.is_closed
    assert connection.pending_count == 0
