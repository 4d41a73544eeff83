"""ListPartitionReassignments (46), v0: list the partitions that are being reassigned (KIP-455).

Null topics request all partitions. Partitions that do not exist, or are not being reassigned, are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pykbroker.core.metadata.image import MetadataImage, TopicImage
from pykbroker.core.steps import Steps
from pykbroker.server.handler import Answer, ApiHandler, Later, RequestContext
from pykbroker.world.portions import portions
from wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


class ListPartitionReassignments(ApiHandler, frozen=True):
    """A handler that reads the last image that this broker has applied."""

    image: Callable[[], MetadataImage]

    def __call__(self, context: RequestContext, request: ListPartitionReassignmentsRequest) -> Later:
        return Later(self._steps(context, request), holds_connection=True)

    def _steps(self, context: RequestContext, request: ListPartitionReassignmentsRequest) -> Steps[Answer]:
        known = self.image().topics.by_name
        asked: list[tuple[str, Iterable[int]]]
        if request.topics is None:
            asked = [(topic.name, topic.partitions) for topic in known.values()]
        else:
            asked = [(topic.name, topic.partition_indexes) for topic in request.topics]
        response = ListPartitionReassignmentsResponse(error_message=None)
        for name, indexes in asked:
            partitions = (yield from ongoing(known[name], indexes)) if name in known else []
            if partitions:
                response.topics.append(OngoingTopicReassignment(name, partitions))
            yield
        return response


def ongoing(topic: TopicImage, indexes: Iterable[int]) -> Steps[list[OngoingPartitionReassignment]]:
    """Return the reassignments of the partitions that are being reassigned."""
    found = []
    for few in portions(indexes):
        found += [
            OngoingPartitionReassignment(index, list(one.replicas), list(one.adding), list(one.removing))
            for index in few
            if (one := topic.partitions.get(index)) is not None and (one.adding or one.removing)
        ]
        yield
    return found
