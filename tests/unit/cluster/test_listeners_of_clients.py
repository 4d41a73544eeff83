"""Requests of brokers on the listener of clients, where brokers have a listener of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykbroker.broker.parts import Parts
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.world.system_pump import SocketPump
from pykbroker.world.system_silence import SilenceWatch
from tests.unit.apis.conftest import Client, batch, fetch_request, produce_request
from tests.unit.cluster.nodes import Cluster, cluster
from wire.error_codes import ErrorCode
from wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTransaction
from wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from wire.messages.describe_cluster import DescribeClusterRequest
from wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from wire.messages.fetch import ReplicaState
from wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from wire.sentinels import CONSUMER_REPLICA_ID

CLIENTS, BROKERS = "PLAINTEXT", "INTERNAL"
APART = {"inter_broker_listener_name": BROKERS, "min_insync_replicas": "2"}
T = TopicPartition("t", 0)
METADATA = DescribeQuorumRequestTopicData("__cluster_metadata", [DescribeQuorumRequestPartitionData(0)])
LEADER_ID, FOLLOWER_IDS = 1, (2, 3)
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def parts(running: Cluster, node_id: int) -> Parts:
    found: Parts = running.brokers[node_id].serving.observer.parts
    return found


async def create(running: Cluster) -> bytes:
    """Create a topic that broker 1 leads and brokers 2 and 3 follow, wait until all are in sync, and return its id."""
    assigned = [CreatableReplicaAssignment(0, [LEADER_ID, *FOLLOWER_IDS])]
    topics = [CreatableTopic("t", -1, -1, assigned)]
    (created,) = (await running.clients[1].call(CreateTopicsRequest(topics, 30_000), 7)).topics
    assert created.error_code == 0, created.error_message
    produced = await running.clients[1].produce("t", batch(b"first"))
    assert (produced.error_code, produced.base_offset) == (0, 0)
    topic_id: bytes = created.topic_id
    return topic_id


async def unfollow(running: Cluster) -> None:
    """Let no broker fetch the partition any more, while all of them remain in its ISR."""
    for node_id in FOLLOWER_IDS:
        replicas = parts(running, node_id).replicas
        await replicas.fetchers.unfollow(replicas.partition(T))


def of_follower(topic_id: bytes, offset: int, version: int, replica_id: int) -> Any:
    request = fetch_request("t", offset)
    request.topics[0].topic_id = topic_id
    if version < 15:
        request.replica_id = replica_id
    else:
        request.replica_state = ReplicaState(replica_id)
    return request


@pytest.mark.parametrize("version", [4, 12, 14, 15, 17, 18])
async def test_an_invented_follower_acknowledges_no_record(tmp_path: Path, version: int) -> None:
    """Two of them would acknowledge a record that only the leader has."""
    async with cluster(tmp_path, 1, 2, 3, **APART) as running:
        topic_id = await create(running)
        await unfollow(running)
        await running.clients[1].send(produce_request("t", batch(b"second")), 11)
        attacker = await running.brokers[1].connect(CLIENTS)
        for replica_id in FOLLOWER_IDS:
            response = await attacker.call(of_follower(topic_id, 2, version, replica_id), version)
            data = response.responses[0].partitions[0]
            assert (data.error_code, data.high_watermark, bytes(data.records)) == (DENIED, -1, b"")
        answer = (await running.clients[1].receive()).responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert parts(running, 1).replicas.partition(T).high_watermark == 1


@pytest.mark.parametrize(
    ("configs", "listener"), [(APART, BROKERS), ({"min_insync_replicas": "2"}, CLIENTS)], ids=["apart", "one for all"]
)
async def test_a_follower_acknowledges_records_on_the_listener_of_brokers(
    tmp_path: Path, configs: dict[str, str], listener: str
) -> None:
    async with cluster(tmp_path, 1, 2, 3, **configs) as running:
        topic_id = await create(running)
        await unfollow(running)
        await running.clients[1].send(produce_request("t", batch(b"second")), 11)
        follower = await running.brokers[1].connect(listener)
        for replica_id in FOLLOWER_IDS:
            response = await follower.call(of_follower(topic_id, 2, 12, replica_id), 12)
            assert response.responses[0].partitions[0].error_code == 0
        answer = (await running.clients[1].receive()).responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (0, 1)


@pytest.mark.parametrize(
    ("configs", "listener", "watched"),
    [({}, CLIENTS, [False, True]), (APART, CLIENTS, [False, False]), (APART, BROKERS, [True, True])],
    ids=["one for all", "of clients", "of brokers"],
)
async def test_the_connections_of_followers_are_watched_for_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configs: dict[str, str], listener: str, watched: list[bool]
) -> None:
    pumps: list[SocketPump] = []
    monkeypatch.setattr(SilenceWatch, "add", lambda _, pump: pumps.append(pump))
    async with cluster(tmp_path, 1, **configs) as running:
        await running.clients[1].create("t")
        client, found = await running.brokers[1].connect(listener), []
        for replica_id in (CONSUMER_REPLICA_ID, LEADER_ID):
            await client.call(of_follower(bytes(16), 0, 12, replica_id), 12)
            port = client.stream.socket.getsockname()[1]
            found.append(any(pump.socket.getpeername()[1] == port for pump in pumps))
    assert found == watched


async def latest(client: Client, replica_id: int, version: int) -> tuple[int, int]:
    topics = [ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, -1)])]
    response = await client.call(ListOffsetsRequest(replica_id=replica_id, topics=topics), version)
    (found,) = response.topics[0].partitions
    return found.error_code, found.offset


@pytest.mark.parametrize("version", [1, 11])
async def test_only_a_broker_is_told_the_offset_of_records_that_are_not_committed(tmp_path: Path, version: int) -> None:
    async with cluster(tmp_path, 1, 2, 3, **APART) as running:
        await create(running)
        await unfollow(running)
        assert (await running.clients[1].produce("t", batch(b"second"), acks=1)).error_code == 0
        for listener, seen in ((CLIENTS, 1), (BROKERS, 2)):
            asking = await running.brokers[1].connect(listener)
            assert await latest(asking, FOLLOWER_IDS[0], version) == (0, seen)
            assert await latest(asking, CONSUMER_REPLICA_ID, version) == (0, 1)


async def test_only_a_broker_adds_partitions_to_the_transactions_of_others(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, **APART) as running:
        request = AddPartitionsToTxnRequest(transactions=[AddPartitionsToTxnTransaction("x", 1, 0, True)])
        for listener, code in ((CLIENTS, ErrorCode.CLUSTER_AUTHORIZATION_FAILED), (BROKERS, ErrorCode.NONE)):
            asking = await running.brokers[1].connect(listener)
            for version in (4, 5):
                assert (await asking.call(request, version)).error_code == code
            older = AddPartitionsToTxnRequest(v3_and_below_transactional_id="x")
            assert (await asking.call(older, 3)).error_code == 0


async def test_other_requests_are_answered_alike_on_all_listeners(tmp_path: Path) -> None:
    """Kafka's tools send them, and a consumer reads from any replica."""
    async with cluster(tmp_path, 1, **APART) as running:
        await running.clients[1].create("t")
        answers = []
        for listener in (CLIENTS, BROKERS):
            client = await running.brokers[1].connect(listener)
            marker = WritableTxnMarker(7, 0, False, [WritableTxnMarkerTopic("t", [0])], 0)
            written = await client.call(WriteTxnMarkersRequest([marker]), 1)
            cluster_id = await client.call(DescribeClusterRequest(include_cluster_authorized_operations=True), 0)
            (quorum,) = (await client.call(DescribeQuorumRequest([METADATA]), 2)).topics
            upgrade = [FeatureUpdateKey("transaction.version", 2)]
            updated = await client.call(UpdateFeaturesRequest(feature_updates=upgrade, validate_only=True), 1)
            assert quorum.partitions[0].error_code == updated.error_code == 0
            for replica_id in (CONSUMER_REPLICA_ID, -2):
                data = (await client.call(of_follower(bytes(16), 0, 12, replica_id), 12)).responses[0].partitions[0]
                assert data.error_code == 0
                assert (await latest(client, replica_id, 7))[0] == 0
            voters = [voter.replica_id for voter in quorum.partitions[0].current_voters]
            answers.append((written.markers, cluster_id.cluster_authorized_operations, voters, updated.results))
        assert answers == [answers[0]] * 2
        assert answers[0][0][0].topics[0].partitions[0].error_code == 0
