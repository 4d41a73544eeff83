"""The leaders of partitions, as one client knows them from metadata and from the hints in error responses (KIP-951)."""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.sim.client import Again
from pykbroker.sim.history import Place
from wire.declare import Response
from wire.error_codes import ErrorCode
from wire.messages.fetch import FetchRequest, FetchResponse
from wire.messages.metadata import MetadataResponse
from wire.messages.produce import ProduceResponse
from wire.sentinels import NO_LEADER, NO_LEADER_EPOCH

STALE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REPLICA_NOT_AVAILABLE,
    }
)
"""The error codes of a partition after which a client requests metadata."""


class LeaderTable:
    """The newest known leader of each partition, and the addresses of the brokers. It outlives connections.

    `is_stale` is true after an error that metadata may explain.
    """

    def __init__(self) -> None:
        self.addresses: dict[int, tuple[str, int]] = {}
        self.is_stale = False
        self._leaders: dict[Place, tuple[int, int]] = {}

    def leader_of(self, place: Place) -> int:
        """Return the node id of a partition's leader. Raise Again without a known leader."""
        _, leader = self._leaders.get(place, (0, NO_LEADER))
        if leader not in self.addresses:
            self.is_stale = True
            raise Again(f"{place} has no leader")
        return leader

    def name_epochs(self, request: FetchRequest) -> None:
        """Name the known leader epoch of each partition, so that a former leader does not answer from an old log."""
        for topic in request.topics:
            for partition in topic.partitions:
                known = self._leaders.get((topic.topic, partition.partition), (NO_LEADER_EPOCH, NO_LEADER))
                partition.current_leader_epoch = known[0]

    def note_metadata(self, answer: MetadataResponse) -> None:
        """Take the brokers, and the leaders whose epoch is not older than the known one."""
        self.is_stale = False
        self.addresses |= {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        for topic in answer.topics:
            for one in topic.partitions:
                self._note((topic.name or "", one.partition_index), one.leader_epoch, one.leader_id)

    def note_answer(self, answer: Response, named: Callable[[str, bytes], str]) -> None:
        """Take the leaders that a response to Produce or Fetch names. `named` returns the name of a topic."""
        if isinstance(answer, ProduceResponse):
            for topic in answer.responses:
                for one in topic.partition_responses:
                    if one.error_code in STALE:
                        hint = one.current_leader
                        place = named(topic.name, topic.topic_id), one.index
                        self._note_error(place, hint.leader_epoch, hint.leader_id)
        elif isinstance(answer, FetchResponse):
            for found in answer.responses:
                for data in found.partitions:
                    if data.error_code in STALE:
                        place = named(found.topic, found.topic_id), data.partition_index
                        self._note_error(place, data.current_leader.leader_epoch, data.current_leader.leader_id)

    def _note_error(self, place: Place, epoch: int, leader: int) -> None:
        if leader not in self.addresses or not self._note(place, epoch, leader):
            self.is_stale = True

    def _note(self, place: Place, epoch: int, leader: int) -> bool:
        """Take a leader unless its epoch is older than the known one. Return whether the table changed."""
        known = self._leaders.get(place, (NO_LEADER_EPOCH, NO_LEADER))
        if epoch < known[0] or (epoch, leader) == known:
            return False
        self._leaders[place] = (epoch, leader)
        return True
