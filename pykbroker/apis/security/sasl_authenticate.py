"""SaslAuthenticate (36), v0-2: exchange tokens of the negotiated SASL mechanism.

v1 session lifetime (KIP-368)   v2 flexible
"""

from __future__ import annotations

from pykbroker.server.handler import ApiHandler, RequestContext
from wire.error_codes import ErrorCode
from wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


class SaslAuthenticate(ApiHandler, frozen=True):
    """A handler that refuses the request: the listener has no SASL, or the client has logged in."""

    def __call__(self, context: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received after successful authentication",
        )
