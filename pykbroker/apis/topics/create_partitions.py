"""CreatePartitions (37), v0-3: add partitions to topics, with replicas placed by the controller or as given.

v2 flexible   v3 THROTTLING_QUOTA_EXCEEDED (KIP-599): never returned, there is no quota
The response is sent after this broker has created the partitions.
"""

from __future__ import annotations

from collections import Counter

from pykbroker.core.security.rights import CREATE_PARTITIONS_TOPIC, allowed
from pykbroker.quorum.active_controller import ActiveController
from pykbroker.server.handler import ApiHandler, Later, RequestContext
from wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic
from wire.refusal import refusal


class CreatePartitions(ApiHandler, frozen=True):
    """A handler that authorizes each topic and passes the request to the controller."""

    controller: ActiveController

    def __call__(self, context: RequestContext, request: CreatePartitionsRequest) -> Later:
        # the next request sees the change
        return Later(self._answer(context, request), holds_connection=True, awaits_node=True)

    async def _answer(self, context: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
        times = Counter(topic.name for topic in request.topics)
        asked = {name: None for name, count in times.items() if count == 1}
        taken = allowed(context, CREATE_PARTITIONS_TOPIC, asked)
        denied = CreatePartitionsRequest([CreatePartitionsTopic(name) for name in asked if name not in taken])
        if denied.topics:  # repeated names are left to the controller, which tells all clients the same
            request.topics = [topic for topic in request.topics if topic.name in taken or topic.name not in asked]
        response = await self.controller.ask(request)
        response.results += refusal(denied, context.version, CREATE_PARTITIONS_TOPIC.code).results
        return response
