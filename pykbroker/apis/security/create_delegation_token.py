"""CreateDelegationToken (38), v1-3: create a token that authenticates its holder as a principal (KIP-48).

v2 flexible   v3 a token for another owner (KIP-373)
"""

from __future__ import annotations

from pykbroker.core.security.delegation_token import refusal_code
from pykbroker.server.handler import ApiHandler, RequestContext
from wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from wire.sentinels import NO_TIMESTAMP

REQUESTER_VERSION_FIRST = 3


class CreateDelegationToken(ApiHandler, frozen=True):
    """A handler that refuses the request, as Kafka does without `delegation.token.secret.key`."""

    def __call__(self, context: RequestContext, request: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
        kind, _, name = context.session.principal.partition(":")
        response = CreateDelegationTokenResponse(
            error_code=refusal_code(context.session),
            principal_type=request.owner_principal_type or kind,
            principal_name=request.owner_principal_name or name,
            issue_timestamp_ms=NO_TIMESTAMP,
            expiry_timestamp_ms=NO_TIMESTAMP,
            max_timestamp_ms=NO_TIMESTAMP,
        )
        if context.version >= REQUESTER_VERSION_FIRST:
            response.token_requester_principal_type, response.token_requester_principal_name = kind, name
        return response
