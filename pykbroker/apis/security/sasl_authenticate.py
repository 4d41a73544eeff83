"""SaslAuthenticate (36), v0-2: a token of the SASL mechanism that was agreed upon.

v1 session lifetime (KIP-368)   v2 flexible
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pykbroker.server.handler import RequestContext
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


class SaslAuthenticate(msgspec.Struct, frozen=True):
    """Refuses: no mechanism was agreed upon, and who is connected without SASL counts as authenticated."""

    key: ClassVar = ApiKey.SASL_AUTHENTICATE
    versions: ClassVar[str] = "0-2"

    def __call__(self, context: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received after successful authentication",
        )
