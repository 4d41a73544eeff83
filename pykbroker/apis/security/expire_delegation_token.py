"""ExpireDelegationToken (40), v1-2: bring a token's expiry forward, or expire it now (KIP-48).

v2 flexible
"""

from __future__ import annotations

from pykbroker.core.security.delegation_token import refusal_code
from pykbroker.server.handler import ApiHandler, RequestContext
from wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from wire.sentinels import NO_TIMESTAMP


class ExpireDelegationToken(ApiHandler, frozen=True):
    """A handler that refuses the request, as Kafka does without `delegation.token.secret.key`."""

    def __call__(self, context: RequestContext, request: ExpireDelegationTokenRequest) -> ExpireDelegationTokenResponse:
        return ExpireDelegationTokenResponse(error_code=refusal_code(context.session), expiry_timestamp_ms=NO_TIMESTAMP)
