"""Requests that wait when their client shuts down its sending side are answered, and then their connection ends."""

from __future__ import annotations

from pathlib import Path

from tests.unit.apis.conftest import Client, batch, fetch_request, produce_request, serving
from tests.unit.cluster.nodes import cluster
from wire.error_codes import ErrorCode
from wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from wire.messages.find_coordinator import FindCoordinatorRequest
from wire.messages.heartbeat import HeartbeatRequest
from wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

LONG_MS = 50_000


async def test_a_fetch_waits_for_records_as_before(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("a", 1),)) as local_broker:
        client, other = await local_broker.connect(), await local_broker.connect()
        await client.send(fetch_request("a", 0, max_wait_ms=LONG_MS), 12)
        await client.stream.send_eof()
        await other.produce("a", batch(b"one"))
        response = await client.receive()
        assert response.responses[0].partitions[0].high_watermark == 1
        assert await client.closed()


async def test_all_requests_before_the_end_are_answered(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("a", 1),)) as local_broker:
        client = await local_broker.connect()
        await client.send(fetch_request("a", 0, max_wait_ms=LONG_MS), 12)
        for _ in range(200):
            await client.send(HeartbeatRequest(group_id="g", member_id="m"), 4)
        await client.stream.send_eof()
        for _ in range(201):
            await client.receive()
        assert await client.closed()


async def test_a_member_that_joins_is_answered(tmp_path: Path) -> None:
    of_one = {"offsets_topic_replication_factor": "1", "offsets_topic_num_partitions": "1"}
    async with serving(tmp_path, group_initial_rebalance_delay_ms="100", **of_one) as local_broker:
        client = await local_broker.connect()
        assert (await client.call(FindCoordinatorRequest(key_="g"), 3)).error_code == 0
        protocols = [JoinGroupRequestProtocol("range", b"")]
        request = JoinGroupRequest("g", 6000, 6000, "", None, "consumer", protocols)
        await client.send(request, 3)
        await client.stream.send_eof()
        response = await client.receive()
        assert (response.error_code, response.generation_id) == (0, 1)
        assert await client.closed()


async def test_a_produce_waits_for_the_followers(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as running:
        topics = [CreatableTopic("a", 1, 2)]
        assert (await running.clients[1].call(CreateTopicsRequest(topics, LONG_MS), 7)).topics[0].error_code == 0
        codes = []
        for node_id in (1, 2):
            client: Client = await running.brokers[node_id].connect()
            await client.send(produce_request("a", batch(b"one")), 11)
            await client.stream.send_eof()
            codes.append((await client.receive()).responses[0].partition_responses[0].error_code)
            assert await client.closed()
    assert sorted(codes) == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
