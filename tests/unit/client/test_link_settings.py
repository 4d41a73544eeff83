"""Connections of a broker to other brokers: how long they may take to be opened, and their receive buffers."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from pykbroker.broker.inter_broker_endpoints import InterBrokerEndpoints
from pykbroker.broker.leader_links import BrokerLeaderLinks
from pykbroker.client.errors import Disconnected
from pykbroker.client.link_settings import LinkSettings
from pykbroker.client.peers import Peers
from pykbroker.client.security import PLAINTEXT
from pykbroker.core.address import Address
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.image import BrokerImage, ClusterImage, Endpoint, MetadataImage
from pykbroker.sim.scripted.connection import NoAnswer
from tests.unit.client.conftest import Client, no_jitter
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.metadata import MetadataRequest

Clock = trio.testing.MockClock
SETUP_S = [1.0, 2.0, 3.0, 3.0]
"""The time limits of attempts with socket.connection.setup.timeout.ms = 1000 and a maximum of 3000."""


REQUEST_S = 7.0
"""The time limit of a request of a follower or a coordinator."""


def configs(**configs: int) -> BrokerConfig:
    texts = {"socket.connection.setup.timeout.ms": "1000", "socket.connection.setup.timeout.max.ms": "3000"}
    return BrokerConfig.from_mapping(
        {**texts, **{name.replace("_", "."): str(value) for name, value in configs.items()}}
    )


async def limits_of(ask: Any, error: type[Exception], client: Client) -> list[float]:
    """Return how long each attempt to connect to a host lasts that accepts no connection."""
    client.net.black_holes.add("node1")
    found = []
    for _ in SETUP_S:
        with pytest.raises(error):
            await ask()
        found.append(trio.current_time() - client.net.attempts[-1][0])
    return found


def peers(client: Client, config: BrokerConfig) -> Peers:
    opened = LinkSettings.of(config, PLAINTEXT, config.socket_receive_buffer_bytes)
    return Peers(client.net, lambda _node_id: Address("node1", 9092), "test", no_jitter, REQUEST_S, opened)


def links(client: Client, config: BrokerConfig) -> BrokerLeaderLinks:
    broker = BrokerImage(
        id=1, epoch=1, incarnation_id=bytes(16), endpoints=(Endpoint("INTERNAL", "node1", 9092),), fenced=False
    )
    image = MetadataImage(cluster=ClusterImage({1: broker}))
    opened = LinkSettings.of(config, PLAINTEXT, config.replica_socket_receive_buffer_bytes)
    endpoints = InterBrokerEndpoints(lambda: image, "INTERNAL")
    return BrokerLeaderLinks(2, client.net, no_jitter, endpoints, opened, REQUEST_S)


async def test_a_coordinator_stops_waiting_for_a_broker_that_accepts_no_connection(
    autojump_clock: Clock, client: Client
) -> None:
    asked = peers(client, configs())
    assert await limits_of(lambda: asked.ask(1, MetadataRequest()), ApiError, client) == pytest.approx(SETUP_S)
    client.net.black_holes.clear()
    assert (await asked.ask(1, MetadataRequest(topics=[]))).brokers


async def test_a_follower_stops_waiting_for_a_leader_that_accepts_no_connection(
    autojump_clock: Clock, client: Client
) -> None:
    link = links(client, configs()).link(1)
    assert link is not None
    assert await limits_of(lambda: link.ask(MetadataRequest()), TimeoutError, client) == pytest.approx(SETUP_S)
    client.net.black_holes.clear()
    assert (await link.ask(MetadataRequest(topics=[]))).brokers


async def test_a_request_of_a_coordinator_that_cannot_be_sent_is_refused_as_a_network_exception(
    autojump_clock: Clock, client: Client
) -> None:
    client.net.black_holes.add("node1")
    with pytest.raises(ApiError) as raised:
        await peers(client, configs()).ask(1, MetadataRequest())
    assert raised.value.code == ErrorCode.NETWORK_EXCEPTION


async def test_connections_to_other_brokers_have_the_receive_buffers_of_kafka(
    autojump_clock: Clock, client: Client
) -> None:
    config = configs(replica_socket_receive_buffer_bytes=20_000, socket_receive_buffer_bytes=30_000)
    link = links(client, config).link(1)
    assert link is not None
    await link.ask(MetadataRequest(topics=[]))
    await peers(client, config).ask(1, MetadataRequest(topics=[]))
    assert client.net.receive_buffers == [20_000, 30_000]


async def test_a_leader_or_coordinator_that_does_not_respond_in_time_loses_its_connection(
    autojump_clock: Clock, client: Client
) -> None:
    async def be_silent(node: Any, header: Any, request: Any) -> Any:
        if header.key != ApiKey.API_VERSIONS:
            raise NoAnswer

    client.cluster.nodes[1].scripts.insert(0, be_silent)
    link = links(client, configs()).link(1)
    assert link is not None
    asked = peers(client, configs())
    for ask, error in ((link.ask, Disconnected), (partial(asked.ask, 1), ApiError)):
        begun = trio.current_time()
        with pytest.raises(error, match="did not respond in time"):
            await ask(MetadataRequest())
        assert trio.current_time() - begun == pytest.approx(REQUEST_S, abs=0.1)
        assert client.net.pumps[-1].is_closed
    assert len(client.net.pumps) == 2
