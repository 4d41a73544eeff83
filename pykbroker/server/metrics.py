"""The statistics of the server as frozen snapshots, which are created on request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from pykbroker.server.authentications import Authentications, total
from pykbroker.server.ending import ConnectionEnding
from pykbroker.server.table import Route
from wire.api import ApiKey


class RouteStatistics(msgspec.Struct, frozen=True):
    """The statistics of one version of one API. Times are sums in ns. Sizes exclude the size fields of frames."""

    key: ApiKey
    version: int
    count: int
    """The number of requests that are answered, or handled if they have no response.

    Waiting requests are not counted yet.
    """
    errors: int
    """The number of requests that failed as a whole."""
    bytes_in: int
    bytes_out: int
    queue_ns: int
    """The time from the last byte of a request to the call of its handler."""
    local_ns: int
    """The time on the event loop from the decoding of a request to its response or the start of its wait."""
    remote_ns: int
    """The time from the start of a request's wait to its end."""
    answer_queue_ns: int
    """The time for which responses waited until all earlier responses of their connection were ready."""
    histogram: tuple[int, ...]
    """The number of requests by total time.

    The first bucket ends at 1,024 ns, and each further bucket at twice the time.
    """

    @classmethod
    def of(cls, route: Route) -> RouteStatistics:
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
    """The statistics of the server since the broker's start."""

    requests: tuple[RouteStatistics, ...]
    """The statistics of requests by API and version."""
    requests_waiting: int
    requests_held: int
    connections_open: Mapping[str, int]
    """The number of open connections by listener."""
    connections_unsent: int
    """The number of connections whose clients have not read all replies."""
    unsent_ns: int
    """The total time for which the sockets of clients did not accept all bytes of the replies."""
    connections_age_ns: int
    """The sum of the ages of all open connections."""
    connections_age_ns_max: int
    connections_accepted: int
    connections_refused: int
    """The number of connections that were closed at once, because their address had too many connections."""
    connections_closed: Mapping[ConnectionEnding, int]
    accept_waits: int
    """The number of pauses in accepting, because of the limit on connections or on their rate."""
    authentications: Mapping[str, Authentications]
    """The log-ins and the handshakes of TLS by listener."""
    tls: Mapping[tuple[str, str, str], int]
    """The number of open connections by listener, version of TLS and cipher suite."""
    held_bytes: int
    """The bytes of requests and responses that are charged to the memory budget."""
    held_bytes_max: int


def merged(
    parts: Sequence[ServerStatistics], listeners: Iterable[str], handshakes: Mapping[str, Authentications]
) -> ServerStatistics:
    """Return the statistics of all connections. Listeners without connections are counted, too.

    `handshakes` has the counts of the listeners with TLS.

    The requests are those of the first part. Its table of APIs is that of all listeners but the controller's.
    """
    closed: Counter[ConnectionEnding] = Counter()
    opened = Counter(dict.fromkeys(listeners, 0))
    for part in parts:
        closed.update(part.connections_closed)
        opened.update(part.connections_open)
    tls = Counter[tuple[str, str, str]]()
    for part in parts:
        tls.update(part.tls)
    authentications = {
        name: total(each[name] for each in (*(part.authentications for part in parts), handshakes) if name in each)
        for name in opened
    }
    sums = {name: sum(getattr(part, name) for part in parts) for name in SUMMED}
    return ServerStatistics(
        requests=parts[0].requests,
        connections_open=dict(opened),
        connections_age_ns_max=max(part.connections_age_ns_max for part in parts),
        connections_closed=dict(closed),
        authentications=authentications,
        tls=dict(tls),
        **sums,
    )


NOT_SUMMED = ("requests", "connections_open", "connections_age_ns_max", "connections_closed", "authentications", "tls")
SUMMED = tuple(name for name in ServerStatistics.__struct_fields__ if name not in NOT_SUMMED)
"""The statistics that are sums over all connections."""
