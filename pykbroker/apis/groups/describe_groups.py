"""DescribeGroups (15), v0-6: return the state and the members of classic groups.

v1 throttle time   v3 authorized operations (KIP-430)   v4 static members (KIP-345)   v5 flexible
v6 GROUP_ID_NOT_FOUND and error messages (KIP-1043)
"""

from __future__ import annotations

from functools import partial

from pykbroker.coordinator.runtime import Runtime
from pykbroker.core.errors import ApiError
from pykbroker.core.group.requests import ClientRequest
from pykbroker.core.security.authorizer import authorized_operations
from pykbroker.core.security.operation import ResourceType
from pykbroker.core.security.rights import DESCRIBE_GROUPS_GROUP, may
from pykbroker.core.steps import Steps, each
from pykbroker.machines.call import Call, refused, when_settled
from pykbroker.server.handler import Answer, ApiHandler, Later, RequestContext, now_or_later
from wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse


class DescribeGroups(ApiHandler, frozen=True):
    """A handler that asks the coordinator of each group to describe it."""

    groups: Runtime

    def __call__(self, context: RequestContext, request: DescribeGroupsRequest) -> Later:
        return Later(self._steps(context, request), holds_connection=True)

    def _steps(self, context: RequestContext, request: DescribeGroupsRequest) -> Steps[Answer]:
        calls = yield from each(partial(self._ask, context), request.groups)
        return now_or_later(
            when_settled(calls, lambda: Later(self._answer(context, request, calls), holds_connection=True))
        )

    def _ask(self, context: RequestContext, group_id: str) -> Call:
        if not may(context, DESCRIBE_GROUPS_GROUP, group_id):
            return refused(ApiError(DESCRIBE_GROUPS_GROUP.code))
        return self.groups.ask(group_id, ClientRequest(DescribeGroupsRequest([group_id]), context.version))

    def _answer(
        self, context: RequestContext, request: DescribeGroupsRequest, calls: list[Call]
    ) -> Steps[DescribeGroupsResponse]:
        response = DescribeGroupsResponse()
        for group_id, call in zip(request.groups, calls, strict=True):
            group = _described(group_id, call)
            if request.include_authorized_operations and not group.error_code:
                group.authorized_operations = authorized_operations(
                    context.session, self.key, ResourceType.GROUP, group.group_id
                )
            response.groups.append(group)
            yield
        return response


def _described(group_id: str, call: Call) -> DescribedGroup:
    try:
        described: DescribedGroup = call.result().groups[0]
    except ApiError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code)
    return described
