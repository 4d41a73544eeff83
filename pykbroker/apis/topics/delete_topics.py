"""DeleteTopics (20), v1-6: delete topics by name or by id.

v3 TOPIC_DELETION_DISABLED where delete.topic.enable is off   v4 flexible   v5 error messages (KIP-599)
v6 by id (KIP-516)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.delete_topics import UNKNOWN_ID, UNKNOWN_NAME
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.security.rights import DELETE_TOPICS_NAME, DELETE_TOPICS_TOPIC, has_acls, may
from pykbroker.quorum.active_controller import ActiveController
from pykbroker.server.handler import ApiHandler, Later, RequestContext
from pykbroker.world.portions import portions
from wire.declare import NIL
from wire.error_codes import ErrorCode
from wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

DISABLED_VERSION_FIRST = 3


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
            raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED if known else ErrorCode.INVALID_REQUEST)
        topics = [*request.topics]
        for names in portions(request.topic_names):
            topics += [DeleteTopicState(name=name) for name in names]
            await trio.lowlevel.checkpoint()
        times = Counter((topic.name, topic.topic_id) for topic in topics)
        taken, refused = list[DeleteTopicState](), list[DeletableTopicResult]()
        for few in portions(topics):
            for topic in few:
                is_valid = (topic.name is None) != (topic.topic_id == NIL) and times[topic.name, topic.topic_id] == 1
                result = self._refusal(context, topic) if is_valid else None
                if result is None:
                    taken.append(topic)
                else:
                    refused.append(result)
            await trio.lowlevel.checkpoint()
        response = await self.controller.ask(DeleteTopicsRequest(topics=taken, timeout_ms=request.timeout_ms))
        if refused:  # their places do not tell whether the topics exist
            response.responses = sorted(response.responses + refused, key=lambda one: (one.name or "", one.topic_id))
        return response

    def _refusal(self, context: RequestContext, topic: DeleteTopicState) -> DeletableTopicResult | None:
        """Return the result of a topic that the client may not delete, or may not know of.

        Only topics that the client may delete are left to the controller, which may know of topics that this broker's
        image does not have yet. An id is no secret, and only that of a known topic has a name to ask the right for.
        """
        topics, name = self.image().topics, topic.name
        if not has_acls(context):
            return None
        if name is None:
            known = topics.by_id.get(topic.topic_id)
            if known is None:
                return DeletableTopicResult(None, topic.topic_id, *UNKNOWN_ID)
            if may(context, DELETE_TOPICS_TOPIC, known.name):
                return None
            name = known.name if may(context, DELETE_TOPICS_NAME, known.name) else None
        elif may(context, DELETE_TOPICS_NAME, name):
            if may(context, DELETE_TOPICS_TOPIC, name):
                return None
            if name not in topics.by_name:
                return DeletableTopicResult(name, topic.topic_id, *UNKNOWN_NAME)
        return DeletableTopicResult(name, topic.topic_id, DELETE_TOPICS_TOPIC.code, DELETE_TOPICS_TOPIC.code.message)
