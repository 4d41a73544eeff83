"""The messages of Envelope (API key 58), version 0, flexible."""

from typing import Annotated

from wire.declare import Int16, Request, Response, SecretBytes, V


class EnvelopeRequest(Request["EnvelopeResponse"]):
    request_data: SecretBytes = b""
    request_principal: Annotated[bytes | None, V(nullable="0+", sensitive=True)] = b""
    client_host_address: bytes = b""


class EnvelopeResponse(Response):
    response_data: Annotated[bytes | None, V(nullable="0+", sensitive=True)] = None
    error_code: Int16 = 0
