"""CreateTopics (19), v2-7: create topics with partitions, replicas and configs, or validate such a request.

v4 -1 partitions or replicas: the broker's default (KIP-464)   v5 flexible, returns the configs (KIP-525)   v7 topic ids
The response is sent after this broker has created the topics.
"""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.security.rights import CREATE_TOPICS_TOPIC, allowed
from pykbroker.quorum.active_controller import ActiveController
from pykbroker.server.handler import ApiHandler, Later, RequestContext
from wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from wire.refusal import refusal


class CreateTopics(ApiHandler, frozen=True):
    """A handler that authorizes each topic and passes the request to the controller."""

    controller: ActiveController

    def __call__(self, context: RequestContext, request: CreateTopicsRequest) -> Later:
        # the next request sees the change
        return Later(self._answer(context, request), holds_connection=True, awaits_node=True)

    async def _answer(self, context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
        names = dict.fromkeys(topic.name for topic in request.topics)
        taken = allowed(context, CREATE_TOPICS_TOPIC, names)
        denied = CreateTopicsRequest([CreatableTopic(name) for name in names if name not in taken])
        request.topics = [topic for topic in request.topics if topic.name in taken]
        try:
            response = await self.controller.ask(request)
        except ApiError as error:
            response = refusal(request, context.version, error.code, error.message)
        response.topics += refusal(denied, context.version, CREATE_TOPICS_TOPIC.code).topics
        return response
