"""The advertised endpoints of brokers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

import trio

from pykbroker.core.address import Address
from pykbroker.core.ids import UNASSIGNED
from pykbroker.core.metadata.image import BrokerImage, MetadataImage, PartitionImage
from pykbroker.core.security.session import Session
from pykbroker.server.departures import Departures
from wire.error_codes import ErrorCode
from wire.sentinels import NO_LEADER

LOOPBACK = ("127.", "::1")

logger = logging.getLogger(__name__)


class BrokerEndpoint(NamedTuple):
    """The address at which one client reaches a broker."""

    node_id: int
    host: str
    port: int
    rack: str | None


class ReachableBrokers:
    """The brokers that clients of one listener can reach, at one metadata image."""

    def __init__(self, reachable: Mapping[int, BrokerImage | None], registered: Mapping[int, BrokerImage]) -> None:
        """`reachable` has None for a broker that is not registered yet."""
        self._reachable, self._registered = reachable, registered

    def __contains__(self, node_id: object) -> bool:
        return node_id in self._reachable

    def leader(self, partition: PartitionImage) -> tuple[int, ErrorCode]:
        """Return the leader of a partition, or -1 and the error for clients that know LISTENER_NOT_FOUND."""
        leader = partition.leader
        if leader in self._reachable:
            return leader, ErrorCode.NONE
        broker = self._registered.get(leader)
        if broker is None or broker.fenced:
            return NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE
        return NO_LEADER, ErrorCode.LISTENER_NOT_FOUND

    def offline_replicas(self, partition: PartitionImage, lost: int | None) -> list[int]:
        """Return the replicas of a partition that cannot serve these clients.

        They are those of unreachable brokers, those in an offline directory of their broker, and that of broker `lost`.
        """
        directories = partition.directories or (UNASSIGNED,) * len(partition.replicas)
        return [
            replica
            for replica, directory in zip(partition.replicas, directories, strict=True)
            if replica == lost or not self._serves(replica, directory)
        ]

    def _serves(self, node_id: int, directory: bytes) -> bool:
        if node_id not in self._reachable:
            return False
        broker = self._reachable[node_id]
        return broker is None or broker.is_online(directory)


class BrokerEndpoints:
    """The advertised endpoints of the cluster's brokers, for all APIs that return brokers.

    A client gets the endpoint of the listener through which it is connected. `advertised` has the advertised addresses
    of this broker by listener. A client of any other listener gets the address that it is connected to. Other brokers
    have the endpoints that they registered.
    """

    def __init__(
        self, node_id: int, image: Callable[[], MetadataImage], advertised: Mapping[str, Address] | None = None
    ) -> None:
        self._node_id, self._image, self._advertised = node_id, image, advertised or {}
        self._warned = False
        self._departures = Departures(trio.current_time)

    def note(self) -> bool:
        """Compare the brokers of the metadata with those of the last call. Return whether a fenced broker is still
        listed (`alive`).

        It is called for each new image, so that the time counts from the fence.
        """
        self._departures.note(self._image().cluster.brokers)
        return bool(self._departures)

    def own(self, session: Session) -> BrokerEndpoint:
        """Return the endpoint of this broker for this client."""
        broker = self._image().cluster.brokers.get(self._node_id)
        return BrokerEndpoint(self._node_id, *self.address(session), None if broker is None else broker.rack)

    def of(self, node_id: int, session: Session) -> BrokerEndpoint | None:
        """Return the endpoint of a broker for this client.

        Return None if the broker is not registered, is fenced, or has no such listener.
        """
        if node_id == self._node_id:
            return self.own(session)
        broker = self._image().cluster.brokers.get(node_id)
        return None if broker is None or broker.fenced else registered_endpoint(broker, session)

    def reachable(self, session: Session) -> ReachableBrokers:
        """Return the brokers that this client can reach: the unfenced brokers that have the client's listener.

        This broker answers clients, so it is always reachable.
        """
        brokers = self._image().cluster.brokers
        own = brokers.get(self._node_id)
        found = {
            one.id: one for one in brokers.values() if not one.fenced and one.endpoint(session.listener) is not None
        }
        return ReachableBrokers({**found, self._node_id: own}, brokers)

    def alive(
        self, session: Session, *, with_fenced: bool = False, with_departed: bool = False
    ) -> list[tuple[BrokerEndpoint, bool]]:
        """Return the endpoints of all brokers for this client, each with whether the broker is fenced.

        Fenced brokers are left out unless `with_fenced` is true, or `with_departed` and they were fenced a moment ago
        (`departures`). This broker answers clients, so it is always listed.
        """
        brokers = self._image().cluster.brokers
        found = []
        for node_id in sorted({*brokers, self._node_id}):
            broker = brokers.get(node_id)
            fenced = broker is None or broker.fenced
            if node_id == self._node_id:
                found.append((self.own(session), fenced))
            elif broker is not None and (with_fenced or not fenced or (with_departed and node_id in self._departures)):
                endpoint = registered_endpoint(broker, session)
                if endpoint is not None:
                    found.append((endpoint, fenced))
        return found

    def controller_address(self, session: Session) -> Address:
        """Return the (host, port) of this controller for a broker that is connected to one of its listeners."""
        return self._advertised.get(session.listener) or Address(session.local_host, session.local_port)

    def address(self, session: Session) -> Address:
        """Return the advertised (host, port) of this broker for this client.

        Log a warning for the first client from another machine if the address may be unreachable from there.
        """
        if (advertised := self._advertised.get(session.listener)) is not None:
            return advertised
        if not self._warned and not session.client_host.startswith(LOOPBACK):
            self._warned = True
            logger.warning(
                "%s comes from another machine and gets the address %s:%s. If it cannot reach that address"
                " (port forwarding, NAT, a container), start with --advertise %s=HOST:PORT.",
                session,
                session.local_host,
                session.local_port,
                session.listener,
            )
        return Address(session.local_host, session.local_port)


def registered_endpoint(broker: BrokerImage, session: Session) -> BrokerEndpoint | None:
    """Return the endpoint that a broker registered for the listener of this client, or None."""
    endpoint = broker.endpoint(session.listener)
    return None if endpoint is None else BrokerEndpoint(broker.id, endpoint.host, endpoint.port, broker.rack)
