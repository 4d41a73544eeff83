"""Tests of the measured times of a request: queued, on the event loop, waiting, behind earlier
responses, and sending.
"""

from __future__ import annotations

from typing import Any

import trio

from pykbroker.server.connections import Connections
from pykbroker.server.handler import RequestContext
from pykbroker.server.limits import Limits
from pykbroker.server.listener import Listener
from pykbroker.server.metrics import RouteStatistics
from pykbroker.server.table import ApiTable
from pykbroker.world.net import Peer
from pykbroker.world.turns import Turns
from tests.unit.server.rig import ECHO, Api, NoTasks, Rig, correlation_ids, heartbeat
from wire.api import ApiKey
from wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

PEER = Peer("10.0.0.7", 50000, "10.0.0.1", 9092)


class Clock:
    """A clock that does not advance by itself."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def counted(rig: Rig) -> RouteStatistics:
    (route,) = rig.table.values()
    return RouteStatistics.of(route)


def test_the_time_behind_earlier_requests_counts_as_queue_time() -> None:
    clock = Clock()

    def slow(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        clock.now += 100
        return HeartbeatResponse()

    rig = Rig(NoTasks(), Api(ApiKey.HEARTBEAT, "0-4", slow), ticks=clock)
    rig.feed(b"".join(map(heartbeat, range(3))))
    assert (counted(rig).queue_ns, counted(rig).local_ns) == (0 + 100 + 200, 300)
    clock.now += 1000
    rig.feed(heartbeat(3)[:9])
    clock.now += 1000  # The last request is incomplete, so it is not yet waiting.
    rig.feed(heartbeat(3)[9:])
    assert (counted(rig).queue_ns, counted(rig).local_ns) == (300, 400)


async def test_the_time_behind_earlier_responses_counts_as_response_queue_time() -> None:
    clock, gates = Clock(), [trio.Event(), trio.Event()]

    async def wait(number: int) -> HeartbeatResponse:
        await gates[number].wait()
        return HeartbeatResponse()

    def call(context: RequestContext, request: HeartbeatRequest) -> Any:
        return wait(request.generation_id) if request.generation_id < 2 else HeartbeatResponse()

    async with trio.open_nursery() as nursery:
        rig = Rig(nursery, Api(ApiKey.HEARTBEAT, "0-4", call), ticks=clock)
        rig.feed(b"".join(map(heartbeat, range(3))))
        clock.now = 10
        gates[1].set()
        await trio.testing.wait_all_tasks_blocked()
        assert (counted(rig).answer_queue_ns, rig.replies()) == (0, [])
        clock.now = 50
        gates[0].set()
    assert correlation_ids(rig.replies()) == [0, 1, 2]
    assert counted(rig).answer_queue_ns == 0 + 40 + 50
    assert counted(rig).remote_ns == 50 + 10


def test_the_time_during_which_a_client_reads_no_responses_is_measured() -> None:
    clock = Clock()
    made = Connections(ApiTable([ECHO]), NoTasks(), Turns(clock), Limits())
    listener = Listener("PLAINTEXT", made)
    pump: Any = Rig(NoTasks(), ECHO)
    connections = [listener(PEER, pump)]
    clock.now = 1000
    connections.append(listener(PEER, pump))
    first = connections[0]
    assert first is not None
    clock.now = 1500
    first.unsent(100, 100)
    clock.now = 1700
    first.unsent(40, 40)
    found = made.statistics()
    assert (found.connections_unsent, found.unsent_ns) == (1, 0)
    assert (found.connections_age_ns, found.connections_age_ns_max) == (1700 + 700, 1700)
    clock.now = 2000
    first.unsent(0, 0)
    found = made.statistics()
    assert (found.connections_unsent, found.unsent_ns) == (0, 500)
