"""Connections: leaders that move, brokers that are away, and the end without any broker."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from pykbroker.consumer import Consumer
from tests.unit.consumer.conftest import Consuming, values_of
from wire.api import ApiKey

PATIENCE_S = 30


async def read_first(consuming: Consuming, consumer: Consumer) -> None:
    """Read one record of partition 0, so that the consumer is connected to its leader."""
    consuming.append(b"first")
    assert await values_of(consumer, 1) == [b"first"]


async def test_a_leader_that_moves_is_followed(autojump_clock, consuming: Consuming) -> None:
    partition = consuming.partitions[0]
    async with consuming.consumer("topic") as consumer:
        await read_first(consuming, consumer)
        for leader in (2, 3, 1):
            consuming.state.move_leader(partition, leader)
            consuming.append(b"by %d" % leader)
            assert await values_of(consumer, 1) == [b"by %d" % leader]


async def test_a_leader_hint_saves_a_metadata_request(autojump_clock, consuming: Consuming) -> None:
    async with consuming.consumer("topic") as consumer:
        await read_first(consuming, consumer)
        for node_id in consuming.cluster.nodes:
            consuming.cluster.make_stale(node_id)
        consuming.state.move_leader(consuming.partitions[0], 2)
        consuming.append(b"second")
        assert await values_of(consumer, 1) == [b"second"]


async def test_brokers_that_are_away_for_a_minute_are_found_again(autojump_clock, consuming: Consuming) -> None:
    nodes = consuming.cluster.nodes.values()
    async with consuming.consumer("topic") as consumer:
        await read_first(consuming, consumer)
        for node in nodes:
            node.stop()
        assert await consumer.poll(60) == []
        consuming.append(b"second")
        for node in nodes:
            node.start()
        with trio.fail_after(10):
            assert await values_of(consumer, 1) == [b"second"]


@pytest.mark.parametrize("key", [ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.FIND_COORDINATOR])
async def test_a_connection_that_is_lost_during_a_request_is_replaced(
    autojump_clock, consuming: Consuming, key: ApiKey
) -> None:
    async def disconnect(node: Any, _request: Any) -> None:
        node.disconnect()

    consuming.append(b"value")
    consuming.cluster.script(key, disconnect, times=2)
    async with consuming.member() as consumer:
        assert await values_of(consumer, 1) == [b"value"]
    assert len(consuming.cluster.requests_of(key)) > 2


async def test_requests_without_an_answer_are_repeated_after_the_request_timeout(
    autojump_clock, consuming: Consuming
) -> None:
    async def never(_node: Any, _request: Any) -> None:
        await trio.sleep_forever()

    consuming.append(b"value")
    consuming.cluster.script(ApiKey.FETCH, never, times=1)
    async with consuming.consumer(request_timeout_ms=4000) as consumer:
        consumer.assign(consuming.partitions[:1])
        assert await values_of(consumer, 1) == [b"value"]
    assert 4 <= consuming.elapsed() < 6


async def test_reads_follow_the_rack_of_the_client(autojump_clock, consuming: Consuming) -> None:
    consuming.state.racks = {2: "here", 3: "there"}
    async with consuming.consumer("topic", client_rack="here") as consumer:
        await read_first(consuming, consumer)
        consuming.append(b"second")
        assert await values_of(consumer, 1) == [b"second"]
        assert any(
            partition.partition == 0
            for request in consuming.cluster.nodes[2].requests_of(ApiKey.FETCH)
            for topic in request.topics
            for partition in topic.partitions
        )


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_the_end_does_not_wait_for_brokers_that_are_away(
    autojump_clock, consuming: Consuming, protocol: str
) -> None:
    async with consuming.member(enable_auto_commit=True, group_protocol=protocol) as consumer:
        await read_first(consuming, consumer)
        for node in consuming.cluster.nodes.values():
            node.stop()
        closes = consuming.elapsed()
        await consumer.aclose(timeout_s=5)
        assert consuming.elapsed() - closes <= 5.1


async def test_a_closed_consumer_refuses_polls(autojump_clock, consuming: Consuming) -> None:
    async with consuming.consumer("topic") as consumer:
        await consumer.aclose()
        with pytest.raises(RuntimeError, match="the consumer is closed"):
            await consumer.poll(PATIENCE_S)


async def test_a_poll_that_waits_ends_when_the_consumer_is_closed(
    autojump_clock, consuming: Consuming, nursery: trio.Nursery
) -> None:
    async def close_later() -> None:
        await trio.sleep(1)
        await consumer.aclose()

    async with consuming.consumer("topic") as consumer:
        nursery.start_soon(close_later)
        with trio.fail_after(10), pytest.raises(RuntimeError, match="the consumer is closed"):
            await values_of(consumer, 1)
