"""ConsumerGroupHeartbeat (68), v0-1: join a consumer group, stay in it, or leave it (KIP-848).

v1 members choose their own ids (KIP-1082), regular expressions
"""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.coordinator.runtime import Runtime
from pykbroker.core.errors import ApiError
from pykbroker.core.group.requests import ClientRequest
from pykbroker.core.security.rights import (
    CONSUMER_GROUP_HEARTBEAT_GROUP,
    CONSUMER_GROUP_HEARTBEAT_PATTERN,
    CONSUMER_GROUP_HEARTBEAT_TOPIC,
    allowed,
    asked_later,
    may,
)
from pykbroker.machines.call import Call, when_settled
from pykbroker.server.handler import Answer, ApiHandler, RequestContext, now_or_later
from wire.error_codes import ErrorCode
from wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from wire.refusal import refusal


class ConsumerGroupHeartbeat(ApiHandler, frozen=True):
    """A handler that authorizes the request and passes it to the group coordinator.

    `enabled` returns whether the broker supports the consumer protocol.
    """

    groups: Runtime
    enabled: Callable[[], bool]

    def __call__(self, context: RequestContext, request: ConsumerGroupHeartbeatRequest) -> Answer:
        if not self.enabled():
            return refusal(request, context.version, ErrorCode.UNSUPPORTED_VERSION)
        if not may(context, CONSUMER_GROUP_HEARTBEAT_GROUP, request.group_id):
            return refusal(request, context.version, CONSUMER_GROUP_HEARTBEAT_GROUP.code)
        names = set(request.subscribed_topic_names or ())
        if len(allowed(context, CONSUMER_GROUP_HEARTBEAT_TOPIC, names)) < len(names):
            return refusal(request, context.version, CONSUMER_GROUP_HEARTBEAT_TOPIC.code)
        shows = asked_later(context, CONSUMER_GROUP_HEARTBEAT_PATTERN)
        asked = ClientRequest(
            request, context.version, context.client_id or "", f"/{context.session.client_host}", shows
        )
        call = self.groups.ask(request.group_id, asked)
        return now_or_later(when_settled([call], lambda: _answer(context, request, call)))


def _answer(
    context: RequestContext, request: ConsumerGroupHeartbeatRequest, call: Call
) -> ConsumerGroupHeartbeatResponse:
    try:
        response: ConsumerGroupHeartbeatResponse = call.result()
    except ApiError as error:
        return refusal(request, context.version, error.code, error.message)
    return response
