"""ExpireDelegationToken (40), v1-2: bring a token's expiry forward, or expire it now (KIP-48).

v2 flexible
"""

from __future__ import annotations

from pykbroker.server.handler import ApiHandler, RequestContext
from wire.error_codes import ErrorCode
from wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from wire.sentinels import NO_TIMESTAMP


class ExpireDelegationToken(ApiHandler, frozen=True):
    """A handler that refuses the request, as Kafka does on a listener without authentication."""

    def __call__(self, context: RequestContext, request: ExpireDelegationTokenRequest) -> ExpireDelegationTokenResponse:
        return ExpireDelegationTokenResponse(
            error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=NO_TIMESTAMP
        )
