"""A broker with several listeners: the addresses in its responses, and the limits of each listener."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from pykbroker.core.address import Address
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.config.resource import ConfigResource
from pykbroker.core.metadata.record import read_record
from tests.unit.apis.conftest import Client, House, serving
from wire.error_codes import ErrorCode
from wire.messages.describe_cluster import DescribeClusterRequest
from wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from wire.messages.find_coordinator import FindCoordinatorRequest
from wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from wire.messages.metadata import MetadataRequest
from wire.records.batch import batches
from wire.records.record import records
from wire.stored.metadata_brokers import RegisterBrokerRecord

ONLY_ONE = "listener.name.external.max.connections"
LISTENERS = (
    ListenerSettings("PLAINTEXT", Address("127.0.0.1", 0)),
    ListenerSettings("EXTERNAL", Address("127.0.0.2", 0)),
    ListenerSettings("NAT", Address("127.0.0.1", 0), Address("broker.example", 19092)),
    ListenerSettings("SAME", Address("127.0.0.1", 0), Address("broker.example", 0)),
)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with serving(
        tmp_path, listeners=LISTENERS, offsets_topic_replication_factor="1", listener_name_external_max_connections="1"
    ) as running:
        yield running


def expected(house: House, listener: str) -> tuple[str, int]:
    """Return the address that clients of a listener are told."""
    bound = house.serving.listeners[listener]
    return {"NAT": ("broker.example", 19092), "SAME": ("broker.example", bound.port)}.get(listener, tuple(bound))  # type: ignore[arg-type]


async def named(client: Client) -> dict[str, tuple[str, int]]:
    """Return the address of the broker in the responses that have one."""
    (in_metadata,) = (await client.call(MetadataRequest(topics=[]), 12)).brokers
    (in_cluster,) = (await client.call(DescribeClusterRequest(), 2)).brokers
    coordinator = await client.call(FindCoordinatorRequest(key_="g", key_type=0), 1)
    topic = DescribeQuorumRequestTopicData("__cluster_metadata", [DescribeQuorumRequestPartitionData(0)])
    (node,) = (await client.call(DescribeQuorumRequest([topic]), 2)).nodes
    found = {
        "Metadata": in_metadata,
        "DescribeCluster": in_cluster,
        "FindCoordinator": coordinator,
        "DescribeQuorum": node.listeners[0],
    }
    return {api: (part.host, part.port) for api, part in found.items()}


@pytest.mark.parametrize("listener", [listener.name for listener in LISTENERS])
async def test_clients_are_told_the_address_of_their_listener(house: House, listener: str) -> None:
    assert set((await named(await house.connect(listener))).values()) == {expected(house, listener)}


async def test_equal_requests_through_two_listeners_have_different_responses(house: House) -> None:
    clients = {name: await house.connect(name) for name in ("PLAINTEXT", "NAT", "EXTERNAL")}
    for name in ("PLAINTEXT", "NAT", "EXTERNAL", "PLAINTEXT", "NAT"):
        (broker,) = (await clients[name].call(MetadataRequest(topics=None), 12)).brokers
        assert (broker.host, broker.port) == expected(house, name)


async def test_a_listener_that_is_full_leaves_the_others_open(house: House) -> None:
    first = await house.connect("EXTERNAL")
    await named(first)
    waiting, served = await house.connect("EXTERNAL"), trio.Event()

    async def wait() -> None:
        await named(waiting)
        served.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        for _ in range(3):
            await named(await house.connect("PLAINTEXT"))
        assert not served.is_set()
        assert (await altered(first, {ONLY_ONE: "2"})).error_code == 0
        with trio.fail_after(10):
            await served.wait()


def registered(directory: Path) -> RegisterBrokerRecord:
    """Return the broker's registration in the metadata log."""
    log = (directory / "__cluster_metadata-0" / "00000000000000000000.log").read_bytes()
    data = (batch for batch in batches(log) if not batch.is_control)
    found = (read_record(record.value) for batch in data for record in records(batch, 1 << 20))
    return next(record for record in found if isinstance(record, RegisterBrokerRecord))


async def test_all_listeners_are_registered(tmp_path: Path) -> None:
    async with serving(tmp_path, listeners=LISTENERS) as house:
        registration = registered(tmp_path)
        assert {one.name: (one.host, one.port) for one in registration.end_points} == {
            listener.name: expected(house, listener.name) for listener in LISTENERS
        }
        assert {one.security_protocol for one in registration.end_points} == {0}


async def altered(client: Client, configs: dict[str, str]) -> Any:
    resource = AlterConfigsResource(
        ConfigResource.BROKER, "1", [AlterableConfig(name, 0, value) for name, value in configs.items()]
    )
    return (await client.call(IncrementalAlterConfigsRequest([resource]), 1)).responses[0]


@pytest.mark.parametrize("value", ["0", "x"])
async def test_an_invalid_limit_of_a_listener_is_refused(house: House, value: str) -> None:
    result = await altered(await house.connect(), {ONLY_ONE: value})
    assert result.error_code == ErrorCode.INVALID_REQUEST
