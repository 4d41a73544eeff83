"""BrokerHeartbeat (63), v0-2: renew a broker's session, and fence, unfence or shut down the broker (KIP-631).

v1 offline log directories (KIP-858)   v2 cordoned log directories (KIP-1066)
"""

from __future__ import annotations

from pykbroker.quorum.controller import Controller
from pykbroker.quorum.heartbeat_links import HeartbeatLinks
from pykbroker.server.handler import ApiHandler, Later, RequestContext
from wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


class BrokerHeartbeat(ApiHandler, frozen=True):
    """A handler that passes the request to the controller, and notes which metadata the broker has applied.

    The session of the broker is extended when the request arrives. `links` watches the connection.
    """

    controller: Controller
    links: HeartbeatLinks

    def __call__(self, context: RequestContext, request: BrokerHeartbeatRequest) -> Later:
        self.controller.note_contact(request.broker_id, request.broker_epoch)
        self.links.note(context.session, request.broker_id, request.broker_epoch)
        return Later(self._beat(request), holds_connection=False)

    async def _beat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        response = await self.controller.ask(request)
        self.controller.applied.note(request.broker_id, request.current_metadata_offset)
        return response
