"""ElectLeaders (43), v0-2: elect the preferred leaders of partitions, or any live replica (unclean).

v1 unclean elections (KIP-460), top-level error   v2 flexible
Null topics request all partitions; partitions that need no election are then left out of the response.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pykbroker.core.errors import ApiError
from pykbroker.quorum.active_controller import ActiveController
from pykbroker.server.handler import Handler, Later, RequestContext
from wire.api import ApiKey
from wire.declare import Response
from wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from wire.refusal import refusal


class ElectLeaders(Handler, msgspec.Struct, frozen=True):
    """A handler that passes the request to the controller."""

    key: ClassVar = ApiKey.ELECT_LEADERS
    versions: ClassVar[str] = "0-2"
    controller: ActiveController

    def __call__(self, context: RequestContext, request: ElectLeadersRequest) -> Later:
        # the next request sees the change
        return Later(self._answer(context, request), holds_connection=True, awaits_node=True)

    async def _answer(self, context: RequestContext, request: ElectLeadersRequest) -> Response:
        if request.topic_partitions == []:
            return ElectLeadersResponse()
        try:
            return await self.controller.ask(request)
        except ApiError as error:
            return refusal(request, context.version, error.code, error.message)
