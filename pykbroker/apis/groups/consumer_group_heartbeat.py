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
    allowed_in_steps,
    asked_later,
    has_acls,
    require,
)
from pykbroker.core.steps import Steps
from pykbroker.server.handler import Answer, ApiHandler, Later, RequestContext, now_or_later
from wire.error_codes import ErrorCode
from wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


class ConsumerGroupHeartbeat(ApiHandler, frozen=True):
    """A handler that authorizes the request and passes it to the group coordinator.

    `enabled` returns whether the broker supports the consumer protocol.
    """

    groups: Runtime
    enabled: Callable[[], bool]

    def __call__(self, context: RequestContext, request: ConsumerGroupHeartbeatRequest) -> Answer:
        if not self.enabled():
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        require(context, CONSUMER_GROUP_HEARTBEAT_GROUP, request.group_id)
        names = set(request.subscribed_topic_names or ())
        if names and has_acls(context):
            return Later(self._authorize(context, request, names), holds_connection=True)
        return self._ask(context, request)

    def _authorize(
        self, context: RequestContext, request: ConsumerGroupHeartbeatRequest, names: set[str]
    ) -> Steps[Answer]:
        shown = yield from allowed_in_steps(context, CONSUMER_GROUP_HEARTBEAT_TOPIC, names)
        if len(shown) < len(names):
            raise ApiError(CONSUMER_GROUP_HEARTBEAT_TOPIC.code)
        return self._ask(context, request)

    def _ask(self, context: RequestContext, request: ConsumerGroupHeartbeatRequest) -> Answer:
        shows = asked_later(context, CONSUMER_GROUP_HEARTBEAT_PATTERN)
        asked = ClientRequest(
            request, context.version, context.client_id or "", f"/{context.session.client_host}", shows
        )
        return now_or_later(self.groups.ask(request.group_id, asked).answer())
