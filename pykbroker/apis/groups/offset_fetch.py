"""OffsetFetch (9), v1-10: return the committed offsets of groups, for some partitions or for all.

v2 all partitions, top-level error   v5 leader epoch (KIP-320)   v6 flexible
v7 require stable: no offsets of an open transaction (KIP-447)   v8 several groups (KIP-709)
v9 members of consumer groups (KIP-848)   v10 topic ids (KIP-848)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec.structs import astuple

from pykbroker.coordinator.runtime import Runtime
from pykbroker.core.errors import ApiError
from pykbroker.core.group.requests import FetchOffsets
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.security.rights import OFFSET_FETCH_ALL_TOPICS, OFFSET_FETCH_GROUP, OFFSET_FETCH_TOPIC, may
from pykbroker.core.steps import Steps, chosen
from pykbroker.machines.call import Call, refused, when_settled
from pykbroker.server.handler import Answer, ApiHandler, Later, RequestContext, now_or_later
from wire.error_codes import ErrorCode
from wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from wire.sentinels import NO_OFFSET

TOP_LEVEL_ERROR_VERSION_FIRST = 2
GROUPS_VERSION_FIRST = 8
BY_ID_VERSION_FIRST = 10

LeftOut = list[OffsetFetchResponseTopics]


class OffsetFetch(ApiHandler, frozen=True):
    """A handler that refuses unknown and unauthorized topics, and asks each group's coordinator for the others."""

    groups: Runtime
    image: Callable[[], MetadataImage]
    was_stopped: Callable[[], bool]
    """Whether this process was stopped for so long that another broker may be the coordinator and have newer offsets.

    No other response needs this: a commit waits for the followers, which refuse an old leader.
    """

    def __call__(self, context: RequestContext, request: OffsetFetchRequest) -> Later:
        return Later(self._steps(context, request), holds_connection=True)

    def _steps(self, context: RequestContext, request: OffsetFetchRequest) -> Steps[Answer]:
        groups = request.groups
        if context.version < GROUPS_VERSION_FIRST:
            topics = (
                None
                if request.topics is None
                else [
                    OffsetFetchRequestTopics(topic.name, partition_indexes=topic.partition_indexes)
                    for topic in request.topics
                ]
            )
            groups = [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]
        parts = []
        for group in groups:
            parts.append((yield from self._ask(context, group, request.require_stable)))
            yield
        return now_or_later(
            when_settled(
                [call for call, _ in parts], lambda: Later(self._answer(context, groups, parts), holds_connection=False)
            )
        )

    def _ask(
        self, context: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool
    ) -> Steps[tuple[Call, LeftOut]]:
        """Return the call to the group coordinator for the permitted topics, and the results of refused topics."""
        if not may(context, OFFSET_FETCH_GROUP, group.group_id):
            return refused(ApiError(OFFSET_FETCH_GROUP.code)), []
        if self.was_stopped():
            return refused(ApiError(ErrorCode.NOT_COORDINATOR)), []
        left_out: LeftOut = []
        asked = group.topics
        if asked is not None:
            asked = yield from chosen(asked, lambda topic: self._is_fetchable(context, topic, left_out))
        question = OffsetFetchRequestGroup(group.group_id, group.member_id, group.member_epoch, asked)
        return self.groups.ask(group.group_id, FetchOffsets(question, require_stable)), left_out

    def _is_fetchable(self, context: RequestContext, topic: OffsetFetchRequestTopics, left_out: LeftOut) -> bool:
        by_id = context.version >= BY_ID_VERSION_FIRST
        topics = self.image().topics
        known = topics.by_id.get(topic.topic_id) if by_id else topics.by_name.get(topic.name)
        if known is not None:
            topic.name, topic.topic_id = known.name, known.id
        if by_id and known is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
        elif not may(context, OFFSET_FETCH_TOPIC, topic.name):
            code = OFFSET_FETCH_TOPIC.code
        else:
            return True
        left_out.append(
            OffsetFetchResponseTopics(
                topic.name,
                topic.topic_id,
                [OffsetFetchResponsePartitions(index, NO_OFFSET, error_code=code) for index in topic.partition_indexes],
            )
        )
        return False

    def _answer(
        self, context: RequestContext, groups: list[OffsetFetchRequestGroup], parts: list[tuple[Call, LeftOut]]
    ) -> Steps[OffsetFetchResponse]:
        answers = []
        for group, (call, left_out) in zip(groups, parts, strict=True):
            answer = _settled(group, call)
            if group.topics is None:
                answer.topics = yield from chosen(answer.topics, partial(self._may_describe, context))
            if not answer.error_code:
                answer.topics = answer.topics + left_out
            answers.append(answer)
        return (
            OffsetFetchResponse(groups=answers)
            if context.version >= GROUPS_VERSION_FIRST
            else _of_one_group(context.version, answers[0], groups[0])
        )

    def _may_describe(self, context: RequestContext, topic: OffsetFetchResponseTopics) -> bool:
        """Whether the client may describe this topic of a group; from v10 on, the topic must also have an id."""
        known = self.image().topics.by_name.get(topic.name)
        if known is not None:
            topic.topic_id = known.id
        elif context.version >= BY_ID_VERSION_FIRST:
            return False
        return may(context, OFFSET_FETCH_ALL_TOPICS, topic.name)


def _settled(group: OffsetFetchRequestGroup, call: Call) -> OffsetFetchResponseGroup:
    try:
        answer: OffsetFetchResponseGroup = call.result()
    except ApiError as error:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)
    return answer


def _of_one_group(
    version: int, answer: OffsetFetchResponseGroup, group: OffsetFetchRequestGroup
) -> OffsetFetchResponse:
    """Return the response of versions 1-7, for one group. Version 1 repeats the group's error for each partition."""
    if answer.error_code and version < TOP_LEVEL_ERROR_VERSION_FIRST:
        answer.topics = [
            OffsetFetchResponseTopics(
                topic.name,
                topic.topic_id,
                [
                    OffsetFetchResponsePartitions(index, NO_OFFSET, error_code=answer.error_code)
                    for index in topic.partition_indexes
                ],
            )
            for topic in group.topics or ()
        ]
    return OffsetFetchResponse(
        error_code=answer.error_code,
        topics=[
            OffsetFetchResponseTopic(
                topic.name, [OffsetFetchResponsePartition(*astuple(one)) for one in topic.partitions]
            )
            for topic in answer.topics
        ],
    )
