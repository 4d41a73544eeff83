"""AlterUserScramCredentials (51), v0: users' SCRAM credentials set and deleted (KIP-554).

They are stored and described; without SASL nothing logs in with them.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pykbroker.core.errors import ApiError
from pykbroker.core.security.authorizer import Authorizer
from pykbroker.core.security.permissions import permitted
from pykbroker.quorum.controller import Controller
from pykbroker.server.handler import Held, RequestContext
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


class AlterUserScramCredentials(msgspec.Struct, frozen=True):
    """Authorises; all else is the controller's."""

    key: ClassVar = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    versions: ClassVar[str] = "0"
    controller: Controller
    authorizer: Authorizer

    def __call__(self, context: RequestContext, request: AlterUserScramCredentialsRequest) -> Held:
        if not permitted(self.authorizer, context.principal, self.key):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return Held(self.controller.alter_user_scram_credentials(request))

    def refuse(self, request: AlterUserScramCredentialsRequest, code: ErrorCode) -> AlterUserScramCredentialsResponse:
        """The same error for each user."""
        names = [deletion.name for deletion in request.deletions] + [upsertion.name for upsertion in request.upsertions]
        return AlterUserScramCredentialsResponse(
            results=[AlterUserScramCredentialsResult(name, code, None) for name in dict.fromkeys(names)]
        )
