"""What a listener has counted, as the console and the metrics see it: frozen, and made only when somebody asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pykbroker.server.ending import ConnectionEnding
from pykbroker.server.table import Route
from wire.api import ApiKey


@dataclass(frozen=True, slots=True)
class RouteStatistics:
    """Requests of one version of one API. Times in ns, summed; sizes without the size fields."""

    key: ApiKey
    version: int
    count: int
    """Answered, or handled where there is no answer; those that wait are not in it yet."""
    errors: int
    """Answered by one error for the whole request."""
    bytes_in: int
    bytes_out: int
    queue_ns: int
    """From its last byte until it was its turn, behind others of its connection or because too many were waiting."""
    local_ns: int
    """On the loop, from the frame to the answer or to the wait for it."""
    remote_ns: int
    """Waiting."""
    answer_queue_ns: int
    """From its answer until those of the requests before it were there."""
    histogram: tuple[int, ...]
    """How many took how long in all: below 1,024 ns, and then from each power of two to the next."""

    @classmethod
    def of(cls, route: Route) -> RouteStatistics:
        """As it stands now."""
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


@dataclass(frozen=True, slots=True)
class ServerStatistics:
    """Of one listener, since its start."""

    requests: tuple[RouteStatistics, ...]
    """By API and version."""
    requests_waiting: int
    requests_held: int
    connections_open: int
    connections_owed: int
    """Those whose peers do not take what they are sent."""
    owed_ns: int
    """How long that took of those that have taken it."""
    connections_age_ns: int
    """How long those that are open have been so, in all."""
    connections_age_ns_max: int
    connections_accepted: int
    connections_refused: int
    """Closed at once, one too many of their address."""
    connections_closed: Mapping[ConnectionEnding, int]
    accept_waits: int
    """How often accepting rested, for there were too many connections, or they came too fast."""
    held_bytes: int
    """Requests and answers in memory between two turns of the loop."""
    held_bytes_max: int
