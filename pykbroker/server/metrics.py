"""The counts of a listener as frozen snapshots, which are made only when the console or the metrics ask for them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pykbroker.server.ending import ConnectionEnding
from pykbroker.server.table import Route
from wire.api import ApiKey


class RouteStatistics(msgspec.Struct, frozen=True):
    """The requests of one version of one API. Times are sums in ns; sizes leave out the size fields."""

    key: ApiKey
    version: int
    count: int
    """Requests that are answered, or handled if they have no response. Requests that wait are not counted yet."""
    errors: int
    """Requests that failed as a whole."""
    bytes_in: int
    bytes_out: int
    queue_ns: int
    """Time from a request's last byte to its start: behind others of its connection, or at the limit of requests."""
    local_ns: int
    """On the loop, from the frame to the response or to the start of the wait."""
    remote_ns: int
    """Time from the start of the wait to its end."""
    answer_queue_ns: int
    """Time from a response until all earlier responses of its connection are ready."""
    histogram: tuple[int, ...]
    """Requests by total time: below 1,024 ns, and then from each power of two to the next."""

    @classmethod
    def of(cls, route: Route) -> RouteStatistics:
        """Return a snapshot of a route."""
        return cls(
            route.key,
            route.version,
            sum(route.histogram),
            route.errors,
            route.bytes_in,
            route.bytes_out,
            route.queue_ns,
            route.local_ns,
            route.remote_ns,
            route.answer_queue_ns,
            tuple(route.histogram),
        )


class ServerStatistics(msgspec.Struct, frozen=True):
    """The counts of one listener since its start."""

    requests: tuple[RouteStatistics, ...]
    """Requests by API and version."""
    requests_waiting: int
    requests_held: int
    connections_open: int
    connections_unsent: int
    """Connections whose peers have not taken all replies."""
    unsent_ns: int
    """The time, in all, that peers took to accept replies which they did not take at once."""
    connections_age_ns: int
    """The ages of all open connections, added up."""
    connections_age_ns_max: int
    connections_accepted: int
    connections_refused: int
    """Connections closed at once, because their address had too many."""
    connections_closed: Mapping[ConnectionEnding, int]
    accept_waits: int
    """The number of pauses in accepting, because there were too many connections or they came too fast."""
    held_bytes: int
    """Requests and responses in memory between two turns of the loop."""
    held_bytes_max: int
