"""Tests of the statistics that a broker collects and returns on request."""

from __future__ import annotations

from pathlib import Path

import msgspec
import trio

from pykbroker.broker import BrokerHealth, BrokerObserver, BrokerStatistics
from pykbroker.broker.statistics import statistics as broker_statistics
from pykbroker.core.steps import finish
from tests.unit.apis.conftest import LocalBroker, batch, fetch_request, serving, serving_with, settings
from wire.api import ApiKey
from wire.messages.delete_topics import DeleteTopicsRequest


def statistics(local_broker: LocalBroker) -> BrokerStatistics:
    observer: BrokerObserver = local_broker.serving.observer
    return finish(broker_statistics(observer.parts, observer.connections))


def counts(found: BrokerStatistics) -> dict[tuple[ApiKey, int], int]:
    return {(route.key, route.version): route.count for route in found.server.requests}


async def test_requests_bytes_and_partitions_are_counted(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("a", 2), ("b", 1))) as local_broker:
        before = statistics(local_broker)
        assert counts(before) == {}
        (directory,) = before.directories
        assert (directory.path, directory.failed, directory.logs, directory.segments) == (str(tmp_path), False, 3, 3)
        assert (directory.size, directory.bytes_in, directory.bytes_out) == (0, 0, 0)
        client, data = await local_broker.connect(), batch(b"x" * 100)
        for _ in range(3):
            await client.produce("a", data)
        await client.fetch("a", 1)
        await client.fetch("a", 3)
        found = statistics(local_broker)
        assert counts(found) == {(ApiKey.PRODUCE, 11): 3, (ApiKey.FETCH, 12): 2}
        (directory,) = found.directories
        size = len(data)
        assert (directory.size, directory.bytes_in, directory.bytes_out) == (3 * size, 3 * size, 2 * size)
        replicas, controller = found.replicas, found.controller
        assert (replicas.partitions, replicas.leaders, replicas.offline) == (3, 3, 0)
        assert (controller.brokers, controller.topics, controller.partitions, controller.waiting) == (1, 2, 3, 0)
        assert found.server.connections_open == {"PLAINTEXT": 1}
        assert found.net.steps > 0
        assert 0 < found.net.step_ns_longest <= found.net.step_ns
        assert found.fetch_sessions.sessions == 0
        await client.create("c", 1)
        assert statistics(local_broker).controller.offset > controller.offset
        assert counts(before) == {}


async def test_bytes_of_a_deleted_topic_still_count(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("a", 1),)) as local_broker:
        client, data = await local_broker.connect(), batch(b"x")
        await client.produce("a", data)
        await client.call(DeleteTopicsRequest(topic_names=["a"], timeout_ms=1000), 5)
        (directory,) = statistics(local_broker).directories
        assert (directory.logs, directory.size, directory.bytes_in) == (0, 0, len(data))


async def test_flushes_are_counted(tmp_path: Path) -> None:
    async with serving(tmp_path) as local_broker:
        client = await local_broker.connect()
        await client.create("a", 1, flush_messages="1")
        before = statistics(local_broker).directories[0].flushes
        for _ in range(2):
            await client.produce("a", batch(b"x"))
        assert statistics(local_broker).directories[0].flushes >= before + 2


async def test_partitions_of_a_failed_directory_are_offline(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("a", 2),)) as local_broker:
        observer: BrokerObserver = local_broker.serving.observer
        assert await observer.health() == BrokerHealth((), 0)
        observer.parts.directories[0].fail(OSError(5, "I/O error"))
        found = statistics(local_broker)
        assert (found.replicas.leaders, found.replicas.offline, found.directories[0].failed) == (0, 2, True)
        assert await observer.health() == BrokerHealth((str(tmp_path),), 2)


async def test_a_directory_that_could_not_be_opened_counts_as_failed(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    other.touch()  # a file in place of a directory
    chosen = msgspec.structs.replace(settings(one), data_dirs=(str(one), str(other)))
    async with serving_with(chosen) as local_broker:
        found = [(each.path, each.failed) for each in statistics(local_broker).directories]
        assert found == [(str(one), False), (str(other), True)]
        assert await local_broker.serving.observer.health() == BrokerHealth((str(other),), 0)


async def test_a_waiting_fetch_is_counted_when_it_is_answered(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("a", 1),)) as local_broker:
        client = await local_broker.connect()
        await client.send(fetch_request("a", 0, max_wait_ms=50_000), 12)
        for _ in range(1000):
            if statistics(local_broker).server.requests_waiting:
                break
            await trio.sleep(0.001)
        assert statistics(local_broker).server.requests_waiting == 1
        assert counts(statistics(local_broker)).get((ApiKey.FETCH, 12), 0) == 0
        await (await local_broker.connect()).produce("a", batch(b"x"))
        await client.receive()
        (fetch,) = [route for route in statistics(local_broker).server.requests if route.key == ApiKey.FETCH]
        assert (fetch.count, sum(fetch.histogram)) == (1, 1)
        assert fetch.remote_ns > 0
