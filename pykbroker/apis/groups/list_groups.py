"""ListGroups (16), v0-5: list the groups that this broker coordinates.

v1 throttle time   v3 flexible   v4 states, filter by state (KIP-518)   v5 types, filter by type (KIP-848)
"""

from __future__ import annotations

from pykbroker.coordinator.runtime import Runtime
from pykbroker.core.group.requests import ClientRequest
from pykbroker.core.security.rights import LIST_GROUPS_GROUP, allowed_in_steps
from pykbroker.core.steps import Steps
from pykbroker.machines.call import Call, when_settled
from pykbroker.server.handler import Answer, ApiHandler, Later, RequestContext, now_or_later
from wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


class ListGroups(ApiHandler, frozen=True):
    """A handler that lists all groups to a client with DESCRIBE on the cluster.

    Any other client gets the groups that it may describe.
    """

    groups: Runtime

    def __call__(self, context: RequestContext, request: ListGroupsRequest) -> Answer:
        calls = list(self.groups.ask_all(ClientRequest(request, context.version)))
        return now_or_later(when_settled(calls, lambda: Later(self._answer(context, calls), holds_connection=True)))

    def _answer(self, context: RequestContext, calls: list[Call]) -> Steps[ListGroupsResponse]:
        groups = {group.group_id: group for call in calls for group in call.result().groups}
        shown = yield from allowed_in_steps(context, LIST_GROUPS_GROUP, groups)
        return ListGroupsResponse(groups=[groups[name] for name in shown])
