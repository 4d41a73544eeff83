"""Fetch sessions: a client says only what changed in its wishes, and is told only what changed in the logs (KIP-227).

1. A session is an ordered set of partitions. One that gave records goes to the end, so that each gets its turn.
2. The epoch counts a session's requests: 1 after the one that opened it, and from 2**31 - 1 back to 1.
3. A partition is left out of an incremental answer when it has no records, no error, nowhere to send the client, and
   the high watermark and log start offset that the client was told last.
4. A session is by topic name or by topic id, for life.
Knows no log, no clock, no connection: `SessionPartition.replica` is the caller's.
"""

from __future__ import annotations

from typing import Any

import msgspec

from wire.error_codes import ErrorCode
from wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

NO_SESSION = 0
EPOCH_MAX = 2**31 - 1
NO_EPOCH = -1
NOT_TOLD = -1
NO_DIVERGENCE = EpochEndOffset()

PartitionKey = tuple[bytes | str, int]
"""Topic id or name, and partition index."""


class SessionPartition(msgspec.Struct, gc=False):
    """One partition that a client wants, and what it was told of it last (-1: nothing)."""

    key: PartitionKey
    topic_id: bytes
    topic: str
    """Its name; empty while the id is of no topic that is known."""
    asked: FetchPartition
    high_watermark: int = NOT_TOLD
    log_start_offset: int = NOT_TOLD
    replica: Any = None
    """Where the caller found it last."""


Wishes = dict[PartitionKey, SessionPartition]
FetchedPartition = tuple[SessionPartition, PartitionData]


class FetchSession(msgspec.Struct, gc=False):
    """What one client fetches. Times in ms. A follower's session is `privileged`."""

    id: int
    partitions: Wishes
    by_id: bool
    privileged: bool
    created_ms: int
    used_ms: int
    epoch: int = 1
    size: int = -1
    """Its partitions when it was used last."""
    settled: bool = False
    """Old enough, when it was used last, to give way to a larger one."""

    def update(self, request: FetchRequest) -> None:
        """Add, change and forget what an incremental request says."""
        for key, wanted in wishes(request, by_id=self.by_id).items():
            self.partitions.setdefault(key, wanted).asked = wanted.asked
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                self.partitions.pop((topic.topic_id if self.by_id else topic.topic, index), None)

    def advance(self) -> int:
        """The epoch that the next request must bear."""
        self.epoch = self.epoch + 1 if self.epoch < EPOCH_MAX else 1
        return self.epoch

    def answer(self, found: list[FetchedPartition]) -> FetchResponse:
        """What of `found` the client does not know yet. What gave records goes to the end."""
        news = [one for one in found if is_news(*one)]
        remember(news)
        for wanted, data in news:
            if data.records:
                self.partitions[wanted.key] = self.partitions.pop(wanted.key)
        return respond(self.id, news)


class Fetching(msgspec.Struct, gc=False):
    """One request: the partitions it is about, in order. `epoch` is what its session has until the next request."""

    partitions: Wishes
    by_id: bool
    privileged: bool = False
    opening: bool = False
    session: FetchSession | None = None
    epoch: int = NO_EPOCH

    def answer(self, found: list[FetchedPartition]) -> FetchResponse:
        """What the client needs to be told. INVALID_FETCH_SESSION_EPOCH: it has asked again before this was ready."""
        session = self.session
        if session is None:
            return respond(NO_SESSION, found)
        if session.epoch != self.epoch:
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session.id)
        return session.answer(found)


def wishes(request: FetchRequest, *, by_id: bool) -> Wishes:
    """The partitions of a request. One that comes twice keeps its first place and its last wish."""
    wanted: Wishes = {}
    for topic in request.topics:
        name, topic_id = topic.topic, topic.topic_id
        for asked in topic.partitions:
            key = (topic_id if by_id else name, asked.partition)
            wanted[key] = SessionPartition(key, topic_id, name, asked)
    return wanted


def is_news(wanted: SessionPartition, data: PartitionData) -> bool:
    """Rule 3. An error tells -1 for both offsets, so the partition is news again once it is over."""
    return bool(
        data.high_watermark != wanted.high_watermark
        or data.log_start_offset != wanted.log_start_offset
        or data.records
        or data.error_code
        or data.preferred_read_replica >= 0
        or data.diverging_epoch != NO_DIVERGENCE
    )


def remember(told: list[FetchedPartition]) -> None:
    """The client knows this now."""
    for wanted, data in told:
        wanted.high_watermark, wanted.log_start_offset = data.high_watermark, data.log_start_offset


def respond(session_id: int, found: list[FetchedPartition]) -> FetchResponse:
    """Partitions in this order; neighbours of one topic stand together."""
    response = FetchResponse(session_id=session_id)
    topic: bytes | str | None = None
    partitions: list[PartitionData] = []
    for wanted, data in found:
        if wanted.key[0] != topic:
            topic, partitions = wanted.key[0], []
            response.responses.append(FetchableTopicResponse(wanted.topic, wanted.topic_id, partitions))
        partitions.append(data)
    return response
