"""Tests of the look-up of coordinators: its cache, its batches, and coordinators that move or are not available."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import trio
import trio.testing

from pykbroker.client.cluster import ClusterBroker
from pykbroker.client.coordinators import Coordinators
from pykbroker.core.errors import ApiError
from pykbroker.sim.scripted.node import ScriptedNode
from tests.unit.client.conftest import Client, no_jitter
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.find_coordinator import Coordinator, CoordinatorType, FindCoordinatorResponse
from wire.messages.metadata import MetadataRequest
from wire.versions import Versions

GROUP, TRANSACTION = CoordinatorType.GROUP, CoordinatorType.TRANSACTION
NODES = {each: ClusterBroker(each, f"node{each}", 9092) for each in (1, 2, 3)}


async def coordinators_of(client: Client, **settings: Any) -> Coordinators:
    nodes = await client.nodes()
    nodes.set_brokers(NODES)
    return Coordinators(nodes, no_jitter, **settings)


def requests(client: Client) -> list[Any]:
    return client.cluster.requests_of(ApiKey.FIND_COORDINATOR)


async def test_a_coordinator_is_looked_up_once(autojump_clock, client: Client) -> None:
    client.cluster.state.coordinators[GROUP, "g"] = 2
    client.cluster.state.coordinators[TRANSACTION, "g"] = 3
    coordinators = await coordinators_of(client)
    assert coordinators.known(GROUP, "g") is None
    for _ in range(2):
        assert await coordinators.find(GROUP, "g") == 2
        assert await coordinators.find(TRANSACTION, "g") == 3
    assert coordinators.known(GROUP, "g") == 2
    assert len(requests(client)) == 2


async def test_concurrent_callers_share_one_look_up(autojump_clock, client: Client) -> None:
    coordinators = await coordinators_of(client)
    async with trio.open_nursery() as callers:
        for _ in range(5):
            callers.start_soon(coordinators.find, GROUP, "g")
    assert len(requests(client)) == 1


async def test_several_coordinators_are_looked_up_in_one_request(autojump_clock, client: Client) -> None:
    client.cluster.state.coordinators[GROUP, "b"] = 3
    coordinators = await coordinators_of(client)
    assert await coordinators.find_all(GROUP, ["a", "b"]) == {"a": 1, "b": 3}
    assert [request.coordinator_keys for request in requests(client)] == [["a", "b"]]


async def test_old_brokers_are_asked_for_one_coordinator_at_a_time(autojump_clock, client: Client) -> None:
    client.cluster.state.coordinators[GROUP, "b"] = 3
    for node in client.cluster.nodes.values():
        node.versions[ApiKey.FIND_COORDINATOR] = Versions(0, 3)
    coordinators = await coordinators_of(client)
    assert await coordinators.find_all(GROUP, ["a", "b"]) == {"a": 1, "b": 3}
    assert [request.key_ for request in requests(client)] == ["a", "b"]


async def test_a_coordinator_that_is_not_available_is_looked_up_with_a_doubling_backoff(
    autojump_clock, client: Client
) -> None:
    client.cluster.state.coordinators[GROUP, "g"] = -1
    coordinators = await coordinators_of(client)
    times: list[float] = []

    async def note(node: ScriptedNode, request: Any) -> None:
        times.append(trio.current_time())
        if len(times) == 6:
            client.cluster.state.coordinators[GROUP, "g"] = 2

    client.cluster.script(ApiKey.FIND_COORDINATOR, note)
    assert await coordinators.find(GROUP, "g") == 2
    assert [later - earlier for earlier, later in pairwise(times)] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0])


async def test_an_unavailable_group_coordinator_does_not_delay_a_transaction_coordinator(
    autojump_clock, client: Client, nursery
) -> None:
    client.cluster.state.coordinators[GROUP, "g"] = -1
    coordinators = await coordinators_of(client)
    nursery.start_soon(coordinators.find, GROUP, "g")
    await trio.sleep(10)
    began = trio.current_time()
    await coordinators.find(TRANSACTION, "t")
    assert trio.current_time() == began


async def test_a_refused_look_up_raises_the_error_of_the_broker(autojump_clock, client: Client) -> None:
    async def refuse(node: ScriptedNode, request: Any) -> FindCoordinatorResponse:
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return FindCoordinatorResponse(coordinators=[Coordinator("g", -1, "", -1, code, "Not authorized.")])

    client.cluster.script(ApiKey.FIND_COORDINATOR, refuse)
    coordinators = await coordinators_of(client)
    with pytest.raises(ApiError, match="group 'g': Not authorized.") as error:
        await coordinators.find(GROUP, "g")
    assert error.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED


async def test_a_coordinator_is_looked_up_again_after_it_moved(autojump_clock, client: Client) -> None:
    coordinators = await coordinators_of(client)
    assert await coordinators.find(GROUP, "g") == 1
    client.cluster.state.coordinators[GROUP, "g"] = 3
    assert await coordinators.find(GROUP, "g") == 1
    coordinators.forget(GROUP, "g")
    assert await coordinators.find(GROUP, "g") == 3


async def test_a_coordinator_is_looked_up_again_after_its_connection_was_lost(autojump_clock, client: Client) -> None:
    nodes = await client.nodes()
    nodes.set_brokers(NODES)
    coordinators = Coordinators(nodes, no_jitter)
    client.cluster.state.coordinators[GROUP, "g"] = 2
    await nodes.ask(await coordinators.find(GROUP, "g"), MetadataRequest())
    client.cluster.nodes[2].stop()
    client.cluster.state.coordinators[GROUP, "g"] = 3
    await trio.testing.wait_all_tasks_blocked(0.001)
    assert coordinators.known(GROUP, "g") is None
    assert await coordinators.find(GROUP, "g") == 3


async def test_a_look_up_continues_after_a_disconnect(autojump_clock, client: Client) -> None:
    for node in client.cluster.nodes.values():
        node.stop()
    coordinators = await coordinators_of(client)
    with trio.move_on_after(10):
        await coordinators.find(GROUP, "g")
    for node in client.cluster.nodes.values():
        node.start()
    with trio.fail_after(3):
        assert await coordinators.find(GROUP, "g") == 1


async def test_a_consumer_has_a_separate_connection_to_its_coordinator(autojump_clock, client: Client) -> None:
    nodes = await client.nodes()
    nodes.set_brokers({1: NODES[1]})
    coordinators = Coordinators(nodes, no_jitter, separate_connections=True)
    coordinator = await coordinators.find(GROUP, "g")
    await nodes.ask(coordinator, MetadataRequest())
    assert client.cluster.nodes[1].connection_count == 2
