"""AlterUserScramCredentials (51), v0: set and delete SCRAM credentials of users (KIP-554).

Credentials are stored and described, but no client can log in with them, because SASL is not supported.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pykbroker.quorum.active_controller import ActiveController
from pykbroker.server.handler import Handler, Later, RequestContext
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


class AlterUserScramCredentials(Handler, msgspec.Struct, frozen=True):
    """A handler that passes the request to the controller."""

    key: ClassVar = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    versions: ClassVar[str] = "0"
    controller: ActiveController

    def __call__(self, context: RequestContext, request: AlterUserScramCredentialsRequest) -> Later:
        return Later(self.controller.ask(request), holds_connection=True, awaits_node=True)

    def refuse(self, request: AlterUserScramCredentialsRequest, code: ErrorCode) -> AlterUserScramCredentialsResponse:
        """Return a response with the error `code` for every user."""
        names = [deletion.name for deletion in request.deletions] + [upsertion.name for upsertion in request.upsertions]
        return AlterUserScramCredentialsResponse(
            results=[AlterUserScramCredentialsResult(name, code, None) for name in dict.fromkeys(names)]
        )
