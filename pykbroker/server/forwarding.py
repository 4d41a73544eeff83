"""The way of clients' requests to the active controller, in an Envelope if another process has it (KIP-590)."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import msgspec

from pykbroker.core.errors import ApiError
from pykbroker.core.security.forwarded import encode_host, encode_principal
from pykbroker.server.handler import CloseConnection, EncodedResponse, Handler, Later, RequestContext
from wire.api import ApiKey
from wire.apis import APIS
from wire.declare import Buffer, Request, Response
from wire.error_codes import ErrorCode
from wire.frame import LENGTH_BYTES, decode_response, encode_request
from wire.header import decode_response_header
from wire.messages.envelope import EnvelopeRequest, EnvelopeResponse

Rsp = TypeVar("Rsp", bound=Response)

FORWARD_S_MAX = 60.0
"""The time after which a forwarded request fails, while no controller answers it."""


class EnvelopeSender(Protocol):
    """A connection to the active controller."""

    async def ask(self, request: Request[EnvelopeResponse], /, *, s_max: float) -> EnvelopeResponse:
        """Return the response of the active controller. Raise ApiError REQUEST_TIMED_OUT after `s_max` seconds."""


class LocalController(Protocol):
    """The active controller in this process."""

    async def ask(self, request: Request[Rsp], /) -> Rsp:
        """Return the response once the change is committed."""


class ForwardedHandler(Handler):
    """A handler that forwards the requests of one API."""

    __slots__ = ("_sender", "key", "versions")

    def __init__(self, key: ApiKey, versions: str, sender: EnvelopeSender) -> None:
        self.key, self.versions, self._sender = key, versions, sender  # type: ignore[misc]

    def __call__(self, context: RequestContext, request: Any) -> Later:
        # the next request sees the change
        return Later(self._forward(context, request), holds_connection=True, awaits_node=True)

    async def _forward(self, context: RequestContext, request: Request[Any]) -> EncodedResponse:
        data = await forwarded(self._sender, context, request)
        _, pos = decode_response_header(data, 0, len(data), self.key, context.version)
        return EncodedResponse([data[pos:]])


class ControllerRequests(msgspec.Struct, frozen=True):
    """Requests of clients that the controller decides after their handlers have done a part themselves."""

    local: LocalController
    sender: EnvelopeSender | None = None
    """The connection to a controller in another process. It replaces `local`."""

    @property
    def are_authorized(self) -> bool:
        """Whether the controller authorizes the client, so that the handler need not."""
        return self.sender is not None

    async def ask(self, context: RequestContext, request: Request[Rsp]) -> Rsp:
        """Return the controller's response to a client's request. Raise the errors of both ways to the controller."""
        if self.sender is None:
            return await self.local.ask(request)
        data = await forwarded(self.sender, context, request)
        response_class: Any = APIS[request.key].response
        response: Rsp = decode_response(response_class, context.version, data)[1]
        return response


async def forwarded(sender: EnvelopeSender, context: RequestContext, request: Request[Any]) -> Buffer:
    """Return the controller's response to a client's request, with its header. The controller authorizes the client.

    Raise CloseConnection if the controller does not support the version of the request, as Kafka does, and ApiError
    UNKNOWN_SERVER_ERROR for any other error of the envelope.
    """
    session, key, version = context.session, ApiKey(request.key), context.version
    question = EnvelopeRequest(
        request_data=encode_request(request, version, 0, context.client_id)[LENGTH_BYTES:],
        request_principal=encode_principal(session.principal),
        client_host_address=encode_host(session.client_host),
    )
    envelope = await sender.ask(question, s_max=FORWARD_S_MAX)
    if envelope.error_code == ErrorCode.UNSUPPORTED_VERSION:
        raise CloseConnection(f"the controller does not support {key.name} version {version}")
    if envelope.error_code or envelope.response_data is None:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller refused to handle a forwarded {key.name}")
    return envelope.response_data
