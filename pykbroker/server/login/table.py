"""The table of APIs of one connection until its client has logged in, and while its session has a lifetime."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec

from pykbroker.core.errors import ApiError
from pykbroker.core.security.sasl.login import Action, Login, LoginState, RequestKind
from pykbroker.core.security.sasl.mechanism import (
    CLAIM_CHARS_MAX,
    AuthenticationFailed,
    Challenge,
    Computation,
    Mechanism,
)
from pykbroker.core.security.session import Session
from pykbroker.core.steps import Steps
from pykbroker.server.ending import ConnectionEnding
from pykbroker.server.failure import failure
from pykbroker.server.frames import FrameReader
from pykbroker.server.handler import Answer, CloseConnection, EncodedResponse, Handler, Later, RequestContext
from pykbroker.server.login.frames import LoginFrames
from pykbroker.server.login.refusal import LoginRefused
from pykbroker.server.shared import Routes, Shared
from pykbroker.server.table import Route
from wire.api import ApiKey
from wire.declare import Buffer, Response
from wire.error_codes import ErrorCode
from wire.messages.sasl_authenticate import SaslAuthenticateResponse
from wire.messages.sasl_handshake import SaslHandshakeResponse

NOT_LOGGED_IN = (
    "the client sends a request before it logs in: set security.protocol=SASL_PLAINTEXT in the client, or SASL_SSL if"
    " the listener has TLS"
)
WRONG_ORDER = "the client sends another request in the middle of its log-in"
OTHER_MECHANISM = "the client authenticates again by another SASL mechanism"
SESSION_ENDED = "the session has ended, and the client does not authenticate again"

KINDS: dict[int, RequestKind] = {
    ApiKey.API_VERSIONS: RequestKind.VERSIONS,
    ApiKey.SASL_HANDSHAKE: RequestKind.HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE: RequestKind.TOKEN,
}


class SaslClient(Protocol):
    """The part of a connection that its log-in uses."""

    session: Session
    ended: bool
    wants_turn: bool
    """Whether the connection has received bytes to handle."""

    def change_table(self, table: Routes, shared: Shared) -> None:
        """Look further requests up in `table`, and keep to the memory budget of `shared`."""

    def change_frames(self, frames: FrameReader) -> None:
        """Split further bytes by another reader."""


class SaslListener(msgspec.Struct, frozen=True):
    """The log-in of one listener, which its connections share. `reauth_ms` is `connections.max.reauth.ms` by mechanism.

    `nonce` returns random text that no one can predict. `compute` runs a function off the event loop for a client, and
    returns None if the client has gone before its turn comes.
    """

    mechanisms: Mapping[str, Mechanism]
    reauth_ms: Mapping[str, int]
    receive_bytes_max: int
    """The maximum size of a request before the log-in is complete."""
    failure_delay_s: float
    """The time from a failed log-in to its response, in which the connection is not read."""
    nonce: Callable[[], str]
    compute: Callable[[SaslClient, Callable[[], bytes]], Awaitable[bytes | None]]


class Clients(Protocol):
    """The connections that have a log-in, as their tables see them."""

    @property
    def routes(self) -> Routes:
        """Return the table of the three APIs of a log-in, whose handlers call the `SaslTable` of the connection."""

    @property
    def token_route(self) -> Route:
        """Return the route of a token without a request header."""

    def logged_in(self, client: SaslClient, *, again_ns: int | None, can_again: bool, keeps_table: bool) -> None:
        """Note that a client has logged in. It keeps its table if the session has a lifetime.

        `again_ns` is the time that a re-authentication took, or None for a first log-in. `can_again` is whether the
        client can authenticate again on its connection (KIP-368).
        """

    def failed(self, client: SaslClient, *, is_again: bool) -> None:
        """Note that a client has failed to log in."""

    async def delay(self, seconds: float) -> None:
        """Wait for the delay after a failed log-in."""

    def expired(self, client: SaslClient) -> None:
        """Note that the connection of a client ends with its session."""


class SaslTable:
    """The table of one connection: it begins and continues the log-in of the client. It matches `server.shared.Routes`.

    `shared` has the table and the limits of the listener for clients that have logged in.
    """

    __slots__ = ("_can_again", "_client", "_clients", "_frames", "_listener", "_login", "_shared", "_ticks")

    def __init__(self, client: SaslClient, clients: Clients, listener: SaslListener, shared: Shared) -> None:
        self._client, self._clients, self._listener, self._shared = client, clients, listener, shared
        self._ticks = shared.turns.ticks
        self._can_again = False
        self._login = Login(listener.mechanisms, listener.reauth_ms, self._ticks())
        self._frames = LoginFrames(listener.receive_bytes_max, shared.pool)
        client.change_frames(self._frames)

    def __getitem__(self, key_version: int) -> Route:
        login = self._login
        kind = KINDS.get(key_version >> 16, RequestKind.OTHER)
        if login.state is LoginState.COMPLETE:
            if not self._begins_again(kind):
                return self._shared.table[key_version]
            login = self._login
        if self._frames.takes_raw_tokens:
            kind = RequestKind.TOKEN
        action = login.action(kind)
        if action is Action.END:
            raise LoginRefused(NOT_LOGGED_IN)
        if action is Action.ANSWER:
            return self._clients.token_route if self._frames.takes_raw_tokens else self._clients.routes[key_version]
        if self._frames.takes_raw_tokens:
            return UnansweredRoute(self._clients.token_route, self, is_answered=False)
        return UnansweredRoute(self._shared.table[key_version], self, is_answered=action is Action.REFUSE)

    # ---- calls of the handlers

    def versions(self, *, is_error: bool) -> None:
        """Note that ApiVersions is answered."""
        self._login.versions_answered(is_error=is_error)

    def handshake(self, mechanism: str, version: int) -> Answer:
        """Return the response to SaslHandshake."""
        listener, login = self._listener, self._login
        names = list(listener.mechanisms)
        try:
            login.handshake(mechanism, version, listener.nonce())
        except AuthenticationFailed as error:
            if login.before is not None:
                raise LoginRefused(error.reason) from None  # as Kafka, which does not answer here
            response = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=names)
            return self.refuse(error.reason, response, claimed("mechanism", mechanism))
        if login.takes_raw_tokens:
            self._frames.takes_raw_tokens = self._client.wants_turn = True
        return SaslHandshakeResponse(mechanisms=names)

    def token(self, token: bytes, version: int) -> Answer:
        """Return the response to a token, which may complete the log-in. `version` is that of SaslAuthenticate."""
        self._can_again = version > 0
        try:
            answer = self._login.token(token, self._ticks())
        except AuthenticationFailed as error:
            return self._failed(error)
        if isinstance(answer, Computation):
            # As in `refuse`, clients that log in do not count as requests that wait for this broker.
            return Later(self._compute(answer), holds_connection=True, awaits_node=True)
        return self._answered(answer)

    async def _compute(self, computation: Computation) -> Answer:
        client = self._client
        result = await self._listener.compute(client, computation.compute)
        if result is None or client.ended:  # a log-in would let the closed connection into the tables and the budget
            raise CloseConnection
        try:
            challenge = self._login.computed(computation, result, self._ticks())
        except AuthenticationFailed as error:
            return self._failed(error)
        return self._answered(challenge)

    def _failed(self, error: AuthenticationFailed) -> Answer:
        login = self._login
        response = SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=login.message(error)
        )
        reason = f"its log-in by {login.mechanism} failed: {error.reason}"
        return self.refuse(reason, None if self._frames.takes_raw_tokens else response, claimed("user", error.user))

    def _answered(self, challenge: Challenge) -> Answer:
        login = self._login
        if self._frames.takes_raw_tokens:
            self._client.wants_turn = True  # the next token waits without a header
        if login.state is LoginState.COMPLETE:
            self._logged_in()
        return SaslAuthenticateResponse(auth_bytes=challenge.token, session_lifetime_ms=login.lifetime_ms)

    def refuse(self, reason: str, response: Response | None, detail: str = "") -> Later:
        """Return the end of the connection after the delay, with a last response or without."""
        self._login.fail()
        self._clients.failed(self._client, is_again=self._login.before is not None)
        # The delay does not count as a request that waits for this broker, so that failures do not stop other requests.
        return Later(self._end_late(reason, response, detail), holds_connection=True, awaits_node=True)

    async def _end_late(self, reason: str, response: Response | None, detail: str) -> Answer:
        await self._clients.delay(self._listener.failure_delay_s)
        raise LoginRefused(reason, response, detail=detail)

    # ---- the session

    def _logged_in(self) -> None:
        client, login, shared = self._client, self._login, self._shared
        assert login.identity is not None
        client.session = msgspec.structs.replace(client.session, principal=f"User:{login.identity.user}")
        self._frames.takes_raw_tokens = False
        keeps_table = login.expires_at is not None
        if keeps_table:  # a token of the next log-in may follow its SaslHandshake in the bytes that are handled now
            self._frames.bytes_max = shared.request_bytes_max
        else:
            client.change_frames(FrameReader(shared.request_bytes_max, shared.pool))
        client.change_table(self if keeps_table else shared.table, shared)
        again_ns = None if login.before is None else self._ticks() - login.begun_at
        self._clients.logged_in(client, again_ns=again_ns, can_again=self._can_again, keeps_table=keeps_table)

    def _begins_again(self, kind: RequestKind) -> bool:
        """Whether the request begins another log-in. Raise LoginRefused if the session has ended, and it does not."""
        login, now = self._login, self._ticks()
        if kind is RequestKind.HANDSHAKE and login.may_begin_again(now):
            self._login = login.again(now)
            self._frames.bytes_max = self._listener.receive_bytes_max
            return True
        assert login.expires_at is not None
        if now > login.expires_at:
            self._clients.expired(self._client)
            raise LoginRefused(SESSION_ENDED, ending=ConnectionEnding.EXPIRED_SESSION)
        return False


class Unanswered(Handler, msgspec.Struct, frozen=True):
    """The handler of a request that ends a log-in: the connection ends after the delay.

    If `is_answered` is true, the client gets the error response of `route` before, if that API has one and the request
    is not large.
    """

    route: Route
    table: SaslTable
    is_answered: bool

    def __call__(self, context: RequestContext, request: bytes) -> Answer:
        if not self.is_answered:
            return self.table.refuse(OTHER_MECHANISM, None)
        return self.table.refuse(WRONG_ORDER, self._error(request))

    def handle_large(self, context: RequestContext, request: bytes) -> Answer:
        return self.table.refuse(WRONG_ORDER if self.is_answered else OTHER_MECHANISM, None)

    def _error(self, request: bytes) -> Response | None:
        try:
            decoded = self.route.decode(request, 0, len(request))
            response = failure(self.route, decoded, ApiError(ErrorCode.ILLEGAL_SASL_STATE))
        except CloseConnection:
            return None
        encoded = EncodedResponse([])
        self.route.encode(response, encoded.parts)
        return encoded


class UnansweredRoute(Route):
    """The route of a request that ends a log-in.

    The request stays encoded, and so does its response. The objects of both take more than twenty times the memory,
    which a stranger could let the broker keep until the delay is over.
    """

    __slots__ = ()

    def __init__(self, route: Route, table: SaslTable, *, is_answered: bool) -> None:
        super().__init__(route.key, route.version, Unanswered(route, table, is_answered))
        self.decode = keep

    def decode_in_steps(self, data: Buffer, pos: int, end: int) -> Steps[Any]:
        return keep(data, pos, end)
        yield


def claimed(kind: str, text: str) -> str:
    """Return what the client claims, for the end of a log line: the name of a user or a mechanism, or nothing."""
    return f" ({kind} {text[:CLAIM_CHARS_MAX]!r})" if text else ""


def keep(data: Buffer, pos: int, end: int) -> bytes:
    """Return a request as it is."""
    return bytes(data[pos:end])
