"""OffsetDelete (47), v0: delete a group's committed offsets in partitions that no member subscribes to (KIP-496)."""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.coordinator.runtime import Runtime
from pykbroker.core.group.requests import ClientRequest
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.security.rights import OFFSET_DELETE_GROUP, OFFSET_DELETE_TOPIC, may, require
from pykbroker.core.steps import Steps
from pykbroker.machines.call import when_settled
from pykbroker.server.handler import Answer, ApiHandler, Later, RequestContext, now_or_later
from pykbroker.world.portions import portions
from wire.error_codes import ErrorCode
from wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from wire.refusal import merge


class OffsetDelete(ApiHandler, frozen=True):
    """A handler that refuses unknown and unauthorized partitions, and passes the others to the group coordinator."""

    groups: Runtime
    image: Callable[[], MetadataImage]

    def __call__(self, context: RequestContext, request: OffsetDeleteRequest) -> Later:
        return Later(self._steps(context, request), holds_connection=True)

    def _steps(self, context: RequestContext, request: OffsetDeleteRequest) -> Steps[Answer]:
        require(context, OFFSET_DELETE_GROUP, request.group_id)
        if not request.group_id:
            return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        refused: list[OffsetDeleteResponseTopic] = []
        for topic in request.topics:
            results = yield from self._refuse_some(context, topic)
            refused += [results] if results.partitions else []
        request.topics = [topic for topic in request.topics if topic.partitions]
        call = self.groups.ask(request.group_id, ClientRequest(request, context.version))
        return now_or_later(when_settled([call], lambda: Later(merge(call.result(), refused), holds_connection=True)))

    def _refuse_some(
        self, context: RequestContext, topic: OffsetDeleteRequestTopic
    ) -> Steps[OffsetDeleteResponseTopic]:
        """Remove the unknown and unauthorized partitions from the request, and return their results."""
        known = self.image().topics.by_name.get(topic.name)
        present = () if known is None else known.partitions
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not may(context, OFFSET_DELETE_TOPIC, topic.name):
            code, present = OFFSET_DELETE_TOPIC.code, ()
        taken, refused = list[OffsetDeleteRequestPartition](), OffsetDeleteResponseTopic(topic.name, [])
        for few in portions(topic.partitions):
            refused.partitions += [
                OffsetDeleteResponsePartition(one.partition_index, code)
                for one in few
                if one.partition_index not in present
            ]
            taken += [one for one in few if one.partition_index in present]
            yield
        topic.partitions = taken
        return refused
