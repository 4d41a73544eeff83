"""Fetch sessions: a client sends only changes to its partitions, and receives only changes in the logs (KIP-227).

1. A session is an ordered set of partitions. A partition that returned records moves to the end, so that every
   partition gets its turn.
2. The epoch counts a session's requests. It is 1 after the opening request and wraps from 2**31 - 1 to 1.
3. An incremental response omits a partition that has no records, no error, no preferred read replica, no diverging
   epoch, and the same high watermark and log start offset as in its last response.
4. A session identifies topics by name or by topic id; this never changes.
5. `SessionPartition.replica` belongs to the caller.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pykbroker.core.fetch.epochs import FINAL_EPOCH, NO_SESSION, next_epoch
from wire.error_codes import ErrorCode
from wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from wire.sentinels import NO_OFFSET

NO_DIVERGENCE = EpochEndOffset()

PartitionKey = tuple[bytes | str, int]
"""A `TopicIdPartition`, or the topic name and the partition index in a session that identifies topics by name."""


class SessionPartition(msgspec.Struct, gc=False):
    """A partition that a client fetches, with the offsets in the last response about it, or -1 before the first."""

    key: PartitionKey
    topic_id: bytes
    topic: str
    """The topic's name; empty while the topic id is unknown."""
    asked: FetchPartition
    high_watermark: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    replica: Any = None
    """The replica that the caller last found for this partition."""


RequestedPartitions = dict[PartitionKey, SessionPartition]
FetchedPartition = tuple[SessionPartition, PartitionData]


class FetchSession(msgspec.Struct, gc=False):
    """The partitions that one client fetches. Times are in ms. A follower's session is `privileged`."""

    id: int
    partitions: RequestedPartitions
    by_id: bool
    privileged: bool
    created_ms: int
    used_ms: int
    epoch: int = 1
    size: int = -1
    """The number of partitions at the last request."""
    settled: bool = False
    """Whether the session was old enough at its last request to be evicted for a larger one."""
    is_removed: bool = False
    """Whether the session was closed or evicted."""
    follower: Any = None
    """The caller's object for the follower of a privileged session. It is closed when the session is removed."""

    def update(self, request: FetchRequest) -> None:
        """Add, change and remove partitions as an incremental request says."""
        for key, wanted in requested_partitions(request, by_id=self.by_id).items():
            self.partitions.setdefault(key, wanted).asked = wanted.asked
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                self.partitions.pop((topic.topic_id if self.by_id else topic.topic, index), None)

    def advance(self) -> int:
        """Raise the epoch and return it. The client must send the new epoch in its next request."""
        self.epoch = next_epoch(self.epoch)
        return self.epoch

    def answer(self, found: list[FetchedPartition]) -> FetchResponse:
        """Return the changes among `found`. Partitions that returned records move to the end."""
        news = [one for one in found if must_send(*one)]
        remember(news)
        for wanted, data in news:
            if data.records:
                self.partitions[wanted.key] = self.partitions.pop(wanted.key)
        return respond(self.id, news)


class Fetching(msgspec.Struct, gc=False):
    """One Fetch request: its partitions, in order. `epoch` is the session's epoch while this request is answered."""

    partitions: RequestedPartitions
    by_id: bool
    privileged: bool = False
    opening: bool = False
    session: FetchSession | None = None
    epoch: int = FINAL_EPOCH

    def answer(self, found: list[FetchedPartition]) -> FetchResponse:
        """Return the response.

        It is INVALID_FETCH_SESSION_EPOCH if the client sent another request in the session before this one was
        answered.
        """
        session = self.session
        if session is None:
            return respond(NO_SESSION, found)
        if session.epoch != self.epoch:
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session.id)
        return session.answer(found)


def requested_partitions(request: FetchRequest, *, by_id: bool) -> RequestedPartitions:
    """Return the partitions of a request. A repeated partition keeps its first position and its last fields."""
    wanted: RequestedPartitions = {}
    for topic in request.topics:
        name, topic_id = topic.topic, topic.topic_id
        for asked in topic.partitions:
            key = (topic_id if by_id else name, asked.partition)
            wanted[key] = SessionPartition(key, topic_id, name, asked)
    return wanted


def must_send(wanted: SessionPartition, data: PartitionData) -> bool:
    """Whether an incremental response must include the partition, by rule 3 of the module.

    An error resets both remembered offsets to -1, so the partition is included again after it.
    """
    return bool(
        data.high_watermark != wanted.high_watermark
        or data.log_start_offset != wanted.log_start_offset
        or data.records
        or data.error_code
        or data.preferred_read_replica >= 0
        or data.diverging_epoch != NO_DIVERGENCE
    )


def remember(sent: list[FetchedPartition]) -> None:
    """Remember the offsets that are sent to the client."""
    for wanted, data in sent:
        wanted.high_watermark, wanted.log_start_offset = data.high_watermark, data.log_start_offset


def respond(session_id: int, found: list[FetchedPartition]) -> FetchResponse:
    """Return a response with the partitions in this order. Consecutive partitions of a topic share one entry."""
    response = FetchResponse(session_id=session_id)
    topic: bytes | str | None = None
    partitions: list[PartitionData] = []
    for wanted, data in found:
        if wanted.key[0] != topic:
            topic, partitions = wanted.key[0], []
            response.responses.append(FetchableTopicResponse(wanted.topic, wanted.topic_id, partitions))
        partitions.append(data)
    return response
