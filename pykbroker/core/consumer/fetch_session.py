"""The consumer's side of fetch sessions: a request names only the partitions that changed since the last (KIP-227)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import NamedTuple

from pykbroker.core.fetch.epochs import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, next_epoch
from pykbroker.core.topic_partition import TopicPartition, indexes_by_topic
from wire.declare import NIL
from wire.error_codes import ErrorCode
from wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic, PartitionData

TOPIC_IDS_VERSION = 13
"""The first version of Fetch that names topics by topic id."""


class PartitionFetch(NamedTuple):
    """The fields of a partition in a Fetch request. They are sent again only if they change."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    bytes_max: int


class FetchPart(NamedTuple):
    """A part of a response: its partition, and what the session last asked for it."""

    partition: TopicPartition
    asked: PartitionFetch
    data: PartitionData


class NodeFetchSession:
    """The fetch session with one broker. A request is built, and the next one after its response or failure."""

    def __init__(self) -> None:
        self.session_id, self._epoch = NO_SESSION, INITIAL_EPOCH
        self.partitions: dict[TopicPartition, PartitionFetch] = {}

    def fill(self, request: FetchRequest, partitions: Mapping[TopicPartition, PartitionFetch], version: int) -> None:
        """Write the session, the partitions and the forgotten partitions into a request of this version."""
        request.session_id, request.session_epoch = self.session_id, self._epoch
        if self._epoch == INITIAL_EPOCH:
            self.partitions = dict(partitions)
            request.topics = _topics(self.partitions.items())
            return
        old = self.partitions
        changed = {key: asked for key, asked in partitions.items() if old.get(key, asked) != asked}
        added = {key: asked for key, asked in partitions.items() if key not in old}
        forgotten = [(key, asked.topic_id) for key, asked in old.items() if key not in partitions]
        if version >= TOPIC_IDS_VERSION:
            # A topic that was created again under the same name has other partitions for the broker (KIP-516).
            forgotten += [
                (key, old[key].topic_id)
                for key, asked in changed.items()
                if old[key].topic_id not in (NIL, asked.topic_id)
            ]
        self.partitions = {key: partitions[key] for key in old if key in partitions} | added
        request.topics = _topics((changed | added).items())
        request.forgotten_topics_data = _forgotten(forgotten)

    def received(self, response: FetchResponse, version: int) -> list[FetchPart] | None:
        """Return the parts of a response, or None if it is an error or does not fit the session.

        The next request continues the session, or opens another one.
        """
        if response.error_code:
            if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._reopen()
            else:
                self.failed()
            return None
        parts = self._parts(response, version)
        is_full = self._epoch == INITIAL_EPOCH
        if parts is None or (is_full and len(parts) != len(self.partitions)):
            # An empty response to an opening request is how a broker throttles a client (KIP-219).
            if is_full:
                self._reopen()
            else:
                self.failed()
            return None
        if response.session_id == NO_SESSION:
            self._reopen()
        elif is_full:
            self.session_id, self._epoch = response.session_id, 1
        else:
            self._epoch = next_epoch(self._epoch)
        return parts

    def failed(self) -> None:
        """Close the session with the next request, and open another one, since a request had no valid response."""
        self._epoch = INITIAL_EPOCH

    def close_request(self) -> FetchRequest | None:
        """Return the request that closes the session, or None if there is none."""
        if self.session_id == NO_SESSION:
            return None
        request = FetchRequest(session_id=self.session_id, session_epoch=FINAL_EPOCH)
        self._reopen()
        return request

    def _reopen(self) -> None:
        self.session_id, self._epoch = NO_SESSION, INITIAL_EPOCH

    def _parts(self, response: FetchResponse, version: int) -> list[FetchPart] | None:
        """Return the parts of a response, or None if it has a partition that the session does not."""
        names = {asked.topic_id: key.topic for key, asked in self.partitions.items()}
        parts = []
        for topic in response.responses:
            name = names.get(topic.topic_id) if version >= TOPIC_IDS_VERSION else topic.topic
            for data in topic.partitions:
                key = TopicPartition(name or "", data.partition_index)
                asked = self.partitions.get(key)
                if asked is None:
                    return None
                parts.append(FetchPart(key, asked, data))
        return parts


def _topics(partitions: Iterable[tuple[TopicPartition, PartitionFetch]]) -> list[FetchTopic]:
    """Return the partitions of a request. Their order is kept, since the broker reads them in this order."""
    return [
        FetchTopic(topic, topic_id, [_partition(key.partition, asked) for key, asked in group])
        for (topic, topic_id), group in groupby(partitions, lambda item: (item[0].topic, item[1].topic_id))
    ]


def _partition(index: int, asked: PartitionFetch) -> FetchPartition:
    return FetchPartition(
        partition=index,
        current_leader_epoch=asked.leader_epoch,
        fetch_offset=asked.offset,
        partition_max_bytes=asked.bytes_max,
    )


def _forgotten(partitions: Iterable[tuple[TopicPartition, bytes]]) -> list[ForgottenTopic]:
    topics = indexes_by_topic(((topic, topic_id), index) for (topic, index), topic_id in partitions)
    return [ForgottenTopic(topic, topic_id, indexes) for (topic, topic_id), indexes in topics.items()]
