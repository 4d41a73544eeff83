"""ListPartitionReassignments (46), v0: which partitions are on their way to other brokers (KIP-455).

Null asks for all of them; what does not move, or does not exist, is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import msgspec

from pykbroker.core.metadata.image import MetadataImage, TopicImage
from pykbroker.core.security.authorizer import Authorizer
from pykbroker.core.security.permissions import permitted
from pykbroker.server.handler import Context
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)  # fmt: skip


class ListPartitionReassignments(msgspec.Struct, frozen=True):
    """As of the last image that this broker has acted on."""

    key: ClassVar = ApiKey.LIST_PARTITION_REASSIGNMENTS
    versions: ClassVar[str] = "0"
    image: Callable[[], MetadataImage]
    authorizer: Authorizer

    def __call__(
        self, context: Context, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        if not permitted(self.authorizer, context.principal, self.key):
            return self.refuse(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        known = self.image().topics.by_name
        if request.topics is None:
            asked = [(topic, list(topic.partitions)) for topic in known.values()]
        else:
            asked = [(known[topic.name], topic.partition_indexes) for topic in request.topics if topic.name in known]
        found = [OngoingTopicReassignment(topic.name, ongoing(topic, indexes)) for topic, indexes in asked]
        return ListPartitionReassignmentsResponse(error_message=None, topics=[one for one in found if one.partitions])

    def refuse(self, request: ListPartitionReassignmentsRequest, code: ErrorCode) -> ListPartitionReassignmentsResponse:
        """An error for the whole, with the partitions that were asked for."""
        return ListPartitionReassignmentsResponse(error_code=code, error_message=None, topics=[
            OngoingTopicReassignment(
                topic.name, [OngoingPartitionReassignment(index) for index in topic.partition_indexes])
            for topic in request.topics or ()
        ])  # fmt: skip


def ongoing(topic: TopicImage, indexes: list[int]) -> list[OngoingPartitionReassignment]:
    """Those of these partitions that move."""
    return [
        OngoingPartitionReassignment(index, list(one.replicas), list(one.adding), list(one.removing))
        for index in indexes
        if (one := topic.partitions.get(index)) is not None and (one.adding or one.removing)
    ]
