"""RenewDelegationToken (39), v1-2: extend a token's lifetime (KIP-48).

v2 flexible
"""

from __future__ import annotations

from pykbroker.core.security.delegation_token import refusal_code
from pykbroker.server.handler import ApiHandler, RequestContext
from wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from wire.sentinels import NO_TIMESTAMP


class RenewDelegationToken(ApiHandler, frozen=True):
    """A handler that refuses the request, as Kafka does without `delegation.token.secret.key`."""

    def __call__(self, context: RequestContext, request: RenewDelegationTokenRequest) -> RenewDelegationTokenResponse:
        return RenewDelegationTokenResponse(error_code=refusal_code(context.session), expiry_timestamp_ms=NO_TIMESTAMP)
