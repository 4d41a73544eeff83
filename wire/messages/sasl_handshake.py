"""The messages of SaslHandshake (API key 17), versions 0-1, never flexible."""

from typing import ClassVar

from wire.api import ApiKey
from wire.declare import Int16, Request, Response


class SaslHandshakeRequest(Request["SaslHandshakeResponse"]):
    key: ClassVar = ApiKey.SASL_HANDSHAKE
    versions: ClassVar = "0-1"
    flexible: ClassVar = "none"

    mechanism: str = ""


class SaslHandshakeResponse(Response):
    key: ClassVar = ApiKey.SASL_HANDSHAKE
    versions: ClassVar = "0-1"
    flexible: ClassVar = "none"

    error_code: Int16 = 0
    mechanisms: list[str] = []
