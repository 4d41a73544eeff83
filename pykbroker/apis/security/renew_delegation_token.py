"""RenewDelegationToken (39), v1-2: extend a token's lifetime (KIP-48).

v2 flexible
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pykbroker.server.handler import Handler, RequestContext
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from wire.sentinels import NO_TIMESTAMP


class RenewDelegationToken(Handler, msgspec.Struct, frozen=True):
    """A handler that refuses the request, as Kafka does on a listener without authentication."""

    key: ClassVar = ApiKey.RENEW_DELEGATION_TOKEN
    versions: ClassVar[str] = "1-2"

    def __call__(self, context: RequestContext, request: RenewDelegationTokenRequest) -> RenewDelegationTokenResponse:
        return RenewDelegationTokenResponse(
            error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=NO_TIMESTAMP
        )
