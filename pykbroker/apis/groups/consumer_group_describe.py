"""ConsumerGroupDescribe (69), v0-1: describe consumer groups, their members and their assignments (KIP-848).

v1 the protocol of each member
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pykbroker.coordinator.runtime import Runtime
from pykbroker.core.errors import ApiError
from pykbroker.core.group.requests import ClientRequest
from pykbroker.core.security.authorizer import authorized_operations
from pykbroker.core.security.operation import ResourceType
from pykbroker.core.security.rights import (
    CONSUMER_GROUP_DESCRIBE_GROUP,
    CONSUMER_GROUP_DESCRIBE_TOPIC,
    allowed_in_steps,
    may,
)
from pykbroker.core.steps import Steps, each
from pykbroker.machines.call import Call, refused, when_settled
from pykbroker.server.handler import Answer, ApiHandler, Later, RequestContext, now_or_later
from wire.error_codes import ErrorCode
from wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


class ConsumerGroupDescribe(ApiHandler, frozen=True):
    """A handler that describes each group separately.

    A group with a topic that the client may not describe gets TOPIC_AUTHORIZATION_FAILED.
    """

    groups: Runtime
    enabled: Callable[[], bool]

    def __call__(self, context: RequestContext, request: ConsumerGroupDescribeRequest) -> Later:
        return Later(self._steps(context, request), holds_connection=True)

    def _steps(self, context: RequestContext, request: ConsumerGroupDescribeRequest) -> Steps[Answer]:
        calls = yield from each(partial(self._ask, context), request.group_ids)
        return now_or_later(
            when_settled(calls, lambda: Later(self._answer(context, request, calls), holds_connection=True))
        )

    def _ask(self, context: RequestContext, group_id: str) -> Call:
        if not self.enabled():
            return refused(ApiError(ErrorCode.UNSUPPORTED_VERSION))
        if not may(context, CONSUMER_GROUP_DESCRIBE_GROUP, group_id):
            return refused(ApiError(CONSUMER_GROUP_DESCRIBE_GROUP.code))
        if not group_id:
            return refused(ApiError(ErrorCode.INVALID_GROUP_ID))
        return self.groups.ask(group_id, ClientRequest(ConsumerGroupDescribeRequest([group_id]), context.version))

    def _answer(
        self, context: RequestContext, request: ConsumerGroupDescribeRequest, calls: list[Call]
    ) -> Steps[ConsumerGroupDescribeResponse]:
        asked = zip(request.group_ids, calls, strict=True)
        groups = []
        for group_id, call in asked:
            groups.append((yield from self._described(context, request, group_id, call)))
            yield
        return ConsumerGroupDescribeResponse(groups=groups)

    def _described(
        self, context: RequestContext, request: ConsumerGroupDescribeRequest, group_id: str, call: Call
    ) -> Steps[DescribedGroup]:
        try:
            group: DescribedGroup = call.result().groups[0]
        except ApiError as error:
            return _failed(group_id, error)
        names = _topics(group)
        if len((yield from allowed_in_steps(context, CONSUMER_GROUP_DESCRIBE_TOPIC, names))) < len(names):
            return _failed(
                group_id,
                ApiError(
                    CONSUMER_GROUP_DESCRIBE_TOPIC.code,
                    "The group has described topic(s) that the client is not authorized to describe.",
                ),
            )
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = authorized_operations(context.session, self.key, ResourceType.GROUP, group_id)
        return group


def _topics(group: DescribedGroup) -> set[str]:
    return {
        name
        for member in group.members
        for name in (
            *member.subscribed_topic_names,
            *(one.topic_name for one in member.assignment.topic_partitions),
            *(one.topic_name for one in member.target_assignment.topic_partitions),
        )
    }


def _failed(group_id: str, error: ApiError) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
