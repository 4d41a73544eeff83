"""A broker with several listeners: its advertised addresses in responses, and the limits of each listener."""

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
from tests.unit.apis.conftest import Client, LocalBroker, serving
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
async def local_broker(tmp_path: Path) -> AsyncIterator[LocalBroker]:
    async with serving(
        tmp_path, listeners=LISTENERS, offsets_topic_replication_factor="1", listener_name_external_max_connections="1"
    ) as running:
        yield running


def expected(local_broker: LocalBroker, listener: str) -> tuple[str, int]:
    """Return the advertised address of a listener."""
    bound = local_broker.serving.listeners[listener]
    return {"NAT": ("broker.example", 19092), "SAME": ("broker.example", bound.port)}.get(listener, tuple(bound))  # type: ignore[arg-type]


async def advertised(client: Client) -> dict[str, tuple[str, int]]:
    """Return the broker's address from the response of each API that has it."""
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
async def test_clients_get_the_advertised_address_of_their_listener(local_broker: LocalBroker, listener: str) -> None:
    assert set((await advertised(await local_broker.connect(listener))).values()) == {expected(local_broker, listener)}


async def test_equal_requests_through_two_listeners_have_different_responses(local_broker: LocalBroker) -> None:
    clients = {name: await local_broker.connect(name) for name in ("PLAINTEXT", "NAT", "EXTERNAL")}
    for name in ("PLAINTEXT", "NAT", "EXTERNAL", "PLAINTEXT", "NAT"):
        (broker,) = (await clients[name].call(MetadataRequest(topics=None), 12)).brokers
        assert (broker.host, broker.port) == expected(local_broker, name)


async def test_a_full_listener_does_not_affect_the_other_listeners(local_broker: LocalBroker) -> None:
    first = await local_broker.connect("EXTERNAL")
    await advertised(first)
    waiting, served = await local_broker.connect("EXTERNAL"), trio.Event()

    async def wait() -> None:
        await advertised(waiting)
        served.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        for _ in range(3):
            await advertised(await local_broker.connect("PLAINTEXT"))
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
    async with serving(tmp_path, listeners=LISTENERS) as local_broker:
        registration = registered(tmp_path)
        assert {one.name: (one.host, one.port) for one in registration.end_points} == {
            listener.name: expected(local_broker, listener.name) for listener in LISTENERS
        }
        assert {one.security_protocol for one in registration.end_points} == {0}


async def altered(client: Client, configs: dict[str, str]) -> Any:
    resource = AlterConfigsResource(
        ConfigResource.BROKER, "1", [AlterableConfig(name, 0, value) for name, value in configs.items()]
    )
    return (await client.call(IncrementalAlterConfigsRequest([resource]), 1)).responses[0]


@pytest.mark.parametrize("value", ["0", "x"])
async def test_an_invalid_limit_of_a_listener_is_refused(local_broker: LocalBroker, value: str) -> None:
    result = await altered(await local_broker.connect(), {ONLY_ONE: value})
    assert result.error_code == ErrorCode.INVALID_REQUEST
