"""AlterClientQuotas (49), v0-1: set and remove quotas of users, client ids and addresses (KIP-546, KIP-612).

v1 flexible
Quotas are stored and described, but this broker does not throttle clients.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pykbroker.quorum.active_controller import ActiveController
from pykbroker.server.handler import Handler, Later, RequestContext
from wire.api import ApiKey
from wire.messages.alter_client_quotas import AlterClientQuotasRequest


class AlterClientQuotas(Handler, msgspec.Struct, frozen=True):
    """A handler that passes the request to the controller."""

    key: ClassVar = ApiKey.ALTER_CLIENT_QUOTAS
    versions: ClassVar[str] = "0-1"
    controller: ActiveController

    def __call__(self, context: RequestContext, request: AlterClientQuotasRequest) -> Later:
        return Later(self.controller.ask(request), holds_connection=True, awaits_node=True)
