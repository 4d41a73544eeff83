"""DeleteTopics (20), v1-6: delete topics by name or by id.

v3 TOPIC_DELETION_DISABLED where delete.topic.enable is off   v4 flexible   v5 error messages (KIP-599)
v6 by id (KIP-516)
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.security.rights import DELETE_TOPICS_TOPIC, may
from pykbroker.quorum.active_controller import ActiveController
from pykbroker.server.handler import ApiHandler, Later, RequestContext
from pykbroker.world.portions import portions
from wire.error_codes import ErrorCode
from wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from wire.refusal import refusal

DISABLED_VERSION_FIRST, BY_ID_VERSION_FIRST = 3, 6


class DeleteTopics(ApiHandler, frozen=True):
    """A handler that authorizes each topic and passes the request to the controller in the form of v6."""

    controller: ActiveController
    image: Callable[[], MetadataImage]
    enabled: bool

    def __call__(self, context: RequestContext, request: DeleteTopicsRequest) -> Later:
        # the next request sees the change
        return Later(self._answer(context, request), holds_connection=True, awaits_node=True)

    async def _answer(self, context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        if not self.enabled:
            known = context.version >= DISABLED_VERSION_FIRST
            return refusal(
                request, context.version, ErrorCode.TOPIC_DELETION_DISABLED if known else ErrorCode.INVALID_REQUEST
            )
        topics = [*request.topics]
        for names in portions(request.topic_names):
            topics += [DeleteTopicState(name=name) for name in names]
            await trio.lowlevel.checkpoint()
        allowed, refused = list[DeleteTopicState](), list[DeleteTopicState]()
        for few in portions(topics):
            for topic in few:
                (allowed if self._allowed(context, topic) else refused).append(topic)
            await trio.lowlevel.checkpoint()
        response = await self.controller.ask(DeleteTopicsRequest(topics=allowed, timeout_ms=request.timeout_ms))
        denied = refusal(DeleteTopicsRequest(refused), BY_ID_VERSION_FIRST, DELETE_TOPICS_TOPIC.code)
        response.responses += denied.responses
        return response

    def _allowed(self, context: RequestContext, topic: DeleteTopicState) -> bool:
        name = topic.name
        if name is None:
            known = self.image().topics.by_id.get(topic.topic_id)
            name = known.name if known is not None else ""
        return may(context, DELETE_TOPICS_TOPIC, name)
