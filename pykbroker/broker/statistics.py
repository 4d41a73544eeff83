"""A snapshot of the counters of all parts of a broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from pykbroker.broker.parts import Parts
from pykbroker.core.address import Address
from pykbroker.core.fetch.session_cache import Statistics as SessionStatistics
from pykbroker.core.steps import Steps
from pykbroker.quorum.statistics import ControllerStatistics
from pykbroker.replica.care.scrubber import ScrubStatistics
from pykbroker.replica.statistics import ReplicaStatistics, offline_partitions, replica_statistics
from pykbroker.server.connections import Connections
from pykbroker.server.metrics import ServerStatistics, merged
from pykbroker.storage.directory.statistics import DirectoryStatistics
from pykbroker.world.net import NetStatistics

if TYPE_CHECKING:
    from pykbroker.broker.decision_rates import AuthorizerStatistics


class BrokerStatistics(msgspec.Struct, frozen=True):
    """The broker's id and the address that it registered first, and the counters of each part, as metrics read them."""

    node_id: int
    address: str
    server: ServerStatistics
    fetch_sessions: SessionStatistics
    net: NetStatistics
    directories: tuple[DirectoryStatistics, ...]
    replicas: ReplicaStatistics
    scrub: ScrubStatistics
    controller: ControllerStatistics
    authorizer: AuthorizerStatistics | None = None


class BrokerHealth(msgspec.Struct, frozen=True):
    """The paths of the log directories that have failed, and the number of partitions that are offline."""

    failed_directories: tuple[str, ...]
    offline_partitions: int


def statistics(parts: Parts, connections: Sequence[Connections]) -> Steps[BrokerStatistics]:
    """Return the current counters. They are summed over all partitions in steps."""
    replicas = yield from replica_statistics(parts.replicas)
    directories = list[DirectoryStatistics]()
    for directory in parts.directories:
        directories.append((yield from directory.statistics()))
    for path in parts.refused_paths:
        directories.append(DirectoryStatistics(path, failed=True))
    node_id = parts.identity.node_id
    registered = parts.image().cluster.brokers.get(node_id)
    rates = parts.decision_rates
    return BrokerStatistics(
        node_id,
        "" if registered is None else str(Address(registered.endpoints[0].host, registered.endpoints[0].port)),
        server=merged(
            [one.statistics() for one in connections],
            (*parts.listeners.bound, *parts.controller_bound),
            parts.secured.authentications(),
        ),
        fetch_sessions=parts.fetch_sessions.statistics(),
        net=parts.world.net.statistics(),
        directories=tuple(directories),
        replicas=replicas,
        scrub=parts.scrubber.statistics(),
        controller=parts.quorum.statistics(),
        authorizer=None if rates is None else rates.statistics(),
    )


def health(parts: Parts) -> Steps[BrokerHealth]:
    """Return the health of the broker. It is much cheaper than `statistics`, since load balancers ask often."""
    failed = [directory.path for directory in parts.directories if directory.failed is not None]
    return BrokerHealth((*failed, *parts.refused_paths), (yield from offline_partitions(parts.replicas)))
