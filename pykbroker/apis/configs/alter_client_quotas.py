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
from wire.error_codes import ErrorCode
from wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    EntityData,
)


class AlterClientQuotas(Handler, msgspec.Struct, frozen=True):
    """A handler that passes the request to the controller."""

    key: ClassVar = ApiKey.ALTER_CLIENT_QUOTAS
    versions: ClassVar[str] = "0-1"
    controller: ActiveController

    def __call__(self, context: RequestContext, request: AlterClientQuotasRequest) -> Later:
        return Later(self.controller.ask(request), holds_connection=True, awaits_node=True)

    def refuse(self, request: AlterClientQuotasRequest, code: ErrorCode) -> AlterClientQuotasResponse:
        """Return a response with the error `code` for every entity."""
        return AlterClientQuotasResponse(
            entries=[
                AlterClientQuotasResponseEntryData(
                    code, None, [EntityData(part.entity_type, part.entity_name) for part in entry.entity]
                )
                for entry in request.entries
            ]
        )
