"""The other brokers of the cluster, as a coordinator asks them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.topic_partition import TopicPartition
from wire.declare import Request, Response
from wire.sentinels import NO_LEADER

Rsp = TypeVar("Rsp", bound=Response)


class PeerBrokers(Protocol):
    """The connections to other brokers. `client.peers.Peers` matches it."""

    async def ask(self, node_id: int, request: Request[Rsp], /) -> Rsp:
        """Return the response of a broker. Raise ApiError NETWORK_EXCEPTION if it sends none."""


class ClusterLeaders:
    """The leaders of all partitions, and the connections to those on other brokers.

    Verifications and markers have connections of their own. A broker answers the requests of a connection in order, and
    it answers WriteTxnMarkers only once all followers have the markers.
    """

    def __init__(
        self,
        node_id: int,
        image: Callable[[], MetadataImage],
        verification_peers: PeerBrokers,
        marker_peers: PeerBrokers,
    ) -> None:
        self.node_id, self._image = node_id, image
        self.verification_peers, self.marker_peers = verification_peers, marker_peers

    def of(self, place: TopicPartition) -> int:
        """Return the broker that leads a partition, or -1 if it has no leader or does not exist."""
        partition = self._image().topics.partition(*place)
        return NO_LEADER if partition is None else partition.leader

    def elsewhere(self, place: TopicPartition) -> int | None:
        """Return the broker that leads a partition if it is another broker, else None."""
        leader = self.of(place)
        return None if leader in (NO_LEADER, self.node_id) else leader
