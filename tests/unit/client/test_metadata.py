"""Tests of a client's metadata: refreshes, backoffs, topics of interest, and rebootstraps."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pytest
import trio
import trio.testing

from pykbroker.client.cluster import Cluster, LeaderHint
from pykbroker.client.errors import AuthenticationError
from pykbroker.client.metadata import ClusterMetadata
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.sim.scripted.connection import Dropped, NoAnswer
from pykbroker.sim.scripted.node import ScriptedNode
from tests.unit.client.conftest import Client
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.metadata import MetadataResponse
from wire.versions import Versions

ORDERS = TopicPartition("orders", 0)


def names(client: Client) -> list[set[str | None] | None]:
    """Return the topics of all Metadata requests."""
    return [
        None if request.topics is None else {topic.name for topic in request.topics}
        for request in client.cluster.requests_of(ApiKey.METADATA)
    ]


async def settled() -> None:
    """Wait until no task can run at this moment of the virtual clock."""
    await trio.testing.wait_all_tasks_blocked(0.001)


async def leader_of(metadata: ClusterMetadata, partition: TopicPartition, leader: int | None) -> None:
    """Wait until a partition has this leader."""
    with trio.fail_after(600):
        while metadata.cluster.leader(partition) != leader:
            await metadata.wait_newer(metadata.version)


async def test_the_first_refresh_replaces_the_bootstrap_addresses_by_the_brokers(
    autojump_clock, client: Client
) -> None:
    metadata = await client.metadata(bootstrap=(("node2", 9092),))
    assert metadata.cluster.is_bootstrap
    cluster = await metadata.wait_newer(0)
    assert sorted(cluster.brokers) == [1, 2, 3]
    assert names(client) == [set()]


async def test_a_new_topic_is_requested_at_once_and_alone(autojump_clock, client: Client) -> None:
    client.cluster.state.add_topic("orders")
    metadata = await client.metadata()
    version = (await metadata.wait_newer(0), metadata.version)[1]
    began = trio.current_time()
    metadata.use("orders")
    await metadata.wait_newer(version)
    assert trio.current_time() == began
    metadata.use("payments")
    await leader_of(metadata, TopicPartition("payments", 0), 1)
    assert metadata.cluster.leader(ORDERS) == 1
    assert sorted(map(sorted, names(client))) == [[], ["orders"], ["payments"]]  # type: ignore[arg-type]


async def test_a_producer_lets_the_broker_create_topics_and_a_consumer_may_forbid_it(
    autojump_clock, client: Client
) -> None:
    metadata = await client.metadata(allow_auto_create=False)
    metadata.use("orders")
    await metadata.wait_newer(0)
    assert metadata.cluster.topics["orders"].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not client.cluster.state.topics


async def test_the_error_of_a_topic_is_logged_once(autojump_clock, client: Client, caplog) -> None:
    metadata = await client.metadata(allow_auto_create=False)
    metadata.use("orders")
    await trio.sleep(60)
    assert [record.getMessage() for record in caplog.records] == ["metadata: topic orders: UNKNOWN_TOPIC_OR_PARTITION"]
    assert len(names(client)) > 10


async def test_a_refresh_is_due_after_the_maximum_age(autojump_clock, client: Client) -> None:
    metadata = await client.metadata(age_ms_max=60_000)
    times = []
    for version in range(3):
        await metadata.wait_newer(version)
        times.append(trio.current_time())
    assert [later - times[0] for later in times] == pytest.approx([0, 60, 120])


async def test_a_topic_that_a_producer_no_longer_uses_is_dropped(autojump_clock, client: Client) -> None:
    metadata = await client.metadata(age_ms_max=10_000, idle_ms_max=25_000)
    metadata.use("idle")
    metadata.use("used")
    for _ in range(6):
        await trio.sleep(10)
        metadata.use("used")
    assert set(metadata.cluster.topics) == {"used"}
    assert client.cluster.requests_of(ApiKey.METADATA)[-1].topics[0].name == "used"


async def test_topics_that_a_consumer_replaces_are_dropped_with_the_next_full_refresh(
    autojump_clock, client: Client
) -> None:
    metadata = await client.metadata()
    metadata.use_only(["a", "b"])
    await leader_of(metadata, TopicPartition("a", 0), 1)
    metadata.use_only(["b", "c"])
    await leader_of(metadata, TopicPartition("c", 0), 1)
    metadata.request_update()
    await metadata.wait_newer(metadata.version)
    assert set(metadata.cluster.topics) == {"b", "c"}


async def test_a_pattern_requests_all_topics_and_keeps_those_that_match(autojump_clock, client: Client) -> None:
    for topic in ("orders", "orders.eu", "payments"):
        client.cluster.state.add_topic(topic)
    metadata = await client.metadata()
    metadata.use_matching(lambda name, internal: name.startswith("orders"))
    await leader_of(metadata, TopicPartition("orders.eu", 0), 1)
    assert set(metadata.cluster.topics) == {"orders", "orders.eu"}
    assert None in names(client)


async def test_topics_are_requested_by_id_beside_the_topics_by_name(autojump_clock, client: Client) -> None:
    topic = client.cluster.state.add_topic("orders")
    metadata = await client.metadata()
    metadata.use_only(["payments"])
    metadata.use_ids([topic.topic_id])
    await leader_of(metadata, ORDERS, 1)
    assert metadata.cluster.topic_names[topic.topic_id] == "orders"
    assert metadata.cluster.leader(TopicPartition("payments", 0)) == 1
    metadata.request_update()
    await metadata.wait_newer(metadata.version)
    assert set(metadata.cluster.topics) == {"orders", "payments"}


async def test_old_brokers_are_not_asked_for_topic_ids(autojump_clock, client: Client) -> None:
    for node in client.cluster.nodes.values():
        node.versions[ApiKey.METADATA] = Versions(0, 11)
    metadata = await client.metadata()
    metadata.use_ids([b"1" * 16])
    await metadata.wait_newer(0)
    await settled()
    assert names(client) == [set()]


async def test_a_leader_without_news_is_asked_for_with_a_doubling_backoff(autojump_clock, client: Client) -> None:
    client.cluster.state.add_topic("orders")
    client.cluster.state.move_leader(ORDERS, -1)
    metadata = await client.metadata()
    metadata.use("orders")
    times: list[float] = []
    while len(times) < 7:
        await metadata.wait_newer(metadata.version)
        times.append(trio.current_time())
    waits = [later - earlier for earlier, later in pairwise(times)]
    assert waits == pytest.approx([0.1, 0.1, 0.2, 0.4, 0.8, 1.0])
    client.cluster.state.move_leader(ORDERS, 2)
    await leader_of(metadata, ORDERS, 2)
    requests = len(names(client))
    await trio.sleep(30)
    assert len(names(client)) == requests


async def test_failed_requests_are_repeated_with_a_doubling_backoff(autojump_clock, client: Client) -> None:
    metadata = await client.metadata()
    times: list[float] = []

    async def drop(node: ScriptedNode, request: Any) -> None:
        times.append(trio.current_time())
        raise Dropped

    client.cluster.script(ApiKey.METADATA, drop, times=6)
    await metadata.wait_newer(0)
    waits = [later - earlier for earlier, later in pairwise(times)]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0], abs=0.06)


async def test_a_lost_connection_requests_a_refresh(autojump_clock, client: Client) -> None:
    metadata = await client.metadata()
    await metadata.wait_newer(0)
    version = metadata.version
    for node in client.cluster.nodes.values():
        node.disconnect()
    with trio.fail_after(5):
        await metadata.wait_newer(version)


async def test_a_node_that_hangs_is_left_for_another_one(autojump_clock, client: Client) -> None:
    metadata = await client.metadata(await client.nodes(request_timeout_ms=3000))
    hung = []

    async def hang(node: ScriptedNode, request: Any) -> None:
        hung.append(node.node_id)
        raise NoAnswer

    client.cluster.script(ApiKey.METADATA, hang, times=1)
    with trio.fail_after(4):
        await metadata.wait_newer(0)
    assert len(hung) == 1


async def test_stale_metadata_does_not_move_a_leader_back(autojump_clock, client: Client) -> None:
    client.cluster.state.add_topic("orders")
    metadata = await client.metadata()
    metadata.use("orders")
    await leader_of(metadata, ORDERS, 1)
    for node_id in client.cluster.nodes:
        client.cluster.make_stale(node_id)
    client.cluster.state.move_leader(ORDERS, 3)
    assert metadata.add_leaders({ORDERS: LeaderHint(3, 1)}, []) == {ORDERS}
    metadata.request_update()
    await metadata.wait_newer(metadata.version)
    assert metadata.cluster.leader(ORDERS) == 3


async def test_callbacks_get_the_old_and_the_new_view(autojump_clock, client: Client) -> None:
    metadata = await client.metadata()
    seen: list[tuple[bool, bool]] = []
    metadata.call_when_updated(lambda old, new: seen.append((old.is_bootstrap, new.is_bootstrap)))
    await metadata.wait_newer(0)
    assert seen == [(True, False)]


async def test_a_client_rebootstraps_once_no_known_broker_is_left(autojump_clock, client: Client) -> None:
    client.cluster.nodes[3].stop()
    del client.cluster.state.addresses[2], client.cluster.state.addresses[3]
    client.uniform = Random(1).uniform
    metadata = await client.metadata(bootstrap=(("node1", 9092), ("node3", 9092)))
    await metadata.wait_newer(0)
    assert sorted(metadata.cluster.brokers) == [1]
    client.cluster.nodes[1].stop()
    client.cluster.state.addresses[3] = ("node3", 9092)
    client.cluster.nodes[3].start()
    version = metadata.version
    with trio.fail_after(30):
        cluster = await metadata.wait_newer(version)
    assert sorted(cluster.brokers) == [1, 3]


async def test_a_client_that_may_not_rebootstrap_keeps_asking_the_known_brokers(autojump_clock, client: Client) -> None:
    del client.cluster.state.addresses[2], client.cluster.state.addresses[3]
    metadata = await client.metadata(bootstrap=(("node1", 9092), ("node3", 9092)), rebootstraps=False)
    await metadata.wait_newer(0)
    client.cluster.nodes[1].stop()
    version = metadata.version
    with trio.move_on_after(60):
        await metadata.wait_newer(version)
    assert sorted(metadata.cluster.brokers) == [1]
    client.cluster.nodes[1].start()
    await metadata.wait_newer(version)


async def test_a_client_rebootstraps_after_the_trigger_time_without_metadata(autojump_clock, client: Client) -> None:
    """A broker of the cluster answers without brokers, so that its connection stays usable, but brings no metadata."""
    del client.cluster.state.addresses[2], client.cluster.state.addresses[3]
    metadata = await client.metadata(bootstrap=(("node3", 9092),), rebootstrap_trigger_ms=20_000)
    await metadata.wait_newer(0)

    async def without_brokers(node: ScriptedNode, request: Any) -> MetadataResponse | None:
        return MetadataResponse() if node.node_id == 1 else None

    client.cluster.script(ApiKey.METADATA, without_brokers)
    client.cluster.state.addresses[3] = ("node3", 9092)
    began = trio.current_time()
    metadata.request_update()
    cluster: Cluster = await metadata.wait_newer(metadata.version)
    while cluster.is_bootstrap:
        cluster = await metadata.wait_newer(metadata.version)
    assert 20 <= trio.current_time() - began <= 25
    assert sorted(cluster.brokers) == [1, 3]


async def test_a_broker_can_require_a_rebootstrap(autojump_clock, client: Client) -> None:
    metadata = await client.metadata()
    await metadata.wait_newer(0)
    views: list[Cluster] = []
    metadata.call_when_updated(lambda old, new: views.append(new))

    async def required(node: ScriptedNode, request: Any) -> MetadataResponse:
        return MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)

    client.cluster.script(ApiKey.METADATA, required, times=1)
    metadata.request_update()
    with trio.fail_after(5):
        await metadata.wait_newer(metadata.version)
    assert [view.is_bootstrap for view in views] == [True, False]


async def test_a_refused_connection_ends_the_wait_for_metadata_and_the_next_wait_begins_anew(client, nursery) -> None:
    nodes = await client.nodes()
    metadata, refusals = await client.metadata(nodes), list[str]()

    async def wait() -> None:
        try:
            await metadata.wait_newer(metadata.version + 100)
        except AuthenticationError as error:
            refusals.append(str(error))

    for text in ("first", "second"):
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        nodes._refused(AuthenticationError(text))
        await trio.testing.wait_all_tasks_blocked()
    assert refusals == ["first", "second"]
