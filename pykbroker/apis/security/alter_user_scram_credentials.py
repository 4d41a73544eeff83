"""AlterUserScramCredentials (51), v0: set and delete SCRAM credentials of users (KIP-554).

A change holds for the next log-in of a user. Open connections stay.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pykbroker.quorum.active_controller import ActiveController
from pykbroker.server.handler import Handler, Later, RequestContext
from wire.api import ApiKey
from wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest


class AlterUserScramCredentials(Handler, msgspec.Struct, frozen=True):
    """A handler that passes the request to the controller."""

    key: ClassVar = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    versions: ClassVar[str] = "0"
    controller: ActiveController

    def __call__(self, context: RequestContext, request: AlterUserScramCredentialsRequest) -> Later:
        return Later(self.controller.ask(request), holds_connection=True, awaits_node=True)
