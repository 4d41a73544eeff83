"""OffsetForLeaderEpoch (23), v2-4: return the end offset of a leader epoch, so that a client can detect log truncation.

v2 leader epoch checked (KIP-320)   v3 replica id: does not affect the response   v4 flexible
The response has the largest epoch that is not above the requested one (KIP-279), or -1 if that is unknown.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from pykbroker.core.errors import ApiError
from pykbroker.core.security.rights import OFFSET_FOR_LEADER_EPOCH_TOPIC, allowed_in_steps
from pykbroker.core.steps import Steps, each
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.replicas import Replicas
from pykbroker.server.handler import Answer, ApiHandler, Later, RequestContext
from wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


class OffsetForLeaderEpoch(ApiHandler, frozen=True):
    """A handler for brokers, which may ask about every topic, and for consumers that may describe the topic."""

    replicas: Replicas

    def __call__(self, context: RequestContext, request: OffsetForLeaderEpochRequest) -> Later:
        return Later(self._steps(context, request), holds_connection=True)

    def _steps(self, context: RequestContext, request: OffsetForLeaderEpochRequest) -> Steps[Answer]:
        response = OffsetForLeaderEpochResponse()
        names = {topic.topic: None for topic in request.topics}
        shown = yield from allowed_in_steps(context, OFFSET_FOR_LEADER_EPOCH_TOPIC, names)
        for topic in request.topics:
            ends = yield from each(partial(self._end_offset, topic.topic, shown), topic.partitions)
            response.topics.append(OffsetForLeaderTopicResult(topic.topic, ends))
        return response

    def _end_offset(self, topic: str, shown: Collection[str], asked: OffsetForLeaderPartition) -> EpochEndOffset:
        if topic not in shown:
            return EpochEndOffset(OFFSET_FOR_LEADER_EPOCH_TOPIC.code, asked.partition)
        try:
            log = self.replicas.partition(TopicPartition(topic, asked.partition)).require_leader(
                asked.current_leader_epoch
            )
        except ApiError as error:
            return EpochEndOffset(error.code, asked.partition)
        end = log.reader.end_offset_for_epoch(asked.leader_epoch)
        return EpochEndOffset(0, asked.partition, end.epoch, end.offset)
