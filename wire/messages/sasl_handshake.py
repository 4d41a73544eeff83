"""The messages of SaslHandshake (API key 17), versions 0-1, never flexible."""

from wire.declare import Int16, Request, Response


class SaslHandshakeRequest(Request["SaslHandshakeResponse"]):
    mechanism: str = ""


class SaslHandshakeResponse(Response):
    error_code: Int16 = 0
    mechanisms: list[str] = []
