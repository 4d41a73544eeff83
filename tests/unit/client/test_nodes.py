"""Tests of a client's connections: backoffs, time-outs, the least loaded node, and requests without a response."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from pykbroker.client.cluster import ClusterBroker
from pykbroker.client.errors import Disconnected, Silent
from pykbroker.client.nodes import Nodes, coordinator_connection_id
from pykbroker.sim.scripted.connection import NoAnswer
from pykbroker.sim.scripted.node import ScriptedNode
from tests.unit.client.conftest import Client
from wire.api import ApiKey
from wire.messages.metadata import MetadataRequest, MetadataResponse
from wire.messages.produce import ProduceRequest
from wire.versions import Versions


async def knowing(client: Client, **settings: Any) -> Nodes:
    """Return running connections that know the three nodes."""
    nodes = await client.nodes(**settings)
    nodes.set_brokers({each: ClusterBroker(each, f"node{each}", 9092) for each in (1, 2, 3)})
    return nodes


def can_send(nodes: Nodes, node_id: int) -> bool:
    return nodes.node(node_id).can_send(trio.current_time())


def delay_s(nodes: Nodes, node_id: int) -> float:
    return nodes.node(node_id).delay_s(trio.current_time())


async def no_answer(node: ScriptedNode, request: Any) -> None:
    raise NoAnswer


async def test_a_request_opens_a_connection_and_later_requests_share_it(autojump_clock, client: Client) -> None:
    nodes = await knowing(client)
    for _ in range(3):
        assert (await nodes.ask(2, MetadataRequest())).cluster_id == "scripted"
    assert [host for _, host in client.net.attempts] == ["node2"]


async def test_a_node_without_a_connection_is_connected_and_reported_as_ready(autojump_clock, client: Client) -> None:
    nodes = await knowing(client)
    ready: list[int] = []
    nodes.call_when_ready(ready.append)
    assert not nodes.ready_or_connect(1)
    assert not nodes.ready_or_connect(1)
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert ready == [1]
    assert nodes.ready_or_connect(1)
    assert len(client.net.attempts) == 1


async def test_a_failed_connection_attempt_is_reported_and_delays_the_next_one(autojump_clock, client: Client) -> None:
    client.cluster.nodes[1].stop()
    nodes = await knowing(client)
    lost: list[int] = []
    nodes.call_when_lost(lost.append)
    assert delay_s(nodes, 1) == 0
    assert not nodes.ready_or_connect(1)
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert lost == [1]
    assert 0 < delay_s(nodes, 1) <= 0.05
    assert not nodes.ready_or_connect(1)
    await trio.sleep(delay_s(nodes, 1))
    client.cluster.nodes[1].start()
    nodes.ready_or_connect(1)
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert nodes.ready_or_connect(1)


async def test_a_response_wakes_the_callback_of_its_request(autojump_clock, client: Client) -> None:
    nodes = await knowing(client)
    await nodes.connection(1)
    pending = nodes.ask_nowait(1, MetadataRequest())
    woken = trio.Event()
    pending.call_when_done(woken.set)
    assert nodes.node(1).in_flight_count == 1
    await woken.wait()
    assert pending.result().cluster_id == "scripted"
    assert nodes.node(1).in_flight_count == 0


async def test_a_request_that_times_out_fails_all_requests_of_its_connection(autojump_clock, client: Client) -> None:
    nodes = await knowing(client, request_timeout_ms=5000)
    client.cluster.script(ApiKey.METADATA, no_answer)
    await nodes.connection(1)
    slow = nodes.ask_nowait(1, MetadataRequest(), timeout_ms=60_000)
    usual = nodes.ask_nowait(1, MetadataRequest())
    began = trio.current_time()
    with pytest.raises(Silent):
        await nodes.ask(1, MetadataRequest())
    assert trio.current_time() - began == pytest.approx(5)
    for pending in (slow, usual):
        with pytest.raises(Silent, match="node 1"):
            pending.result()
    assert not can_send(nodes, 1)


async def test_a_cancelled_request_does_not_time_out_once_its_response_has_arrived(
    autojump_clock, client: Client
) -> None:
    nodes = await knowing(client, request_timeout_ms=5000)

    async def slow(node: ScriptedNode, request: Any) -> None:
        await trio.sleep(1)

    client.cluster.script(ApiKey.METADATA, slow)
    with trio.move_on_after(0.5):
        await nodes.ask(1, MetadataRequest())
    await trio.sleep(20)
    assert can_send(nodes, 1)


async def test_an_earlier_deadline_shortens_the_wait_for_a_time_out(autojump_clock, client: Client) -> None:
    nodes = await knowing(client)
    client.cluster.script(ApiKey.METADATA, no_answer)
    await nodes.connection(1)
    nodes.ask_nowait(1, MetadataRequest(), timeout_ms=30_000)
    await trio.sleep(1)
    began = trio.current_time()
    with pytest.raises(Silent):
        await nodes.ask(1, MetadataRequest(), timeout_ms=2000)
    assert trio.current_time() - began == pytest.approx(2)


async def test_the_connection_setup_timeout_doubles_up_to_its_maximum(autojump_clock, client: Client) -> None:
    nodes = await knowing(client, setup_timeout_ms=10_000, setup_timeout_ms_max=30_000, reconnect_backoff_ms=0)
    client.net.black_holes.add("node1")
    durations = []
    for _ in range(4):
        began = trio.current_time()
        with pytest.raises(TimeoutError, match="node1:9092 accepted no connection"):
            await nodes.connection(1)
        durations.append(round(trio.current_time() - began))
    assert durations == [10, 20, 30, 30]


async def test_a_broker_that_sends_no_api_versions_is_disconnected_after_the_request_timeout(
    autojump_clock, client: Client
) -> None:
    nodes = await knowing(client, request_timeout_ms=7000)
    client.cluster.script(ApiKey.API_VERSIONS, no_answer)
    began = trio.current_time()
    with pytest.raises(Silent, match="node1:9092 sent no API versions within 7 s"):
        await nodes.connection(1)
    assert trio.current_time() - began == pytest.approx(7)


async def test_an_idle_connection_is_closed_and_a_used_connection_stays_open(autojump_clock, client: Client) -> None:
    nodes = await knowing(client, idle_ms_max=10_000)
    await nodes.connection(2)
    await trio.sleep(3)
    await nodes.connection(1)
    await trio.sleep(4)
    await nodes.ask(1, MetadataRequest())
    await trio.sleep(5)
    assert not can_send(nodes, 2)
    assert can_send(nodes, 1)
    await trio.sleep(6)
    assert not can_send(nodes, 1)


async def test_a_node_takes_as_many_requests_as_may_be_in_flight(autojump_clock, client: Client) -> None:
    nodes = await knowing(client, in_flight_max=2)
    client.cluster.script(ApiKey.METADATA, no_answer)
    await nodes.connection(1)
    for _ in range(2):
        assert can_send(nodes, 1)
        nodes.ask_nowait(1, MetadataRequest())
        await trio.testing.wait_all_tasks_blocked(0.01)
    assert not can_send(nodes, 1)
    assert delay_s(nodes, 1) == float("inf")


async def test_a_node_takes_no_request_until_the_previous_one_is_sent(autojump_clock, client: Client) -> None:
    nodes = await knowing(client)
    await nodes.connection(1)
    ready: list[int] = []
    nodes.call_when_ready(ready.append)
    client.net.pumps[0].holds = True
    nodes.send_nowait(1, ProduceRequest(acks=0))
    assert not can_send(nodes, 1)
    client.net.pumps[0].release()
    assert ready == [1]
    assert can_send(nodes, 1)


async def test_a_throttle_time_delays_the_next_request_to_the_node(autojump_clock, client: Client) -> None:
    nodes = await knowing(client)

    async def throttled(node: ScriptedNode, request: Any) -> MetadataResponse:
        return MetadataResponse(throttle_time_ms=2000)

    client.cluster.script(ApiKey.METADATA, throttled, times=1)
    await nodes.ask(1, MetadataRequest())
    assert not can_send(nodes, 1)
    assert delay_s(nodes, 1) == pytest.approx(2)
    began = trio.current_time()
    await nodes.ask(1, MetadataRequest())
    assert trio.current_time() - began == pytest.approx(2)


async def test_the_least_loaded_node_is_the_connected_one_with_the_fewest_requests_in_flight(
    autojump_clock, client: Client
) -> None:
    nodes = await knowing(client)
    assert nodes.least_loaded() in (1, 2, 3)
    client.cluster.script(ApiKey.METADATA, no_answer)
    await nodes.connection(2)
    assert nodes.least_loaded() == 2
    nodes.ask_nowait(2, MetadataRequest())
    await nodes.connection(3)
    assert nodes.least_loaded() == 3
    for _ in range(2):
        nodes.ask_nowait(3, MetadataRequest())
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert nodes.least_loaded() == 2


async def test_no_node_is_the_least_loaded_while_all_wait_for_the_reconnect_backoff(
    autojump_clock, client: Client
) -> None:
    nodes = await knowing(client)
    for node in client.cluster.nodes.values():
        node.stop()
    tried = set()
    while (node_id := nodes.least_loaded()) is not None:
        tried.add(node_id)
        with pytest.raises(ConnectionRefusedError):
            await nodes.connection(node_id)
    assert tried == {1, 2, 3}
    assert not nodes.any_open
    await trio.sleep(1)
    assert nodes.least_loaded() is not None


async def test_a_broker_that_moved_is_reached_at_its_new_address(autojump_clock, client: Client) -> None:
    nodes = await knowing(client)
    await nodes.connection(1)
    nodes.set_brokers({1: ClusterBroker(1, "node3", 9092)})
    client.cluster.nodes[1].disconnect()
    await trio.sleep(1)
    await nodes.ask(1, MetadataRequest())
    assert len(client.cluster.nodes[3].requests_of(ApiKey.METADATA)) == 1


async def test_an_old_broker_gets_an_older_api_versions_request(autojump_clock, client: Client) -> None:
    client.cluster.nodes[1].versions[ApiKey.API_VERSIONS] = Versions(0, 2)
    nodes = await knowing(client)
    await nodes.ask(1, MetadataRequest())
    assert [header.version for header, _ in client.cluster.nodes[1].requests[:2]] == [4, 2]


async def test_the_newest_finalized_features_of_all_brokers_are_kept(autojump_clock, client: Client) -> None:
    nodes = await knowing(client)
    await nodes.connection(1)
    assert nodes.features == {"transaction.version": 2}
    client.cluster.state.features, client.cluster.state.features_epoch = {"transaction.version": 1}, 0
    await nodes.connection(2)
    assert nodes.features == {"transaction.version": 2}
    client.cluster.state.features_epoch = 2
    await nodes.connection(3)
    assert nodes.features == {"transaction.version": 1}


async def test_a_coordinator_has_a_connection_of_its_own(autojump_clock, client: Client) -> None:
    nodes = await knowing(client)
    coordinator = coordinator_connection_id(1)
    assert coordinator == 2**31 - 2
    nodes.learn(ClusterBroker(coordinator, "node1", 9092))
    await nodes.ask(1, MetadataRequest())
    await nodes.ask(coordinator, MetadataRequest())
    assert client.cluster.nodes[1].connection_count == 2
    assert nodes.least_loaded() == 1


async def test_a_request_on_a_closed_connection_fails(autojump_clock, client: Client) -> None:
    nodes = await knowing(client)
    with pytest.raises(Disconnected, match=r"no connection to node 1 \(node1:9092\) is open"):
        nodes.ask_nowait(1, MetadataRequest())
    await nodes.connection(1)
    pending = nodes.ask_nowait(1, MetadataRequest())
    nodes.disconnect(1, "the test says so")
    with pytest.raises(Disconnected, match="the test says so"):
        pending.result()
