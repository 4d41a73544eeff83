"""A client of a listener with SASL, on a connection without a socket."""

from __future__ import annotations

import struct
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import trio
import trio.testing

from pykbroker.core.security.sasl.mechanism import Mechanism
from pykbroker.core.security.sasl.plain import Plain
from pykbroker.core.security.sasl.plain_by_scram import PlainByScram
from pykbroker.core.security.sasl.scram import SHA_256, Scram, UnknownUsers, scram_credential
from pykbroker.core.security.secret import Secret
from pykbroker.server.authentications import Authentications
from pykbroker.server.handler import RequestContext
from pykbroker.server.login.logins import Logins
from pykbroker.server.login.table import SaslClient, SaslListener
from pykbroker.server.shared import Shared
from tests.unit.server.rig import Api, Rig
from wire.api import ApiKey
from wire.apis import APIS
from wire.declare import Request
from wire.error_codes import ErrorCode
from wire.frame import decode_response, encode_request
from wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from wire.messages.metadata import MetadataResponse
from wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

RECEIVE_BYTES_MAX = 50_000
DELAY_S = 0.1
GOOD, WRONG = b"\0alice\0secret", b"\0alice\0wrong"
INVALID = "Authentication failed: Invalid username or password"
SECOND_NS = 1_000_000_000
NAMES = ["PLAIN", "SCRAM-SHA-256", "LASTING", "BY_SCRAM"]


async def compute(client: SaslClient, function: Callable[[], bytes]) -> bytes | None:
    """Return the result of a function unless the client has gone, after other tasks have run."""
    await trio.lowlevel.checkpoint()
    return None if client.ended else function()


def listener(reauth_ms: int = 0) -> SaslListener:
    users = {"alice": Secret("secret"), "bob": Secret("secret")}
    credential = scram_credential(SHA_256, "secret", b"salt", 4096)
    mechanisms: dict[str, Mechanism] = {
        "PLAIN": Plain(users),
        "SCRAM-SHA-256": Scram(SHA_256, {"alice": credential}.get, lambda: UnknownUsers(b"key")),
        "LASTING": Plain(users),
        "BY_SCRAM": PlainByScram(
            lambda of, user: {"alice": credential}.get(user), lambda: UnknownUsers(b"key"), b"key"
        ),
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

    @property
    def counts(self) -> Authentications:
        """Return the counts of the listener."""
        return self.logins.counts[self.connection.session.listener]

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
