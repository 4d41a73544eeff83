"""FindCoordinator (10), v0-6: return the broker that coordinates a group or a transactional id.

v1 key type, error message   v3 flexible   v4 several keys (KIP-699)   v5 TRANSACTION_ABORTABLE (KIP-890)
v6 share groups (KIP-932): refused, because share groups are not supported
The first request for a coordinator creates its internal topic. The response is sent when the topic is available,
or is COORDINATOR_NOT_AVAILABLE if the controller is away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from pykbroker.core.coordinator.key import partition_of
from pykbroker.core.coordinator.topic import CoordinatorTopic
from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.security.rights import (
    FIND_COORDINATOR_GROUP,
    FIND_COORDINATOR_SHARE,
    FIND_COORDINATOR_TRANSACTION,
    Right,
    may,
    require,
)
from pykbroker.core.steps import Steps, each
from pykbroker.quorum.automatic_topics import AutomaticTopics
from pykbroker.server.endpoints import BrokerEndpoints
from pykbroker.server.handler import Answer, ApiHandler, Later, RequestContext, now_or_later
from wire.error_codes import ErrorCode
from wire.messages.create_topics import CreateTopicsRequest
from wire.messages.find_coordinator import Coordinator, CoordinatorType, FindCoordinatorRequest, FindCoordinatorResponse
from wire.sentinels import NO_LEADER

KEYS_VERSION_FIRST = 4
SHARE_VERSION_FIRST = 6
RIGHTS: Mapping[int, Right] = {
    CoordinatorType.GROUP: FIND_COORDINATOR_GROUP,
    CoordinatorType.TRANSACTION: FIND_COORDINATOR_TRANSACTION,
}


class FindCoordinator(ApiHandler, frozen=True):
    """A handler that waits only while it creates a topic. `topics` maps each key type to an internal topic."""

    image: Callable[[], MetadataImage]
    automatic: AutomaticTopics
    topics: Mapping[int, CoordinatorTopic]
    endpoints: BrokerEndpoints

    def __call__(self, context: RequestContext, request: FindCoordinatorRequest) -> Answer:
        keys = request.coordinator_keys if context.version >= KEYS_VERSION_FIRST else [request.key_]
        if request.key_type == CoordinatorType.SHARE:
            if context.version >= SHARE_VERSION_FIRST:
                require(context, FIND_COORDINATOR_SHARE)
        elif request.key_type not in RIGHTS:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        topic = self.topics.get(request.key_type)
        if topic is not None and topic.name not in self.image().topics.by_name:
            return now_or_later(self._create_or_answer(context, request, keys, topic))
        return now_or_later(self._answer(context, request, keys))

    def _create_or_answer(
        self, context: RequestContext, request: FindCoordinatorRequest, keys: list[str], topic: CoordinatorTopic
    ) -> Steps[Answer]:
        """Answer after the creation of the internal topic, if the client has the right for any of the keys."""
        for key in keys:
            if may(context, RIGHTS[request.key_type], key):
                return Later(self._create(context, request, keys, topic), holds_connection=False)
            yield
        return (yield from self._answer(context, request, keys))

    async def _create(
        self, context: RequestContext, request: FindCoordinatorRequest, keys: list[str], topic: CoordinatorTopic
    ) -> Answer:
        """Create the internal topic, then answer. Concurrent requests find the topic that the first one created.

        If the creation fails, the client receives the reason.
        """
        reason: str | None
        try:
            made = (await self.automatic.create_topics(CreateTopicsRequest(topics=[topic.creation()]))).topics[0]
            reason = "" if made.error_code == ErrorCode.TOPIC_ALREADY_EXISTS else made.error_message
        except ApiError as error:
            reason = str(error)
        return now_or_later(self._answer(context, request, keys, reason or ""))

    def _answer(
        self, context: RequestContext, request: FindCoordinatorRequest, keys: list[str], reason: str = ""
    ) -> Steps[Answer]:
        """Return the coordinator of each key. Without the internal topic none is available, for this reason."""
        found = yield from each(partial(self._find, context, request.key_type, reason), keys)
        return _response(context.version, found)

    def _find(self, context: RequestContext, key_type: int, reason: str, key: str) -> Coordinator:
        right = RIGHTS.get(key_type)
        if right is None:
            return _refused(key, ErrorCode.INVALID_REQUEST)
        if not may(context, right, key):
            return _refused(key, right.code)
        topic = self.topics.get(key_type)
        made = None if topic is None else self.image().topics.by_name.get(topic.name)
        leader = NO_LEADER if made is None else made.partitions[partition_of(key, len(made.partitions))].leader
        endpoint = self.endpoints.of(leader, context.session)
        if endpoint is None:
            return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, reason)
        return Coordinator(key=key, node_id=endpoint.node_id, host=endpoint.host, port=endpoint.port)


def _refused(key: str, code: ErrorCode, message: str = "") -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message)


def _response(version: int, found: list[Coordinator]) -> FindCoordinatorResponse:
    """Return the response with a list of coordinators. In versions 0-3 the only coordinator is in top-level fields."""
    if version >= KEYS_VERSION_FIRST:
        return FindCoordinatorResponse(coordinators=found)
    (one,) = found
    message = one.error_message or ErrorCode(one.error_code).message
    return FindCoordinatorResponse(
        error_code=one.error_code, error_message=message, node_id=one.node_id, host=one.host, port=one.port
    )
