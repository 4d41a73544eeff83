"""CreatePartitions (37), v0-3: add partitions to topics, with replicas placed by the controller or as given.

v2 flexible   v3 THROTTLING_QUOTA_EXCEEDED (KIP-599): never returned, there is no quota
The response is sent after this broker has created the partitions.
"""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from pykbroker.core.security.rights import CREATE_PARTITIONS_TOPIC, allowed_in_steps
from pykbroker.core.steps import Steps
from pykbroker.quorum.active_controller import ActiveController
from pykbroker.server.handler import Answer, ApiHandler, Later, RequestContext
from wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic
from wire.refusal import refusal


class CreatePartitions(ApiHandler, frozen=True):
    """A handler that authorizes each topic and passes the request to the controller."""

    controller: ActiveController

    def __call__(self, context: RequestContext, request: CreatePartitionsRequest) -> Later:
        return Later(self._steps(context, request), holds_connection=True)  # the next request sees the change

    def _steps(self, context: RequestContext, request: CreatePartitionsRequest) -> Steps[Answer]:
        times = Counter(topic.name for topic in request.topics)
        asked = {name: None for name, count in times.items() if count == 1}
        taken = yield from allowed_in_steps(context, CREATE_PARTITIONS_TOPIC, asked)
        denied = CreatePartitionsRequest([CreatePartitionsTopic(name) for name in asked if name not in taken])
        if denied.topics:  # repeated names are left to the controller, which tells all clients the same
            left = [topic for topic in request.topics if topic.name in taken or topic.name not in asked]
            request = replace(request, topics=left)  # the client's own request has the topics of a refusal
        return Later(self._answer(context, request, denied), holds_connection=True, awaits_node=True)

    async def _answer(
        self, context: RequestContext, request: CreatePartitionsRequest, denied: CreatePartitionsRequest
    ) -> CreatePartitionsResponse:
        response = await self.controller.ask(request)
        response.results += refusal(denied, context.version, CREATE_PARTITIONS_TOPIC.code).results
        return response
