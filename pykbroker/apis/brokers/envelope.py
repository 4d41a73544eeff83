"""Envelope (58), v0: handle a request that a broker forwards for one of its clients (KIP-590).

The response has that of the forwarded request, or the error of the envelope: PRINCIPAL_DESERIALIZATION_FAILURE,
INVALID_REQUEST for a client address that cannot be read or an API that must not be forwarded, such as Envelope,
UNSUPPORTED_VERSION for a forwarded request that cannot be read, after which the broker closes the client's connection,
and NOT_CONTROLLER if another controller is active.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from pykbroker.core.errors import ApiError
from pykbroker.core.security.forwarded import decode_host, decode_principal
from pykbroker.core.security.session import Session
from pykbroker.server.failure import failure
from pykbroker.server.handler import ApiHandler, CloseConnection, EncodedResponse, Later, RequestContext
from pykbroker.server.table import ApiTable, Route
from pykbroker.server.work import response_of
from pykbroker.world.turns import Turns
from wire.declare import Buffer, Response
from wire.error_codes import ErrorCode
from wire.errors import DecodeError
from wire.header import RequestHeader, decode_request_header, encode_response_header
from wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from wire.schema import fields_of


class Envelope(ApiHandler, frozen=True):
    """A handler that passes the forwarded request to its own handler. `table` has the APIs that may be forwarded."""

    table: ApiTable
    turns: Turns

    def __call__(self, context: RequestContext, request: EnvelopeRequest) -> Later:
        return Later(self._answer(context.session, request), holds_connection=False)

    async def _answer(self, outer: Session, request: EnvelopeRequest) -> EnvelopeResponse:
        try:
            header, route, inner, session = self._opened(outer, request)
        except ApiError as error:
            return EnvelopeResponse(error_code=error.code)
        try:
            response = await self._handle(RequestContext(header.version, header.client_id, session), route, inner)
        except CloseConnection:
            return EnvelopeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        if names_not_controller(response):
            return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
        return EnvelopeResponse(response_data=await self._encoded(route, header, response))

    def _opened(self, outer: Session, request: EnvelopeRequest) -> tuple[RequestHeader, Route, Any, Session]:
        """Return the header, the route, the forwarded request and the session of its client.

        Raise ApiError with the error of the envelope, which depends on its first part that cannot be read, as in Kafka.
        """
        try:
            principal = decode_principal(request.request_principal or b"")
        except DecodeError as error:
            raise ApiError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE) from error
        try:
            session = forwarded_session(outer, principal, decode_host(request.client_host_address))
        except DecodeError as error:
            raise ApiError(ErrorCode.INVALID_REQUEST) from error
        data = request.request_data
        try:
            header, pos = decode_request_header(data, 0, len(data))
            if header.key not in self.table.handlers:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"API key {header.key} is not forwarded")
            route = self.table[header.key << 16 | header.version]
            return header, route, route.decode(data, pos, len(data)), session
        except DecodeError as error:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION) from error

    async def _handle(self, context: RequestContext, route: Route, inner: Any) -> Response:
        """Return the response of the API's handler, or its error response."""
        try:
            answer = route.handler(context, inner)
            if isinstance(answer, Later):
                return await response_of(answer, self.turns, goes_on)
        except CloseConnection:
            raise
        except Exception as error:  # noqa: BLE001 - `failure` answers and logs what a handler raises
            if isinstance(error, ApiError) and error.code == ErrorCode.NOT_CONTROLLER:
                return EnvelopeResponse(error_code=error.code)
            return failure(route, inner, error)
        return answer

    async def _encoded(self, route: Route, header: RequestHeader, response: Response) -> bytes:
        """Return the response with its header, as its client's broker would send it."""
        encoded = await self.turns.through(route.encode_in_steps(response))
        assert isinstance(encoded, EncodedResponse)
        parts: list[Buffer] = [encode_response_header(header.key, header.version, header.correlation_id)]
        return b"".join(parts + encoded.parts)


def goes_on(_later: Later) -> None:
    """Do nothing: a forwarded request never blocks the connection of its broker."""


def forwarded_session(outer: Session, principal: str, client_host: str) -> Session:
    """Return the session of the client that sent the request to the forwarding broker."""
    return replace(outer, client_host=client_host, client_port=0, principal=principal)


def names_not_controller(response: Response) -> bool:
    """Whether the response, or one of its results, has the error NOT_CONTROLLER."""
    names = {field.name for field in fields_of(type(response))} if not isinstance(response, EncodedResponse) else set()
    values = [getattr(response, name) for name in names]
    results = [response, *(one for value in values if isinstance(value, list) for one in value)]
    return any(getattr(one, "error_code", 0) == ErrorCode.NOT_CONTROLLER for one in results)
