"""The messages of Envelope (API key 58), version 0, flexible."""

from typing import Annotated

from wire.declare import Int16, Request, Response, V


class EnvelopeRequest(Request["EnvelopeResponse"]):
    request_data: bytes = b""
    request_principal: Annotated[bytes | None, V(nullable="0+")] = b""
    client_host_address: bytes = b""


class EnvelopeResponse(Response):
    response_data: Annotated[bytes | None, V(nullable="0+")] = None
    error_code: Int16 = 0
