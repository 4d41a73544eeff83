"""JoinGroup (11), v0-9: join a classic group or its rebalance; the response is sent when the rebalance completes.

v1 rebalance timeout   v4 a first join gets its member id and must retry (KIP-394)   v5 static members (KIP-345)
v6 flexible   v7 protocol type   v8 reason (KIP-800)   v9 skip assignment (KIP-814)
"""

from __future__ import annotations

from pykbroker.coordinator.runtime import Runtime
from pykbroker.core.group.requests import ClientRequest
from pykbroker.core.security.rights import JOIN_GROUP, JOIN_GROUP_PATTERN, asked_later, require
from pykbroker.machines.call import Call, when_settled
from pykbroker.server.handler import Answer, ApiHandler, RequestContext, now_or_later
from wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

NULL_PROTOCOL_VERSION_FIRST = 7


class JoinGroup(ApiHandler, frozen=True):
    """A handler that authorizes the request and passes it to the group coordinator."""

    groups: Runtime

    def __call__(self, context: RequestContext, request: JoinGroupRequest) -> Answer:
        require(context, JOIN_GROUP, request.group_id)
        shows = asked_later(context, JOIN_GROUP_PATTERN)
        asked = ClientRequest(
            request, context.version, context.client_id or "", f"/{context.session.client_host}", shows
        )
        call = self.groups.ask(request.group_id, asked)
        return now_or_later(when_settled([call], lambda: _answer(context, call)))


def _answer(context: RequestContext, call: Call) -> JoinGroupResponse:
    """Return the coordinator's response. An empty protocol name becomes null in versions that allow null."""
    response: JoinGroupResponse = call.result()
    if context.version >= NULL_PROTOCOL_VERSION_FIRST:
        response.protocol_name = response.protocol_name or None
    return response
