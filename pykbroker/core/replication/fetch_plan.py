"""A follower's side of its fetch session with one leader: a request names only what has changed (KIP-227).

1. A partition is due once its position has changed, and is named in the next request. All others keep their last
   position in the leader's session.
2. A partition that the leader's session has is forgotten by the next request, unless the request names it again.
3. An error of the session, or a request without a valid answer, makes every partition due in a new session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

from pykbroker.core.fetch.epochs import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, next_epoch
from pykbroker.core.replication.following import Position
from pykbroker.core.topic_partition import TopicIdPartition, indexes_by_topic
from wire.error_codes import ErrorCode
from wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic, PartitionData

P = TypeVar("P")


class Wanted(NamedTuple):
    """The place in a leader's log to fetch from, and the own log start offset, which the leader learns."""

    position: Position
    log_start_offset: int


class FollowedAnswer(NamedTuple, Generic[P]):
    """A leader's answer about one partition, with the position of the request."""

    partition: P
    asked: Position
    data: PartitionData


class FollowerPlan(Generic[P]):
    """The partitions that one fetcher fetches from one leader.

    `wanted` returns what to fetch of a partition, or None if it must not be fetched now; it is then fetched no more
    until it is added again.
    """

    def __init__(self, wanted: Callable[[P], Wanted | None], bytes_max: int) -> None:
        self._wanted, self._bytes_max = wanted, bytes_max
        self._session_id, self._epoch = NO_SESSION, INITIAL_EPOCH
        self._partitions: dict[TopicIdPartition, P] = {}
        self._asked: dict[TopicIdPartition, Position] = {}
        self._due: dict[TopicIdPartition, None] = {}
        self._forgotten: dict[TopicIdPartition, None] = {}

    def __len__(self) -> int:
        return len(self._partitions)

    def add(self, key: TopicIdPartition, partition: P) -> None:
        """Fetch a partition from its current position on."""
        self._partitions[key] = partition
        self._due[key] = None

    def remove(self, key: TopicIdPartition) -> None:
        """Fetch a partition no longer."""
        self._due.pop(key, None)
        if self._partitions.pop(key, None) is not None and self._asked.pop(key, None) is not None:
            self._forgotten[key] = None

    def get(self, key: TopicIdPartition) -> P | None:
        return self._partitions.get(key)

    def note_change(self, key: TopicIdPartition) -> None:
        """Name a partition in the next request, since its position has changed."""
        if key in self._partitions:
            self._due[key] = None

    def fill(self, request: FetchRequest) -> None:
        """Write the session, the partitions that are due, and the forgotten ones into a request of version 13 or above.

        The positions are those of this moment. A request without any partition must not be sent; the next one names
        the forgotten partitions.
        """
        request.session_id, request.session_epoch = self._session_id, self._epoch
        if self._epoch == INITIAL_EPOCH:
            self._due = dict.fromkeys(self._partitions)
            self._forgotten.clear()
            self._asked.clear()
        topics: dict[bytes, FetchTopic] = {}
        for key in list(self._due):
            wanted = self._wanted(self._partitions[key])
            if wanted is None:
                self.remove(key)
                continue
            self._asked[key] = wanted.position
            self._forgotten.pop(key, None)
            topic = topics.get(key[0])
            if topic is None:
                topic = topics[key[0]] = FetchTopic(topic_id=key[0], partitions=[])
            topic.partitions.append(self._partition(key[1], wanted))
        request.topics = list(topics.values())
        request.forgotten_topics_data = _forgotten(self._forgotten)
        self._due = {}
        if self._partitions:
            self._forgotten = {}

    def received(self, response: FetchResponse) -> list[tuple[TopicIdPartition, FollowedAnswer[P]]] | None:
        """Return the answers about partitions that are still fetched, or None if the session failed."""
        if response.error_code != ErrorCode.NONE:
            # After any other error the leader still has the session, and the new session replaces it.
            self._session_id = (
                NO_SESSION if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND else self._session_id
            )
            self.failed()
            return None
        if response.session_id == NO_SESSION:
            # The leader has no room for the session, so that every request names all partitions (KIP-227).
            self._session_id, self._epoch = NO_SESSION, INITIAL_EPOCH
        elif self._epoch == INITIAL_EPOCH:
            self._session_id, self._epoch = response.session_id, 1
        else:
            self._epoch = next_epoch(self._epoch)
        answers = []
        for topic in response.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                partition, asked = self._partitions.get(key), self._asked.get(key)
                if partition is not None and asked is not None:
                    answers.append((key, FollowedAnswer(partition, asked, data)))
        return answers

    def end(self, request: FetchRequest) -> bool:
        """Write the end of the session into a request without partitions. Return whether there is a session."""
        request.session_id, request.session_epoch = self._session_id, FINAL_EPOCH
        return self._session_id != NO_SESSION

    def failed(self) -> None:
        """Open a new session with the next request, since the last one had no valid answer."""
        self._epoch = INITIAL_EPOCH

    def _partition(self, index: int, wanted: Wanted) -> FetchPartition:
        position = wanted.position
        return FetchPartition(
            partition=index,
            current_leader_epoch=position.leader_epoch,
            fetch_offset=position.offset,
            last_fetched_epoch=position.last_epoch,
            log_start_offset=wanted.log_start_offset,
            partition_max_bytes=self._bytes_max,
        )


def _forgotten(keys: Iterable[TopicIdPartition]) -> list[ForgottenTopic]:
    topics = indexes_by_topic(keys)
    return [ForgottenTopic(topic_id=topic_id, partitions=indexes) for topic_id, indexes in topics.items()]
