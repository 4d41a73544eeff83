"""The handler that forwards requests to the active controller in an Envelope (KIP-590)."""

from __future__ import annotations

from typing import Any, Protocol

from pykbroker.core.errors import ApiError
from pykbroker.core.security.forwarded import encode_host, encode_principal
from pykbroker.server.handler import CloseConnection, EncodedResponse, Handler, Later, RequestContext
from wire.api import ApiKey
from wire.declare import Request
from wire.error_codes import ErrorCode
from wire.frame import LENGTH_BYTES, encode_request
from wire.header import decode_response_header
from wire.messages.envelope import EnvelopeRequest, EnvelopeResponse

FORWARD_S_MAX = 60.0
"""The time after which a forwarded request fails, while no controller answers it."""


class EnvelopeSender(Protocol):
    """A connection to the active controller."""

    async def ask(self, request: Request[EnvelopeResponse], /, *, s_max: float) -> EnvelopeResponse:
        """Return the response of the active controller. Raise ApiError REQUEST_TIMED_OUT after `s_max` seconds."""


class ForwardedHandler(Handler):
    """A handler that forwards the requests of one API."""

    __slots__ = ("_sender", "key", "versions")

    def __init__(self, key: ApiKey, versions: str, sender: EnvelopeSender) -> None:
        self.key, self.versions, self._sender = key, versions, sender  # type: ignore[misc]

    def __call__(self, context: RequestContext, request: Any) -> Later:
        # the next request sees the change
        return Later(self._forward(context, request), holds_connection=True, awaits_node=True)

    async def _forward(self, context: RequestContext, request: Request[Any]) -> EncodedResponse:
        session = context.session
        envelope = EnvelopeRequest(
            request_data=encode_request(request, context.version, 0, context.client_id)[LENGTH_BYTES:],
            request_principal=encode_principal(session.principal),
            client_host_address=encode_host(session.client_host),
        )
        response = await self._sender.ask(envelope, s_max=FORWARD_S_MAX)
        return unwrapped(response, self.key, context.version)


def unwrapped(envelope: EnvelopeResponse, key: ApiKey, version: int) -> EncodedResponse:
    """Return the response in an envelope.

    Raise CloseConnection if the controller does not support the version of the request, as Kafka does, and ApiError
    UNKNOWN_SERVER_ERROR for any other error of the envelope.
    """
    if envelope.error_code == ErrorCode.UNSUPPORTED_VERSION:
        raise CloseConnection(f"the controller does not support {key.name} version {version}")
    if envelope.error_code or envelope.response_data is None:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller refused to handle a forwarded {key.name}")
    data = envelope.response_data
    _, pos = decode_response_header(data, 0, len(data), key, version)
    return EncodedResponse([data[pos:]])
