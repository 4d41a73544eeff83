"""BrokerRegistration (62), v0-4: register a broker as fenced, and return its epoch (KIP-631).

v1 migration from ZooKeeper   v2 log directories (KIP-858)   v3 the broker's previous epoch (KIP-966)
v4 the lowest level of a feature may be 0 (KIP-1022)
"""

from __future__ import annotations

from pykbroker.quorum.active_controller import ActiveController
from pykbroker.quorum.applied_offsets import AppliedOffsets
from pykbroker.server.handler import ApiHandler, Later, RequestContext
from wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse


class BrokerRegistration(ApiHandler, frozen=True):
    """A handler that passes the request to the controller. A registered broker has not applied any metadata yet."""

    controller: ActiveController
    applied: AppliedOffsets

    def __call__(self, context: RequestContext, request: BrokerRegistrationRequest) -> Later:
        return Later(self._register(request), holds_connection=False)

    async def _register(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        response = await self.controller.ask(request)
        self.applied.restart(request.broker_id)
        return response
