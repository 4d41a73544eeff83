"""Fetch: the returned records, and when a waiting fetch is answered."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from pykbroker.apis.records.fetch.fetch import AT_ONCE_MAX
from tests.unit.apis.conftest import Client, LocalBroker, batch, fetch_request, serving
from wire.error_codes import ErrorCode
from wire.messages.delete_topics import DeleteTopicsRequest
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, LeaderIdAndEpoch, NodeEndpoint
from wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from wire.messages.metadata import MetadataRequest
from wire.records.batch import batches

LONG_MS = 50_000


def offsets(records: object) -> list[int]:
    return [one.base_offset for one in batches(bytes(records or b""))]  # type: ignore[call-overload]


@pytest.mark.parametrize("version", range(4, 13))
async def test_every_version_with_topic_names_returns_records(client: Client, version: int) -> None:
    await client.produce("a", batch(b"one", b"two"))
    data = await client.fetch("a", 0, version=version)
    assert (data.error_code, data.high_watermark, offsets(data.records)) == (0, 2, [0])
    assert data.last_stable_offset == 2
    assert data.log_start_offset == (0 if version >= 5 else -1)


@pytest.mark.parametrize("version", range(13, 19))
async def test_every_version_with_topic_ids_returns_records(client: Client, version: int) -> None:
    topic_id = await client.create("b")
    await client.produce("b", batch(b"one"))
    request = fetch_request("", 0)
    request.topics[0].topic_id = topic_id
    response = await client.call(request, version)
    assert offsets(response.responses[0].partitions[0].records) == [0]
    request.topics[0].topic_id = b"unknown-unknown-"
    response = await client.call(request, version)
    assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_fetch_offset_inside_a_batch_returns_the_whole_batch(client: Client) -> None:
    await client.produce("a", batch(b"0", b"1", b"2"))
    await client.produce("a", batch(b"3"))
    assert offsets((await client.fetch("a", 1)).records) == [0, 3]
    assert offsets((await client.fetch("a", 3)).records) == [3]


async def test_the_first_batch_is_returned_even_if_it_exceeds_max_bytes(client: Client) -> None:
    await client.produce("a", batch(bytes(5000)))
    await client.produce("a", batch(bytes(5000)))
    assert offsets((await client.fetch("a", 0, bytes_max=100)).records) == [0]
    assert offsets((await client.fetch("a", 0, max_bytes=100)).records) == [0]
    assert offsets((await client.fetch("a", 0, bytes_max=11_000)).records) == [0, 1]


async def test_only_the_first_partition_may_exceed_max_bytes(client: Client) -> None:
    for partition in range(2):
        await client.produce("a", batch(bytes(5000)), partition=partition)
    request = fetch_request("a", 0, max_bytes=6000)
    request.topics = [
        FetchTopic(
            topic="a",
            partitions=[
                FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)
                for partition in range(2)
            ],
        )
    ]
    response = await client.call(request, 12)
    assert [offsets(part.records) for part in response.responses[0].partitions] == [[0], []]


@pytest.mark.parametrize("offset", [-1, 2, 100])
async def test_a_fetch_offset_out_of_range_is_answered_at_once(client: Client, offset: int) -> None:
    await client.produce("a", batch(b"0"))
    data = await client.fetch("a", offset, max_wait_ms=LONG_MS)
    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_unknown_partitions_are_answered_at_once(client: Client) -> None:
    for topic, partition in (("a", 4), ("nobody", 0)):
        data = await client.fetch(topic, 0, partition=partition, max_wait_ms=LONG_MS)
        assert data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("epoch", "code"), [(0, ErrorCode.NONE), (-1, ErrorCode.NONE), (7, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
async def test_the_leader_epoch_is_checked(client: Client, epoch: int, code: ErrorCode) -> None:
    request = fetch_request("a", 0)
    request.topics[0].partitions[0].current_leader_epoch = epoch
    response = await client.call(request, 12)
    assert response.responses[0].partitions[0].error_code == code


@pytest.mark.parametrize("version", [12, 15, 16, 18])
@pytest.mark.parametrize(
    ("epoch", "code"), [(0, ErrorCode.FENCED_LEADER_EPOCH), (-1, ErrorCode.NONE), (99, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
async def test_the_response_to_an_old_leader_epoch_names_the_current_leader(
    tmp_path: Path, version: int, epoch: int, code: ErrorCode
) -> None:
    async with serving(tmp_path, topics=(("a", 1),)):
        pass
    async with serving(
        tmp_path, broker_rack="r"
    ) as local_broker:  # The restarted broker leads again, with a higher epoch.
        client = await local_broker.connect()
        (known,) = (await client.call(MetadataRequest(topics=None), 12)).topics
        request = fetch_request("a", 0)
        request.topics[0].topic_id = known.topic_id
        request.topics[0].partitions[0].current_leader_epoch = epoch
        response = await client.call(request, version)
        data = response.responses[0].partitions[0]
        assert data.error_code == code
        if version >= 16 and code is ErrorCode.FENCED_LEADER_EPOCH:
            assert data.current_leader == LeaderIdAndEpoch(1, known.partitions[0].leader_epoch)
            assert response.node_endpoints == [
                NodeEndpoint(1, local_broker.serving.host, local_broker.serving.port, "r")
            ]
        else:
            assert (data.current_leader, response.node_endpoints) == (LeaderIdAndEpoch(), [])


async def test_a_follower_outside_the_replica_set_is_refused(client: Client) -> None:
    request = fetch_request("a", 0)
    request.replica_id = 5
    response = await client.call(request, 12)
    assert response.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_an_append_completes_a_waiting_fetch(client: Client, local_broker: LocalBroker) -> None:
    await client.send(fetch_request("a", 0, max_wait_ms=LONG_MS), 12)
    other = await local_broker.connect()
    await other.produce("a", batch(b"wake"))
    response = await client.receive()
    assert offsets(response.responses[0].partitions[0].records) == [0]


async def test_a_fetch_waits_for_min_bytes(client: Client, local_broker: LocalBroker) -> None:
    one = batch(bytes(100))
    await client.send(fetch_request("a", 0, max_wait_ms=LONG_MS, min_bytes=2 * len(one) + 1), 12)
    other = await local_broker.connect()
    for _ in range(3):
        await other.produce("a", one)
    response = await client.receive()
    assert offsets(response.responses[0].partitions[0].records) == [0, 1, 2]


async def test_a_fetch_returns_what_is_available_after_max_wait_ms(client: Client) -> None:
    one = batch(b"one")
    await client.produce("a", one)
    before = trio.current_time()
    data = await client.fetch("a", 0, max_wait_ms=50, min_bytes=len(one) + 1)
    assert offsets(data.records) == [0]
    assert trio.current_time() - before >= 0.05


@pytest.mark.parametrize("version", [4, 12, 13, 17, 18])
async def test_a_waiting_fetch_of_a_topic_that_is_deleted_is_answered(
    client: Client, local_broker: LocalBroker, version: int
) -> None:
    request = fetch_request("b", 0, max_wait_ms=LONG_MS)
    request.topics[0].topic_id = await client.create("b")
    await client.send(request, version)
    other = await local_broker.connect()
    await other.call(DeleteTopicsRequest(topic_names=["b"], timeout_ms=LONG_MS), 5)
    data = (await client.receive()).responses[0].partitions[0]
    assert (data.error_code, data.high_watermark) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


async def test_a_request_of_another_api_completes_a_waiting_fetch(client: Client) -> None:
    await client.send(fetch_request("a", 0, max_wait_ms=LONG_MS), 12)
    await client.send(
        ListOffsetsRequest(
            replica_id=-1,
            topics=[ListOffsetsTopic(name="a", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])],
        ),
        7,
    )
    fetched, listed = await client.receive(), await client.receive()
    assert bytes(fetched.responses[0].partitions[0].records) == b""
    assert listed.topics[0].partitions[0].offset == 0


async def test_only_read_committed_fetches_list_aborted_transactions(client: Client) -> None:
    await client.produce("a", batch(b"one"))
    assert (await client.fetch("a", 0)).aborted_transactions is None
    assert (await client.fetch("a", 0, isolation_level=1)).aborted_transactions == []


@pytest.mark.parametrize("session_epoch", [-1, 0])
async def test_many_partitions_return_the_same_records_as_few(client: Client, session_epoch: int) -> None:
    count = AT_ONCE_MAX + 40
    await client.create("many", count)
    for index in (0, count - 1):
        await client.produce("many", batch(b"x"), partition=index)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=session_epoch,
        topics=[
            FetchTopic(
                "many",
                partitions=[
                    FetchPartition(index, fetch_offset=0, partition_max_bytes=1 << 20) for index in range(count + 1)
                ],
            )
        ],
    )
    parts = (await client.call(request, 12)).responses[0].partitions
    assert [part.partition_index for part in parts] == [*range(count + 1)]
    unknown = [part.partition_index for part in parts if part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert unknown == [count]
    assert [part.partition_index for part in parts if part.records] == [0, count - 1]
    request.max_wait_ms, request.min_bytes = 60_000, 1 << 20
    await client.send(request, 12)
    await client.send(ListOffsetsRequest(), 7)  # The append completes the waiting fetch.
    assert len((await client.receive()).responses[0].partitions) == count + 1
