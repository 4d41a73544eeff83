"""DescribeGroups (15), v0-6: the state and the members of classic groups.

v1 throttle time   v3 authorized operations (KIP-430)   v4 static members (KIP-345)   v5 flexible
v6 GROUP_ID_NOT_FOUND and error messages (KIP-1043)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from pykbroker.coordinator.call import Call, when_settled
from pykbroker.coordinator.runtime import Runtime
from pykbroker.core.errors import ApiError
from pykbroker.core.group.asked import Asked
from pykbroker.core.security.authorizer import Authorizer, authorized_operations
from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.server.handler import Context, Steps
from pykbroker.server.steps import each
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

Part = Call | DescribedGroup


@dataclass(frozen=True)
class DescribeGroups:
    """Each group is its own machine's to describe."""

    key: ClassVar = ApiKey.DESCRIBE_GROUPS
    versions: ClassVar[str] = "0-6"
    groups: Runtime
    authorizer: Authorizer

    def __call__(self, context: Context, request: DescribeGroupsRequest) -> Steps:
        parts = yield from each(partial(self._ask, context), request.groups)
        calls = [part for part in parts if isinstance(part, Call)]
        return when_settled(calls, lambda: self._answer(context, request, parts))

    def _ask(self, context: Context, group_id: str) -> Part:
        if not self.authorizer.allows(context.principal, Operation.DESCRIBE, ResourceType.GROUP, group_id):
            return _failed(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return self.groups.ask(group_id, Asked(DescribeGroupsRequest([group_id]), context.version))

    def _answer(self, context: Context, request: DescribeGroupsRequest, parts: list[Part]) -> DescribeGroupsResponse:
        described = [_settled(group_id, part) for group_id, part in zip(request.groups, parts, strict=True)]
        for group in described if request.include_authorized_operations else ():
            if not group.error_code:
                group.authorized_operations = authorized_operations(
                    self.authorizer, context.principal, ResourceType.GROUP, group.group_id)
        return DescribeGroupsResponse(groups=described)


def _settled(group_id: str, part: Part) -> DescribedGroup:
    if not isinstance(part, Call):
        return part
    try:
        described: DescribedGroup = part.result().groups[0]
    except ApiError as error:
        return _failed(group_id, error.code)
    return described


def _failed(group_id: str, code: ErrorCode) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=code)
