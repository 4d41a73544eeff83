"""Tests of the scripted cluster: its nodes answer as Kafka's nodes do, also in a simulation with network faults."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from pykbroker.client.cluster import ClusterBroker
from pykbroker.client.errors import Disconnected
from pykbroker.client.metadata import ClusterMetadata, MetadataSettings
from pykbroker.client.node import NodeSettings
from pykbroker.client.nodes import Nodes
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.sim.net import SimNet
from pykbroker.sim.network import Network
from pykbroker.sim.process import Process
from pykbroker.sim.scripted.cluster import ScriptedCluster
from pykbroker.sim.simulation import Simulation
from tests.unit.client.loopback import LoopbackNet
from wire.error_codes import ErrorCode
from wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wire.messages.end_txn import EndTxnRequest
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from wire.messages.init_producer_id import InitProducerIdRequest
from wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from wire.records.batch import batches
from wire.records.builder import BatchBuilder
from wire.records.record import records

ORDERS = TopicPartition("orders", 0)
CLIENT = "client"


def batch(**fields: Any) -> bytes:
    """Return a batch of one record."""
    builder = BatchBuilder(**fields)
    builder.append(None, b"value", timestamp=1000)
    return bytes(builder.build())


class Rig:
    """A scripted cluster of three nodes with the topic "orders", and a client of it."""

    def __init__(self, cluster: ScriptedCluster, nodes: Nodes) -> None:
        self.cluster, self.state, self.nodes = cluster, cluster.state, nodes
        self.topic_id = cluster.state.add_topic("orders").topic_id

    async def produce(
        self, node_id: int = 1, *, acks: int = -1, transactional_id: str | None = None, **fields: Any
    ) -> Any:
        """Produce a batch of one record, and return the answer of the partition."""
        data = PartitionProduceData(0, batch(**fields))
        request = ProduceRequest(transactional_id, acks, topic_data=[TopicProduceData("orders", self.topic_id, [data])])
        return (await self.nodes.ask(node_id, request)).responses[0].partition_responses[0]

    async def fetch(self, node_id: int = 1, offset: int = 0, **fields: Any) -> Any:
        """Fetch, and return the answer of the partition."""
        request = self.fetch_request(offset, **fields)
        return (await self.nodes.ask(node_id, request)).responses[0].partitions[0]

    def fetch_request(
        self, offset: int = 0, epoch: int = -1, last_epoch: int = -1, partition: bool = True, **fields: Any
    ) -> FetchRequest:
        asked = FetchPartition(0, epoch, offset, last_epoch, partition_max_bytes=1 << 20)
        topics = [FetchTopic("orders", self.topic_id, [asked])] if partition else []
        return FetchRequest(topics=topics, **{"min_bytes": 1, **fields})


@pytest.fixture
async def rig(autojump_clock, nursery) -> Rig:
    net = LoopbackNet()
    cluster = ScriptedCluster(lambda _host: net, Random(1), nursery)
    cluster.start()
    nodes = Nodes(net, Random(2).uniform, NodeSettings(client_id=CLIENT))
    await nursery.start(nodes.run)
    rig = Rig(cluster, nodes)
    for node_id, (host, port) in cluster.state.addresses.items():
        nodes.learn(ClusterBroker(node_id, host, port))
    return rig


async def test_produced_records_are_fetched_with_their_offsets_and_leader_epoch(autojump_clock, rig: Rig) -> None:
    assert [(await rig.produce()).base_offset for _ in range(2)] == [0, 1]
    found = await rig.fetch()
    (first, second) = batches(found.records)
    assert [record.value for batch in (first, second) for record in records(batch, 100)] == [b"value"] * 2
    assert (second.base_offset, second.leader_epoch, second.crc_ok()) == (1, 0, True)
    assert found.high_watermark == 2


async def test_a_node_that_does_not_lead_a_partition_hints_at_the_leader(autojump_clock, rig: Rig) -> None:
    rig.state.move_leader(ORDERS, 3)
    for answer in (await rig.produce(), await rig.fetch()):
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (3, 1)
    assert (await rig.produce(3)).error_code == 0


async def test_a_repeated_sequence_is_a_duplicate_and_a_gap_is_out_of_order(autojump_clock, rig: Rig) -> None:
    producer_id = (await rig.nodes.ask(1, InitProducerIdRequest(transactional_id=None))).producer_id
    place: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": 0}
    assert (await rig.produce(base_sequence=0, **place)).base_offset == 0
    assert (await rig.produce(base_sequence=1, **place)).base_offset == 1
    assert (await rig.produce(base_sequence=0, **place)).base_offset == 0
    assert (await rig.produce(base_sequence=3, **place)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert rig.state.log(ORDERS).end_offset == 2


async def test_a_damaged_batch_is_refused(autojump_clock, rig: Rig) -> None:
    data = bytearray(batch())
    data[-1] ^= 1
    topics = [TopicProduceData("orders", rig.topic_id, [PartitionProduceData(0, bytes(data))])]
    answer = await rig.nodes.ask(1, ProduceRequest(acks=1, topic_data=topics))
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.CORRUPT_MESSAGE


async def test_a_fetch_waits_for_records_and_for_a_move_of_the_leader(autojump_clock, rig: Rig, nursery) -> None:
    began = trio.current_time()
    assert not (await rig.fetch(max_wait_ms=2000)).records
    assert trio.current_time() - began == pytest.approx(2)

    async def later(change: Any) -> None:
        await trio.sleep(1)
        change()

    for change in (lambda: rig.state.log(ORDERS).append(batch(), 0), lambda: rig.state.move_leader(ORDERS, 2)):
        began = trio.current_time()
        nursery.start_soon(later, change)
        offset = rig.state.log(ORDERS).end_offset
        found = await rig.fetch(offset=offset, max_wait_ms=20_000)
        assert found.records or found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert trio.current_time() - began == pytest.approx(1)


async def test_leader_epochs_of_clients_are_checked(autojump_clock, rig: Rig) -> None:
    rig.state.move_leader(ORDERS, 2)
    rig.state.move_leader(ORDERS, 1)
    assert (await rig.fetch(epoch=1)).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (await rig.fetch(epoch=3)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (await rig.fetch(epoch=2)).error_code == 0
    assert (await rig.fetch(offset=5)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_truncated_log_reports_where_it_diverges(autojump_clock, rig: Rig) -> None:
    for _ in range(3):
        await rig.produce()
    rig.state.move_leader(ORDERS, 2)
    rig.state.log(ORDERS).truncate(1)
    await rig.produce(2)
    found = await rig.fetch(2, offset=3, last_epoch=0)
    assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (0, 1)
    asked = OffsetForLeaderPartition(0, -1, 0)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic("orders", [asked])])
    (end,) = (await rig.nodes.ask(2, request)).topics[0].partitions
    assert (end.leader_epoch, end.end_offset) == (0, 1)


async def test_a_fetch_session_returns_only_changes_and_ends_with_its_node(autojump_clock, rig: Rig) -> None:
    opened = await rig.nodes.ask(1, rig.fetch_request(session_epoch=0, min_bytes=0))
    assert opened.session_id
    again = rig.fetch_request(partition=False, session_id=opened.session_id, session_epoch=1, min_bytes=0)
    assert not (await rig.nodes.ask(1, again)).responses
    rig.cluster.nodes[1].stop()
    rig.cluster.nodes[1].start()
    await trio.testing.wait_all_tasks_blocked(0.01)
    lost = rig.fetch_request(partition=False, session_id=opened.session_id, session_epoch=2, min_bytes=0)
    assert (await rig.nodes.ask(1, lost)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_leader_prefers_the_replica_in_the_rack_of_the_client(autojump_clock, rig: Rig) -> None:
    rig.state.racks = {1: "a", 2: "b"}
    await rig.produce()
    assert (await rig.fetch(rack_id="b")).preferred_read_replica == 2
    assert (await rig.fetch(2, rack_id="b")).records
    assert (await rig.fetch(rack_id="c")).records


async def test_offsets_are_listed_for_timestamps(autojump_clock, rig: Rig) -> None:
    for _ in range(3):
        await rig.produce()
    rig.state.log(ORDERS).delete_before(1)

    async def offset(timestamp: int) -> int:
        asked = ListOffsetsTopic("orders", [ListOffsetsPartition(0, -1, timestamp)])
        return (await rig.nodes.ask(1, ListOffsetsRequest(-1, topics=[asked]))).topics[0].partitions[0].offset

    assert [await offset(timestamp) for timestamp in (-1, -2, -3, 1000, 1001)] == [3, 1, 1, 1, -1]


async def test_a_recreated_topic_has_another_id_and_no_records(autojump_clock, rig: Rig) -> None:
    await rig.produce()
    rig.state.recreate_topic("orders")
    assert (await rig.produce()).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert rig.state.log(ORDERS).end_offset == 0


async def test_a_group_outlives_the_move_of_its_coordinator(autojump_clock, rig: Rig) -> None:
    async def commit(node_id: int, offset: int) -> int:
        topic = OffsetCommitRequestTopic("orders", rig.topic_id, [OffsetCommitRequestPartition(0, offset)])
        answer = await rig.nodes.ask(node_id, OffsetCommitRequest("g", -1, topics=[topic]))
        return answer.topics[0].partitions[0].error_code

    assert await commit(1, 5) == 0
    assert await commit(2, 6) == ErrorCode.NOT_COORDINATOR
    rig.cluster.groups.move("g", 2)
    assert await commit(1, 7) == ErrorCode.NOT_COORDINATOR
    asked = OffsetFetchRequestGroup("g", topics=None)
    answer = await rig.nodes.ask(2, OffsetFetchRequest(groups=[asked]))
    assert answer.groups[0].topics[0].partitions[0].committed_offset == 5


async def test_a_member_that_waits_for_a_rebalance_learns_that_its_coordinator_moved(
    autojump_clock, rig: Rig, nursery
) -> None:
    rig.cluster.groups.settings = msgspec.structs.replace(
        rig.cluster.groups.settings, group_initial_rebalance_delay_ms=60_000
    )
    join = JoinGroupRequest(
        "g", 10_000, 60_000, protocol_type="consumer", protocols=[JoinGroupRequestProtocol("range")]
    )
    first = await rig.nodes.ask(1, join)
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    join.member_id = first.member_id

    async def move() -> None:
        await trio.sleep(1)
        rig.cluster.groups.move("g", 2)

    nursery.start_soon(move)
    assert (await rig.nodes.ask(1, join)).error_code == ErrorCode.NOT_COORDINATOR


async def test_a_consumer_group_gets_its_partitions(autojump_clock, rig: Rig) -> None:
    member = ConsumerGroupHeartbeatRequest(
        "g", "member", 0, rebalance_timeout_ms=1000, subscribed_topic_names=["orders"], topic_partitions=[]
    )
    answer = await rig.nodes.ask(1, member)
    assert answer.member_epoch > 0
    assert [(each.topic_id, each.partitions) for each in answer.assignment.topic_partitions] == [(rig.topic_id, [0])]


@pytest.mark.parametrize("commit", [True, False])
async def test_a_transaction_outlives_the_move_of_its_coordinator(autojump_clock, rig: Rig, commit: bool) -> None:
    init = InitProducerIdRequest("t", 60_000)
    given = await rig.nodes.ask(1, init)
    place = {"producer_id": given.producer_id, "producer_epoch": given.producer_epoch, "transactional": True}
    assert (await rig.produce(base_sequence=0, transactional_id="t", **place)).error_code == 0
    assert not (await rig.fetch(isolation_level=1)).records
    topics = [TxnOffsetCommitRequestTopic("orders", [TxnOffsetCommitRequestPartition(0, 5)])]
    offsets = TxnOffsetCommitRequest("t", "g", given.producer_id, given.producer_epoch, topics=topics)
    assert (await rig.nodes.ask(1, offsets)).topics[0].partitions[0].error_code == 0

    rig.cluster.transactions.move("t", 2)
    end = EndTxnRequest("t", given.producer_id, given.producer_epoch, commit)
    assert (await rig.nodes.ask(1, end)).error_code == ErrorCode.NOT_COORDINATOR
    assert (await rig.nodes.ask(2, end)).error_code == 0
    await trio.testing.wait_all_tasks_blocked(0.01)
    found = await rig.fetch(isolation_level=1)
    assert found.last_stable_offset == 2
    assert [each.producer_id for each in found.aborted_transactions or []] == ([] if commit else [given.producer_id])
    answer = await rig.nodes.ask(1, OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)]))
    assert bool(answer.groups[0].topics) is commit


async def test_a_producer_that_another_instance_replaced_is_fenced(autojump_clock, rig: Rig) -> None:
    first, second = [await rig.nodes.ask(1, InitProducerIdRequest("t", 60_000)) for _ in range(2)]
    assert second.producer_epoch > first.producer_epoch
    place = {"producer_id": first.producer_id, "producer_epoch": first.producer_epoch, "transactional": True}
    assert (await rig.produce(base_sequence=0, transactional_id="t", **place)).error_code
    assert rig.state.log(ORDERS).end_offset == 0


async def metadata_with_network_faults(simulation: Simulation) -> list[int]:
    """Move leaders and cut links at random, and return the leaders that the client finds between the faults."""
    network, process = Network(simulation), Process(CLIENT)

    def net_of(host: str) -> SimNet:
        owner = process if host == CLIENT else Process(host)
        net = SimNet(network, owner, host, simulation.dice(f"net of {host}"))
        simulation.start(owner, net.run)
        return net

    cluster = ScriptedCluster(net_of, simulation.dice("cluster"), simulation.nursery)
    cluster.start()
    cluster.state.add_topic("orders")
    dice, found = simulation.dice("faults"), []
    network.faults.lost, network.faults.late = 0.05, 0.1
    nodes = Nodes(net_of(CLIENT), simulation.dice("client").uniform, NodeSettings(request_timeout_ms=2000))
    metadata = ClusterMetadata(nodes, simulation.dice("metadata").uniform, MetadataSettings(cluster.bootstrap))
    async with trio.open_nursery() as nursery:
        await nursery.start(nodes.run)
        nursery.start_soon(metadata.run)
        metadata.use("orders")
        for _ in range(10):
            cut, leader = dice.randint(1, 3), dice.randint(1, 3)
            network.cut(CLIENT, f"node{cut}")
            if dice.random() < 0.5:
                cluster.nodes[cut].disconnect()
            cluster.state.move_leader(ORDERS, leader)
            metadata.request_update()
            with trio.fail_after(120):
                while metadata.cluster.leader(ORDERS) != leader:
                    metadata.request_update()
                    await metadata.wait_newer(metadata.version)
            found.append(leader)
            network.heal()
            await trio.sleep(dice.uniform(0, 3))
        nursery.cancel_scope.cancel()
    return found


def test_metadata_survives_network_faults_in_a_simulation_that_is_reproducible(apart) -> None:
    leaders, digest = apart(metadata_with_network_faults)
    assert len(leaders) == 10
    assert apart(metadata_with_network_faults, hash_seed="7", junk=5_001) == (leaders, digest)


async def test_a_node_that_stops_closes_its_connections(autojump_clock, rig: Rig) -> None:
    await rig.nodes.connection(1)
    rig.cluster.nodes[1].stop()
    await trio.testing.wait_all_tasks_blocked(0.01)
    with pytest.raises((Disconnected, OSError)):
        await rig.produce()
