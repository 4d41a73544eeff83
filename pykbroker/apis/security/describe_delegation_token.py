"""DescribeDelegationToken (41), v1-3: list delegation tokens (KIP-48).

v2 flexible   v3 token requesters (KIP-373)
"""

from __future__ import annotations

from pykbroker.core.security.delegation_token import refusal_code
from pykbroker.server.handler import ApiHandler, RequestContext
from wire.messages.describe_delegation_token import DescribeDelegationTokenRequest, DescribeDelegationTokenResponse


class DescribeDelegationToken(ApiHandler, frozen=True):
    """A handler that refuses the request, as Kafka does without `delegation.token.secret.key`."""

    def __call__(
        self, context: RequestContext, request: DescribeDelegationTokenRequest
    ) -> DescribeDelegationTokenResponse:
        return DescribeDelegationTokenResponse(error_code=refusal_code(context.session))
