"""UnregisterBroker (64), v0: remove a broker's registration (KIP-631). A removed broker leads no partition."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pykbroker.core.errors import ApiError
from pykbroker.quorum.active_controller import ActiveController
from pykbroker.server.handler import Handler, Later, RequestContext
from wire.api import ApiKey
from wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


class UnregisterBroker(Handler, msgspec.Struct, frozen=True):
    """A handler that passes the request to the controller."""

    key: ClassVar = ApiKey.UNREGISTER_BROKER
    versions: ClassVar[str] = "0"
    controller: ActiveController

    def __call__(self, context: RequestContext, request: UnregisterBrokerRequest) -> Later:
        # the next request sees the change
        return Later(self._answer(context, request), holds_connection=True, awaits_node=True)

    async def _answer(self, context: RequestContext, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
        try:
            return await self.controller.ask(request)
        except ApiError as error:
            return UnregisterBrokerResponse(error_code=error.code, error_message=error.message)
