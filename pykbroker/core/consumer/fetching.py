"""Fetching: which partitions are fetched from which broker, and what becomes of the responses.

1. A broker has one Fetch request in flight at a time.
2. A broker is not asked while records of one of its partitions are buffered. Its session would lose the partition,
   since a request names all partitions that the session is to have.
3. Partitions are fetched from the leader, or from the preferred read replica while it is online (KIP-392).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pykbroker.core.consumer.fetch_buffer import FetchBuffer
from pykbroker.core.consumer.fetch_call import FetchCall, FetchSettings
from pykbroker.core.consumer.fetch_session import FetchPart, NodeFetchSession, PartitionFetch
from pykbroker.core.consumer.fetched import CompletedFetch
from pykbroker.core.consumer.position import PartitionLeader
from pykbroker.core.consumer.records import ReadRecords
from pykbroker.core.consumer.subscription import ConsumerSubscription
from pykbroker.core.consumer.unread import UnreadRecords
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode
from wire.messages.fetch import FetchRequest, FetchResponse
from wire.records.column_reader import read_columns
from wire.sentinels import NO_LEADER, NO_LEADER_EPOCH

_HINTED = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH}

TopicIds = Callable[[str], bytes]
"""A function that returns the id of a topic, or the nil id if it is unknown."""
IsOnline = Callable[[TopicPartition, int], bool]
"""A function of a partition and a node id: whether metadata has this replica online."""


class FetchPlan(NamedTuple):
    """The Fetch requests to send now, and whether metadata has to be refreshed to fetch all partitions.

    `is_delayed` says that a partition is fetched later, after a backoff.
    """

    calls: list[FetchCall]
    is_metadata_stale: bool
    is_delayed: bool


class FetchNews(NamedTuple):
    """The news of a Fetch response: leaders (KIP-951), and whether metadata has to be refreshed."""

    leaders: Mapping[TopicPartition, PartitionLeader]
    is_metadata_stale: bool


class ConsumerFetches:
    """The Fetch requests of a consumer. Responses go into the buffer, from which the user's records are taken."""

    def __init__(
        self,
        subscription: ConsumerSubscription,
        unread: UnreadRecords,
        settings: FetchSettings,
        reads: ReadRecords = read_columns,
    ) -> None:
        self.buffer = FetchBuffer(subscription, unread, settings.replica_ms_max, settings.backoff_ms)
        self._subscription, self._settings, self._reads = subscription, settings, reads
        self._sessions: dict[int, NodeFetchSession] = {}
        self._in_flight: set[int] = set()

    def due(
        self, topic_id_of: TopicIds, is_online: IsOnline, is_available: Callable[[int], bool], now_ms: float
    ) -> FetchPlan:
        """Return the requests to send. A broker that is not available, because it cannot be connected, gets none.

        The caller calls `sent` for each request before it sends it.
        """
        buffered = self.buffer.partitions
        by_node: dict[int, dict[TopicPartition, PartitionFetch]] = {}
        is_stale, is_delayed, busy = False, False, set(self._in_flight)
        for partition in self._subscription.partitions:
            if not self._subscription.is_fetchable(partition):
                continue
            if now_ms < self._subscription[partition].fetch_at_ms:
                is_delayed = True
                continue
            node = self._node(partition, is_online, now_ms)
            if node is None:
                is_stale = True
            elif partition in buffered:
                busy.add(node)
            else:
                by_node.setdefault(node, {})[partition] = self._asked(partition, topic_id_of)
        calls = [
            FetchCall(node, self._sessions.setdefault(node, NodeFetchSession()), partitions, self._settings)
            for node, partitions in by_node.items()
            if node not in busy and is_available(node)
        ]
        return FetchPlan(calls, is_stale or self.buffer.take_stale(), is_delayed)

    def sent(self, call: FetchCall) -> None:
        """Note that a request is in flight, until `received` or `failed`."""
        self._in_flight.add(call.node)

    def received(self, call: FetchCall, response: FetchResponse) -> FetchNews:
        self._in_flight.discard(call.node)
        parts = call.parts(response)
        if parts is None:
            return FetchNews({}, response.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        settings = self._settings
        for partition, asked, data in parts:
            state = self._subscription.get(partition)
            self.buffer.add(
                CompletedFetch(
                    partition,
                    asked.offset,
                    data,
                    committed=settings.is_committed,
                    checks_crc=settings.checks_crc,
                    era=None if state is None else state.era,
                    leader_epoch=asked.leader_epoch,
                    reads=self._reads,
                )
            )
        return FetchNews(_leaders(parts), False)

    def failed(self, call: FetchCall) -> None:
        """Note that a request has no response. Its partitions are fetched from their leaders next."""
        self._in_flight.discard(call.node)
        call.session.failed()
        for partition in call.partitions:
            if state := self._subscription.get(partition):
                state.clear_replica()

    def close_requests(self) -> list[tuple[int, FetchRequest]]:
        """Return the requests that close all sessions, with the node ids of their brokers."""
        found = [(node, session.close_request()) for node, session in self._sessions.items()]
        return [(node, request) for node, request in found if request is not None]

    def _asked(self, partition: TopicPartition, topic_id_of: TopicIds) -> PartitionFetch:
        position = self._subscription[partition].position
        assert position is not None, "a fetchable partition has a position"
        bytes_max = self._settings.partition_bytes_max
        return PartitionFetch(topic_id_of(partition.topic), position.offset, position.leader.epoch, bytes_max)

    def _node(self, partition: TopicPartition, is_online: IsOnline, now_ms: float) -> int | None:
        """Return the broker to fetch from, or None if it is unknown."""
        state = self._subscription[partition]
        assert state.position is not None, "a fetchable partition has a position"
        leader = state.position.leader.node
        replica = state.read_replica(now_ms)
        if leader is None or replica is None:
            return leader
        if is_online(partition, replica):
            return replica
        state.clear_replica()
        self.buffer.note_stale()
        return leader


def _leaders(parts: list[FetchPart]) -> dict[TopicPartition, PartitionLeader]:
    """Return the leaders that a response reports with its errors."""
    return {
        part.partition: PartitionLeader(hint.leader_id, hint.leader_epoch)
        for part in parts
        if part.data.error_code in _HINTED
        and (hint := part.data.current_leader).leader_id != NO_LEADER
        and hint.leader_epoch != NO_LEADER_EPOCH
    }
