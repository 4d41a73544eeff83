"""DeleteGroups (42), v0-2: forget groups without members, with all that they have committed (KIP-229).

v2 flexible
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from pykbroker.coordinator.call import Call, when_settled
from pykbroker.coordinator.runtime import Runtime
from pykbroker.core.errors import ApiError
from pykbroker.core.group.asked import Asked
from pykbroker.core.security.authorizer import Authorizer
from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.server.handler import Context, Steps
from pykbroker.server.steps import each
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

Part = Call | ErrorCode


@dataclass(frozen=True)
class DeleteGroups:
    """Each group is its own machine's to delete."""

    key: ClassVar = ApiKey.DELETE_GROUPS
    versions: ClassVar[str] = "0-2"
    groups: Runtime
    authorizer: Authorizer

    def __call__(self, context: Context, request: DeleteGroupsRequest) -> Steps:
        asked = [*dict.fromkeys(request.groups_names)]
        parts = dict(zip(asked, (yield from each(partial(self._ask, context), asked)), strict=True))
        calls = [part for part in parts.values() if isinstance(part, Call)]
        return when_settled(calls, lambda: _answer(parts))

    def refuse(self, request: DeleteGroupsRequest, code: ErrorCode) -> DeleteGroupsResponse:
        """The same error for each group."""
        return DeleteGroupsResponse(results=[DeletableGroupResult(name, code) for name in request.groups_names])

    def _ask(self, context: Context, group_id: str) -> Part:
        if not self.authorizer.allows(context.principal, Operation.DELETE, ResourceType.GROUP, group_id):
            return ErrorCode.GROUP_AUTHORIZATION_FAILED
        return self.groups.ask(group_id, Asked(DeleteGroupsRequest([group_id]), context.version))


def _answer(parts: dict[str, Part]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[DeletableGroupResult(name, _code(part)) for name, part in parts.items()])


def _code(part: Part) -> int:
    if not isinstance(part, Call):
        return part
    try:
        return int(part.result().results[0].error_code)
    except ApiError as error:
        return error.code
