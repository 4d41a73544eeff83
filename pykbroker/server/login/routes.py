"""The three APIs that a client may use before it has logged in."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, ClassVar

import msgspec

from pykbroker.core.security.session import Session
from pykbroker.core.steps import Steps
from pykbroker.server.handler import Answer, Handler, RequestContext
from pykbroker.server.login.table import SaslTable
from pykbroker.server.table import ApiTable, Route
from wire.api import ApiKey
from wire.declare import Buffer, Response
from wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from wire.messages.sasl_handshake import SaslHandshakeRequest

TableOf = Callable[[Session], SaslTable]
"""A function that returns the log-in of a connection."""
pack_size = Struct(">i").pack


class LoginVersions(Handler, msgspec.Struct, frozen=True):
    """ApiVersions, as the listener answers it."""

    key: ClassVar = ApiKey.API_VERSIONS
    versions: str  # type: ignore[misc]  # those of the listener
    handler: Handler
    table_of: TableOf

    def __call__(self, context: RequestContext, request: ApiVersionsRequest) -> Answer:
        answer = self.handler(context, request)
        assert isinstance(answer, ApiVersionsResponse)
        self.table_of(context.session).versions(is_error=answer.error_code != 0)
        return answer


class LoginHandshake(Handler, msgspec.Struct, frozen=True):
    """SaslHandshake, which chooses the mechanism of a log-in."""

    key: ClassVar = ApiKey.SASL_HANDSHAKE
    versions: ClassVar[str] = "0-1"
    table_of: TableOf

    def __call__(self, context: RequestContext, request: SaslHandshakeRequest) -> Answer:
        return self.table_of(context.session).handshake(request.mechanism, context.version)


class LoginAuthenticate(Handler, msgspec.Struct, frozen=True):
    """SaslAuthenticate, which has a token of the mechanism."""

    key: ClassVar = ApiKey.SASL_AUTHENTICATE
    versions: ClassVar[str] = "0-2"
    table_of: TableOf

    def __call__(self, context: RequestContext, request: SaslAuthenticateRequest) -> Answer:
        return self.table_of(context.session).token(bytes(request.auth_bytes), context.version)


class TokenRoute(Route):
    """The route of tokens without request headers. `LoginFrames` has put a header before each."""

    __slots__ = ()

    def __init__(self, handler: Handler) -> None:
        super().__init__(ApiKey.SASL_AUTHENTICATE, 0, handler)
        self.decode = read_token

    def decode_in_steps(self, data: Buffer, pos: int, end: int) -> Steps[Any]:
        return read_token(data, pos, end)
        yield

    def encode_in_steps(self, response: Response) -> Steps[Response]:
        """Return the response, whose token `frame` writes."""
        return response
        yield

    def frame(self, correlation_id: int, response: Response, out: list[Any]) -> None:
        """Append the token of the response to `out`, after its size."""
        assert isinstance(response, SaslAuthenticateResponse)
        out.append(pack_size(len(response.auth_bytes)) + response.auth_bytes)


def read_token(data: Buffer, pos: int, end: int) -> SaslAuthenticateRequest:
    """Return the request for a token."""
    return SaslAuthenticateRequest(auth_bytes=bytes(data[pos:end]))


def login_routes(table: ApiTable, table_of: TableOf) -> ApiTable:
    """Return the table of the three APIs. `table` is that of the listener."""
    versions = table.handlers[ApiKey.API_VERSIONS]
    return ApiTable(
        [LoginVersions(versions.versions, versions, table_of), LoginHandshake(table_of), LoginAuthenticate(table_of)]
    )
