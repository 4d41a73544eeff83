"""Topics of several replicas on complete brokers: acknowledgement by the ISR, restarts, and equal logs everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.leading.read_replica import RACK_AWARE
from tests.unit.apis.conftest import Client, batch
from tests.unit.cluster.nodes import cluster, eventually
from wire.error_codes import ErrorCode
from wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponsePartition

REPLICATED = {"default_replication_factor": "3", "min_insync_replicas": "2", "replica_fetch_backoff_ms": "50"}


def logs(directory: Path, partition: int) -> list[bytes]:
    """Return the log files of a partition, of the brokers that have one."""
    return [path.read_bytes() for path in sorted(directory.glob(f"node*/t-{partition}/*.log"))]


async def partitions(client: Client) -> dict[int, MetadataResponsePartition]:
    """Return the partitions of the topic, as this client's broker knows them."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)
    return {one.partition_index: one for one in (await client.call(request, 12)).topics[0].partitions}


async def test_records_are_acknowledged_once_three_brokers_have_them(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, 3, **REPLICATED) as running:
        await running.clients[1].create("t", 6)
        for partition, placed in (await partitions(running.clients[2])).items():
            assert sorted(placed.isr_nodes) == [1, 2, 3]
            client = running.clients[placed.leader_id]
            for number in range(5):
                answer = await client.produce("t", batch(b"%d" % number), partition=partition)
                assert (answer.error_code, answer.base_offset) == (0, number)
            found = logs(tmp_path, partition)
            assert len(found) == 3
            assert len(set(found)) == 1


async def test_records_are_deleted_once_all_replicas_have_deleted_them(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, 3, **REPLICATED) as running:
        await running.clients[1].create("t")
        client = running.clients[(await partitions(running.clients[1]))[0].leader_id]
        for _ in range(5):
            await client.produce("t", batch(b"value"))
        asked = DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 3)])
        response = await client.call(DeleteRecordsRequest(topics=[asked], timeout_ms=30_000), 2)
        answer = response.topics[0].partitions[0]
        assert (answer.error_code, answer.low_watermark) == (0, 3)
        for local in running.brokers.values():
            log = local.serving.observer.parts.replicas.partition(TopicPartition("t", 0)).log
            assert log.log_start_offset == 3


async def test_a_new_topic_is_followed_while_the_fetches_of_other_topics_wait(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, 3, **REPLICATED, replica_fetch_wait_max_ms="25000") as running:
        for name in ("s", "t"):
            await running.clients[1].create(name, 3)
        for partition, placed in (await partitions(running.clients[2])).items():
            with trio.fail_after(20):
                answer = await running.clients[placed.leader_id].produce("t", batch(b"value"), partition=partition)
            assert answer.error_code == 0


async def test_a_consumer_may_read_from_a_follower(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, 3, **REPLICATED, replica_selector_class=RACK_AWARE) as running:
        await running.clients[1].create("t")
        leader = (await partitions(running.clients[1]))[0].leader_id
        await running.clients[leader].produce("t", batch(b"value"))
        follower = running.clients[1 if leader != 1 else 2]
        await running.clients[leader].produce("t", batch(b"value"))

        async def readable() -> bool:
            return (await follower.fetch("t", 0, version=11)).high_watermark == 2

        await eventually(readable)
        found = await follower.fetch("t", 0, version=11)
        assert (found.error_code, bytes(found.records)) == (0, logs(tmp_path, 0)[0])
        assert (await follower.fetch("t", 0, version=10)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_broker_that_was_stopped_catches_up_and_joins_the_isr(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, 3, **REPLICATED) as running:
        await running.clients[1].create("t", 3)
        await running.stop(3)
        for partition, placed in (await partitions(running.clients[2])).items():
            assert 3 not in placed.isr_nodes
            for number in range(5):
                answer = await running.clients[placed.leader_id].produce(
                    "t", batch(b"%d" % number), partition=partition
                )
                assert (answer.error_code, answer.base_offset) == (0, number)
        await running.start(3)

        async def all_in_sync() -> bool:
            found = await partitions(running.clients[1])
            return all(sorted(one.isr_nodes) == [1, 2, 3] for one in found.values())

        await eventually(all_in_sync)
        for partition in range(3):
            assert len(set(logs(tmp_path, partition))) == 1


@pytest.mark.parametrize("enabled", [True, False])
async def test_a_broker_hands_over_its_leaderships_if_controlled_shutdown_is_enabled(
    tmp_path: Path, enabled: bool
) -> None:
    configs = {"controlled_shutdown_enable": str(enabled).lower(), "default_replication_factor": "2"}
    async with cluster(tmp_path, 1, 2, **configs) as running:
        await running.clients[1].create("t", 2)
        image = running.brokers[1].serving.observer.parts.image
        assert {one.leader for one in image().topics.by_name["t"].partitions.values()} == {1, 2}
        await running.stop(2)

        async def leads_all() -> bool:
            return {one.leader for one in image().topics.by_name["t"].partitions.values()} == {1}

        with trio.fail_after(5):  # the session of a broker lasts for 9 s, but its closed port shows that it has ended
            await eventually(leads_all)
        assert image().cluster.brokers[2].in_controlled_shutdown == enabled
        await running.start(2)


async def test_all_partitions_are_served_after_the_process_of_the_controller_was_stopped(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, 3, **REPLICATED) as running:
        await running.clients[1].create("t", 12)
        await running.stop(1)
        for partition, placed in (await partitions(running.clients[2])).items():
            assert sorted(placed.isr_nodes) == [2, 3]
            with trio.fail_after(20):
                answer = await running.clients[placed.leader_id].produce("t", batch(b"value"), partition=partition)
            assert answer.error_code == 0
        for node_id in (2, 3):  # without a controller they could not shut down
            running.crash(node_id)
