"""The messages of SaslAuthenticate (API key 36), versions 0-2, flexible from version 2.

- Version 1 adds `session_lifetime_ms` to the response.
- Version 2 is flexible.
"""

from typing import Annotated

from wire.declare import Int16, Int64, Request, Response, SecretBytes, V


class SaslAuthenticateRequest(Request["SaslAuthenticateResponse"]):
    auth_bytes: SecretBytes = b""


class SaslAuthenticateResponse(Response):
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    auth_bytes: SecretBytes = b""
    session_lifetime_ms: Annotated[Int64, V("1+", ignorable=True)] = 0
