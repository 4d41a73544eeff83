"""OffsetCommit (8), v2-10: store the committed offset of a group in each partition.

v2 retention time, until v4   v3 throttle time   v6 leader epoch (KIP-320)   v7 static members (KIP-345)   v8 flexible
v9 members of consumer groups, GROUP_ID_NOT_FOUND (KIP-848)   v10 topic ids (KIP-848)
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from pykbroker.coordinator.runtime import Runtime
from pykbroker.core.errors import ApiError
from pykbroker.core.group.requests import ClientRequest
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.security.rights import OFFSET_COMMIT_GROUP, OFFSET_COMMIT_TOPIC, may, require
from pykbroker.core.steps import Steps, chosen
from pykbroker.server.handler import Answer, ApiHandler, Later, RequestContext, now_or_later
from pykbroker.world.portions import AT_ONCE_MAX
from wire.declare import Response
from wire.error_codes import ErrorCode
from wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
)
from wire.refusal import merge, refusal

BY_ID_VERSION_FIRST = 10


class OffsetCommit(ApiHandler, frozen=True):
    """A handler that refuses unknown and unauthorized partitions, and passes the others to the group coordinator."""

    groups: Runtime
    image: Callable[[], MetadataImage]

    def __call__(self, context: RequestContext, request: OffsetCommitRequest) -> Answer:
        require(context, OFFSET_COMMIT_GROUP, request.group_id)
        if len(request.topics) > AT_ONCE_MAX:
            return Later(self._commit_many(context, request), holds_connection=True)
        refused: list[OffsetCommitResponseTopic] = []
        taken = [topic for topic in request.topics if self._has_committable(context, topic, refused)]
        return self._commit(context, request, taken, refused)

    def _commit_many(self, context: RequestContext, request: OffsetCommitRequest) -> Steps[Answer]:
        refused: list[OffsetCommitResponseTopic] = []
        taken = yield from chosen(request.topics, lambda topic: self._has_committable(context, topic, refused))
        return self._commit(context, request, taken, refused)

    def _commit(
        self,
        context: RequestContext,
        request: OffsetCommitRequest,
        taken: list[OffsetCommitRequestTopic],
        refused: list[OffsetCommitResponseTopic],
    ) -> Answer:
        if request.topics and not taken:
            return OffsetCommitResponse(topics=refused)
        request.topics = taken
        try:
            answer = self.groups.answer(request.group_id, ClientRequest(request, context.version))
        except ApiError as error:
            if not refused:
                raise
            answer = refusal(request, context.version, error.code)
        if not refused:
            return now_or_later(answer)
        if isinstance(answer, OffsetCommitResponse):
            return now_or_later(merge(answer, refused))
        assert isinstance(answer, Coroutine)
        return now_or_later(merged_later(answer, request, context.version, refused))

    def _has_committable(
        self, context: RequestContext, topic: OffsetCommitRequestTopic, refused: list[OffsetCommitResponseTopic]
    ) -> bool:
        """Whether any partition of the topic can be committed.

        Partitions that cannot be committed are added to `refused`. The topic's missing name or id is filled in.
        """
        topics = self.image().topics
        by_id = context.version >= BY_ID_VERSION_FIRST
        known = topics.by_id.get(topic.topic_id) if by_id else topics.by_name.get(topic.name)
        name = known.name if known is not None else topic.name
        code, partitions = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic.partitions
        if by_id and known is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
        elif not may(context, OFFSET_COMMIT_TOPIC, name):
            code, known = OFFSET_COMMIT_TOPIC.code, None
        if known is not None:
            partitions = [one for one in topic.partitions if one.partition_index not in known.partitions]
            topic.name, topic.topic_id = known.name, known.id
        if partitions:
            part = OffsetCommitRequest(topics=[OffsetCommitRequestTopic(topic.name, topic.topic_id, partitions)])
            refused += refusal(part, context.version, code).topics
        if known is None:
            return False
        topic.partitions = [one for one in topic.partitions if one.partition_index in known.partitions]
        return bool(topic.partitions)


async def merged_later(
    waiting: Coroutine[Any, Any, Response],
    request: OffsetCommitRequest,
    version: int,
    refused: list[OffsetCommitResponseTopic],
) -> Answer:
    """Wait for the response to a request, and return it with the results of the refused topics."""
    try:
        response = await waiting
    except ApiError as error:
        response = refusal(request, version, error.code)
    assert isinstance(response, OffsetCommitResponse)
    return Later(merge(response, refused), holds_connection=False)
