"""CreateTopics (19), v2-7: create topics with partitions, replicas and configs, or validate such a request.

v4 -1 partitions or replicas: the broker's default (KIP-464)   v5 flexible, returns the configs (KIP-525)   v7 topic ids
The response is sent after this broker has created the topics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from pykbroker.core.errors import ApiError
from pykbroker.core.names import CLUSTER_METADATA_TOPIC
from pykbroker.core.security.rights import CREATE_TOPICS_CONFIGS, CREATE_TOPICS_TOPIC, allowed_in_steps
from pykbroker.core.steps import Steps
from pykbroker.quorum.active_controller import ActiveController
from pykbroker.server.handler import Answer, ApiHandler, Later, RequestContext
from wire.messages.create_topics import CreatableTopic, CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from wire.refusal import refusal


class CreateTopics(ApiHandler, frozen=True):
    """A handler that authorizes each topic and passes the request to the controller."""

    controller: ActiveController

    def __call__(self, context: RequestContext, request: CreateTopicsRequest) -> Later:
        return Later(self._steps(context, request), holds_connection=True)  # the next request sees the change

    def _steps(self, context: RequestContext, request: CreateTopicsRequest) -> Steps[Answer]:
        times = Counter(topic.name for topic in request.topics)
        asked = {name: None for name, count in times.items() if count == 1 and name != CLUSTER_METADATA_TOPIC}
        taken = yield from allowed_in_steps(context, CREATE_TOPICS_TOPIC, asked)
        denied = CreateTopicsRequest([CreatableTopic(name) for name in asked if name not in taken])
        if denied.topics:  # repeated names and the metadata log are left to the controller: all clients get the same
            request.topics = [topic for topic in request.topics if topic.name in taken or topic.name not in asked]
        return Later(self._answer(context, request, taken, denied), holds_connection=True, awaits_node=True)

    async def _answer(
        self, context: RequestContext, request: CreateTopicsRequest, taken: Collection[str], denied: CreateTopicsRequest
    ) -> Answer:
        try:
            response = await self.controller.ask(request)
        except ApiError as error:
            response = refusal(request, context.version, error.code, error.message)
        return Later(self._without_hidden(context, response, taken, denied), holds_connection=True)

    def _without_hidden(
        self,
        context: RequestContext,
        response: CreateTopicsResponse,
        taken: Collection[str],
        denied: CreateTopicsRequest,
    ) -> Steps[Answer]:
        """Return the response with the results of denied topics, without the configs that the client may not see."""
        described = yield from allowed_in_steps(context, CREATE_TOPICS_CONFIGS, taken)
        for topic in response.topics:
            if topic.name not in described and not topic.error_code:
                hide_configs(topic)
        response.topics += refusal(denied, context.version, CREATE_TOPICS_TOPIC.code, "Authorization failed.").topics
        return response


def hide_configs(topic: CreatableTopicResult) -> None:
    """Remove the configs and counts from the result of a created topic, for a client that may not describe configs."""
    topic.topic_config_error_code = CREATE_TOPICS_CONFIGS.code
    topic.num_partitions, topic.replication_factor, topic.configs = -1, -1, []
