"""DeleteGroups (42), v0-2: delete empty groups and their committed offsets (KIP-229).

v2 flexible
"""

from __future__ import annotations

from functools import partial

from pykbroker.coordinator.runtime import Runtime
from pykbroker.core.errors import ApiError
from pykbroker.core.group.requests import ClientRequest
from pykbroker.core.security.rights import DELETE_GROUPS_GROUP, may
from pykbroker.core.steps import Steps, each
from pykbroker.machines.call import Call, refused, when_settled
from pykbroker.server.handler import Answer, ApiHandler, Later, RequestContext, now_or_later
from wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


class DeleteGroups(ApiHandler, frozen=True):
    """A handler that asks the coordinator of each group to delete it."""

    groups: Runtime

    def __call__(self, context: RequestContext, request: DeleteGroupsRequest) -> Later:
        return Later(self._steps(context, request), holds_connection=True)

    def _steps(self, context: RequestContext, request: DeleteGroupsRequest) -> Steps[Answer]:
        asked = [*dict.fromkeys(request.groups_names)]
        calls = yield from each(partial(self._ask, context), asked)
        return now_or_later(
            when_settled(
                calls,
                lambda: DeleteGroupsResponse(
                    results=[DeletableGroupResult(name, _code(call)) for name, call in zip(asked, calls, strict=True)]
                ),
            )
        )

    def _ask(self, context: RequestContext, group_id: str) -> Call:
        if not may(context, DELETE_GROUPS_GROUP, group_id):
            return refused(ApiError(DELETE_GROUPS_GROUP.code))
        return self.groups.ask(group_id, ClientRequest(DeleteGroupsRequest([group_id]), context.version))


def _code(call: Call) -> int:
    try:
        return int(call.result().results[0].error_code)
    except ApiError as error:
        return error.code
