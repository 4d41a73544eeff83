"""SaslHandshake (17), v0-1: negotiate the SASL mechanism of a connection.

v0 raw tokens follow   v1 SaslAuthenticate follows (KIP-152)
"""

from __future__ import annotations

from pykbroker.core.security.session import ANONYMOUS
from pykbroker.server.handler import ApiHandler, RequestContext
from pykbroker.server.strangers import SASL, Strangers
from wire.error_codes import ErrorCode
from wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


class SaslHandshake(ApiHandler, frozen=True):
    """A handler that refuses the request: the listener has no SASL, or the client has logged in."""

    strangers: Strangers

    def __call__(self, context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
        session = context.session
        if session.principal == ANONYMOUS:
            self.strangers.report(session, SASL.format("PLAINTEXT" if session.tls is None else "SSL"))
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
