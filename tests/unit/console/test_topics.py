"""Metrics of topics, partitions and groups, scraped from a complete broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykbroker.console.exposition import exposition
from pykbroker.replica.partition.partition import Partition
from tests.unit.apis.conftest import Client, LocalBroker, batch, fetch_request, serving
from tests.unit.apis.transactional import TransactionalClient
from tests.unit.console.observed import Samples, samples
from wire.error_codes import ErrorCode
from wire.messages.delete_topics import DeleteTopicsRequest
from wire.messages.fetch import FetchRequest
from wire.messages.find_coordinator import FindCoordinatorRequest
from wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from wire.records.control import MARKER_BYTES

ONE_COORDINATOR = {
    "offsets_topic_num_partitions": "1",
    "offsets_topic_replication_factor": "1",
    "transaction_state_log_num_partitions": "1",
    "transaction_state_log_replication_factor": "1",
    "transaction_state_log_min_isr": "1",
}
TRAFFIC = (
    "messagesin",
    "bytesin",
    "bytesout",
    "totalproducerequests",
    "failedproducerequests",
    "totalfetchrequests",
    "failedfetchrequests",
)


async def scrape(local_broker: LocalBroker) -> Samples:
    return samples(b"".join(await exposition(local_broker.serving.observer)).decode())


def of(found: Samples, name: str, **labels: object) -> float | None:
    """Return the value of one series, or None if the series does not exist."""
    return found.get((name, tuple(sorted((name, str(value)) for name, value in labels.items()))))


def traffic(found: Samples, **labels: object) -> dict[str, float]:
    """Return the counters of a topic, or of all topics together. Counters with the value 0 are omitted."""
    values = {name: of(found, f"kafka_server_brokertopicmetrics_{name}_total", **labels) for name in TRAFFIC}
    assert None not in values.values()
    return {name: value for name, value in values.items() if value}


async def commit(client: Client, group: str, *offsets: tuple[str, int, int]) -> None:
    """Commit (topic, partition, offset) triples without a group member, as an admin client does."""
    response = await client.call(
        OffsetCommitRequest(
            group,
            topics=[
                OffsetCommitRequestTopic(topic, partitions=[OffsetCommitRequestPartition(partition, offset)])
                for topic, partition, offset in offsets
            ],
        ),
        8,
    )
    assert {one.error_code for topic in response.topics for one in topic.partitions} == {0}


async def find_coordinator(client: Client) -> None:
    (found,) = (await client.call(FindCoordinatorRequest(coordinator_keys=["g"]), 6)).coordinators
    assert found.error_code == 0


async def test_records_and_bytes_are_counted_by_topic_and_in_total(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("a", 2), ("b", 1))) as local_broker:
        client, data, long = await local_broker.connect(), batch(b"x", b"y", b"z"), batch(b"x" * 100)
        await client.produce("a", data)
        await client.produce("a", data, partition=1, acks=1)
        await client.produce("b", long)
        await client.fetch("a", 0)
        await client.fetch("a", 0, partition=1)
        await client.fetch("b", 1)
        found = await scrape(local_broker)
        assert traffic(found, topic="a") == {
            "messagesin": 6,
            "bytesin": 2 * len(data),
            "bytesout": 2 * len(data),
            "totalproducerequests": 2,
            "totalfetchrequests": 2,
        }
        assert traffic(found, topic="b") == {
            "messagesin": 1,
            "bytesin": len(long),
            "totalproducerequests": 1,
            "totalfetchrequests": 1,
        }
        assert traffic(found) == {
            "messagesin": 7,
            "bytesin": 2 * len(data) + len(long),
            "bytesout": 2 * len(data),
            "totalproducerequests": 3,
            "totalfetchrequests": 3,
        }


async def test_the_bytes_of_a_fetch_that_waited_for_min_bytes_are_counted_once(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("a", 1),)) as local_broker:
        client, data = await local_broker.connect(), batch(b"x")
        await client.produce("a", data)
        request = fetch_request("a", 0, max_wait_ms=30_000, min_bytes=2 * len(data))
        await client.send(request, 12)
        await (await local_broker.connect()).produce("a", data)
        assert len((await client.receive()).responses[0].partitions[0].records) == 2 * len(data)
        assert traffic(await scrape(local_broker), topic="a")["bytesout"] == 2 * len(data)


async def test_a_batch_that_is_recompressed_off_the_event_loop_is_counted(tmp_path: Path) -> None:
    async with serving(tmp_path) as local_broker:
        client, data = await local_broker.connect(), batch(b"x" * 200_000)
        await client.create("a", compression_type="zstd")
        assert (await client.produce("a", data)).error_code == 0
        found = traffic(await scrape(local_broker), topic="a")
        assert (found["messagesin"], found["totalproducerequests"]) == (1, 1)
        assert 0 < found["bytesin"] < len(data)


@pytest.mark.parametrize("compression", ["producer", "zstd"])
async def test_a_batch_refused_with_an_unexpected_error_counts_as_a_failed_request(
    tmp_path: Path, compression: str
) -> None:
    async with serving(tmp_path) as local_broker:
        client = await local_broker.connect()
        await client.create("a", compression_type=compression, max_message_bytes="300000")
        stamped = {"producer_id": 1, "producer_epoch": 0}
        await client.produce("a", batch(b"x" * 200_000, base_sequence=0, **stamped))
        refused = await client.produce("a", batch(b"x" * 200_000, base_sequence=7, **stamped))
        assert refused.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        found = traffic(await scrape(local_broker), topic="a")
        assert (found["totalproducerequests"], found["failedproducerequests"], found["messagesin"]) == (2, 1, 1)


async def test_errors_that_kafka_expects_do_not_count_as_failed_requests(tmp_path: Path) -> None:
    async with serving(tmp_path) as local_broker:
        client = await local_broker.connect()
        await client.create("a", max_message_bytes="200")
        assert (await client.produce("a", batch(b"x" * 300))).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert (await client.fetch("a", 9)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert traffic(await scrape(local_broker), topic="a") == {"totalproducerequests": 1, "totalfetchrequests": 1}


async def test_a_fetch_with_an_unexpected_error_counts_as_a_failed_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pykbroker.core.errors import ApiError

    def read(*args: object, **options: object) -> Any:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE)

    async with serving(tmp_path, topics=(("a", 1),)) as local_broker:
        client = await local_broker.connect()
        monkeypatch.setattr(Partition, "read", read)
        assert (await client.fetch("a", 0)).error_code == ErrorCode.CORRUPT_MESSAGE
        assert traffic(await scrape(local_broker), topic="a") == {"totalfetchrequests": 1, "failedfetchrequests": 1}


async def test_an_incremental_fetch_counts_one_request_for_each_topic_that_it_reads(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("a", 3), ("b", 1))) as local_broker:
        client = await local_broker.connect()
        first = fetch_request("a", 0)
        first.session_epoch = 0
        first.topics[0].partitions += fetch_request("a", 0, 1).topics[0].partitions
        first.topics += fetch_request("b", 0).topics
        session = await client.call(first, 12)
        await client.call(
            FetchRequest(max_wait_ms=0, min_bytes=1, session_id=session.session_id, session_epoch=1, topics=[]), 12
        )
        found = await scrape(local_broker)
        assert traffic(found, topic="a") == traffic(found, topic="b") == {"totalfetchrequests": 2}


async def test_totals_include_the_counters_of_deleted_topics(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("a", 1),)) as local_broker:
        client, data = await local_broker.connect(), batch(b"x")
        await client.produce("a", data)
        await client.call(DeleteTopicsRequest(topic_names=["a"], timeout_ms=1000), 5)
        await client.create("a")
        await client.produce("a", data)
        found = await scrape(local_broker)
        assert traffic(found, topic="a")["messagesin"] == 1
        assert traffic(found)["messagesin"] == 2


async def test_partition_metrics_have_the_offsets_that_list_offsets_returns_and_the_replicas(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("a", 2),)) as local_broker:
        client, data = await local_broker.connect(), batch(b"x", b"y")
        for _ in range(3):
            await client.produce("a", data, partition=1)
        found = await scrape(local_broker)
        assert of(found, "kafka_topic_partitions", topic="a") == 2
        for partition, batches in ((0, 0), (1, 3)):
            expected = {
                "kafka_topic_partition_current_offset": 2 * batches,
                "kafka_topic_partition_oldest_offset": 0,
                "kafka_topic_partition_leader": local_broker.serving.node_id,
                "kafka_topic_partition_leader_is_preferred": 1,
                "kafka_topic_partition_replicas": 1,
                "kafka_topic_partition_in_sync_replica": 1,
                "kafka_topic_partition_under_replicated_partition": 0,
                "kafka_cluster_partition_replicascount": 1,
                "kafka_cluster_partition_underminisr": 0,
                "kafka_cluster_partition_atminisr": 1,
                "kafka_log_log_size": batches * len(data),
            }
            assert {name: of(found, name, topic="a", partition=partition) for name in expected} == expected


async def test_group_metrics_have_committed_offsets_and_lags(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("a", 3),), **ONE_COORDINATOR) as local_broker:
        client = await local_broker.connect()
        await find_coordinator(client)
        await client.produce("a", batch(b"1", b"2", b"3"), partition=1)
        await client.produce("a", batch(b"1", b"2"), partition=2)
        await commit(client, 'g"1', ("a", 1, 1), ("a", 0, 7), ("a", 2, 1))
        found = await scrape(local_broker)
        labels = {"consumergroup": 'g"1', "topic": "a"}
        assert of(found, "kafka_consumergroup_members", consumergroup='g"1') == 0
        assert of(found, "kafka_consumergroup_current_offset", **labels, partition=1) == 1
        assert of(found, "kafka_consumergroup_lag", **labels, partition=1) == 2
        assert of(found, "kafka_consumergroup_current_offset", **labels, partition=0) == 7
        assert of(found, "kafka_consumergroup_lag", **labels, partition=0) == 0, (
            "a committed offset beyond the log end has no lag"
        )
        assert of(found, "kafka_consumergroup_current_offset_sum", **labels) == 1 + 7 + 1
        assert of(found, "kafka_consumergroup_lag_sum", **labels) == 2 + 0 + 1
        assert traffic(found, topic="__consumer_offsets")["messagesin"] == 3


async def test_a_partition_that_is_offline_has_no_lag_and_its_topic_no_sum_of_lags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, topics=(("a", 2), ("b", 1)), **ONE_COORDINATOR) as local_broker:
        client = await local_broker.connect()
        await find_coordinator(client)
        await commit(client, "g", ("a", 0, 1), ("a", 1, 2), ("b", 0, 4))
        with monkeypatch.context() as damaged:
            damaged.setattr(Partition, "is_online", property(lambda one: one.key != ("a", 0)))
            found = await scrape(local_broker)
        a, b = ({"consumergroup": "g", "topic": topic} for topic in "ab")
        lags = [of(found, "kafka_consumergroup_lag", **a, partition=partition) for partition in (0, 1)]
        assert lags == [None, 0]
        assert [of(found, "kafka_consumergroup_lag_sum", **labels) for labels in (a, b)] == [None, 0]
        assert of(found, "kafka_consumergroup_current_offset", **a, partition=0) == 1
        assert [of(found, "kafka_consumergroup_current_offset_sum", **labels) for labels in (a, b)] == [3, 4]
        assert of(found, "kafka_topic_partition_current_offset", topic="a", partition=0) is None
        assert of(found, "kafka_topic_partition_leader", topic="a", partition=0) == local_broker.serving.node_id
        sizes = [of(found, "kafka_log_log_size", topic="a", partition=partition) for partition in (0, 1)]
        assert sizes == [None, 0]


async def test_a_transaction_marker_counts_as_one_record(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("a", 1),), **ONE_COORDINATOR) as local_broker:
        client = await local_broker.connect()
        producer = await TransactionalClient(client).begin()
        assert await producer.add(("a", 0)) == [ErrorCode.NONE]
        assert await producer.produce("a") is ErrorCode.NONE
        before = traffic(await scrape(local_broker), topic="a")
        assert await producer.end(commit=True) is ErrorCode.NONE
        partition = local_broker.serving.observer.parts.replicas.topic("a", b"").partitions[0]
        await partition.wait_committed(2)
        after = traffic(await scrape(local_broker), topic="a")
        assert after["messagesin"] - before["messagesin"] == 1
        assert after["bytesin"] - before["bytesin"] == MARKER_BYTES
        assert after["bytesin"] == partition.log.size_bytes


async def test_the_number_of_series_is_limited_and_the_omitted_series_are_counted(tmp_path: Path) -> None:
    topics = (("a", 2), ("b", 3), ("c", 1))
    async with serving(
        tmp_path, topics=topics, pykbroker_metrics_partitions_max="3", **ONE_COORDINATOR
    ) as local_broker:
        client = await local_broker.connect()
        for topic in "abc":
            await client.produce(topic, batch(b"x"))
        await find_coordinator(client)
        for group in ("one", "two", "three"):
            await commit(client, group, ("a", 0, 1), ("b", 0, 1))
        found = await scrape(local_broker)
        sizes = [of(found, "kafka_topic_partitions", topic=topic) for topic in "abc"]
        assert sum(size or 0 for size in sizes) == 3
        omitted = sum(partitions for (_, partitions), size in zip(topics, sizes, strict=True) if size is None)
        assert of(found, "pykbroker_metrics_partitions_omitted") == omitted + 1, (
            "the partition of __consumer_offsets is omitted, too"
        )
        groups = {dict(labels)["consumergroup"] for name, labels in found if name == "kafka_consumergroup_lag"}
        assert len(groups) == 1
        assert of(found, "pykbroker_metrics_offsets_omitted") == 4
        assert traffic(found)["messagesin"] >= 3


async def test_a_limit_of_zero_series_exports_only_totals(tmp_path: Path) -> None:
    async with serving(
        tmp_path, topics=(("a", 1),), pykbroker_metrics_partitions_max="0", **ONE_COORDINATOR
    ) as local_broker:
        client = await local_broker.connect()
        await find_coordinator(client)
        await client.produce("a", batch(b"x"))
        await commit(client, "g", ("a", 0, 1))
        found = await scrape(local_broker)
        assert not [labels for _, labels in found if {"topic", "consumergroup"} & dict(labels).keys()]
        assert traffic(found)["messagesin"] >= 1


async def test_a_scrape_does_not_wait_for_a_group_coordinator_that_cannot_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pykbroker.machines.replies import Replies

    async with serving(tmp_path, topics=(("a", 1),), **ONE_COORDINATOR) as local_broker:
        client = await local_broker.connect()
        await find_coordinator(client)
        await commit(client, "g", ("a", 0, 1))
        monkeypatch.setattr("pykbroker.broker.group_statistics.GROUPS_S_MAX", 0.01)
        with monkeypatch.context() as stalled:
            stalled.setattr(Replies, "add", lambda *args: None)
            found = await scrape(local_broker)
        assert not [name for name, _ in found if name.startswith("kafka_consumergroup")]
        assert of(found, "kafka_topic_partitions", topic="a") == 1
