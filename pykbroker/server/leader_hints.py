"""The leaders of partitions, as responses name them to clients that asked another broker (KIP-951)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.security.session import Session
from pykbroker.server.endpoints import BrokerEndpoint, BrokerEndpoints
from wire.error_codes import ErrorCode

WRONG_LEADER = frozenset((ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH))
"""The errors that come with the leader."""


class CurrentLeader(NamedTuple):
    """The leader of a partition. `endpoint` is None if no unfenced broker leads it."""

    leader_id: int
    leader_epoch: int
    endpoint: BrokerEndpoint | None


class LeaderHints:
    """The leaders of all partitions in the current metadata."""

    def __init__(self, image: Callable[[], MetadataImage], endpoints: BrokerEndpoints) -> None:
        self._image, self._endpoints = image, endpoints

    def find(self, topic: str, index: int, session: Session) -> CurrentLeader | None:
        """Return the leader of a partition with its endpoint for this client, None for an unknown partition."""
        partition = self._image().topics.partition(topic, index)
        if partition is None:
            return None
        return CurrentLeader(partition.leader, partition.leader_epoch, self._endpoints.of(partition.leader, session))
