"""Clusters of one controller and several brokers: every broker knows all topics, and forwards what it cannot decide."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from pykbroker import broker
from pykbroker.broker.lifecycle import CLOSING_S_MAX, Broker
from pykbroker.core.descriptors import Descriptors
from pykbroker.core.errors import ApiError, StopError
from pykbroker.core.ids import UNASSIGNED
from pykbroker.core.log.epochs import OffsetAndEpoch
from pykbroker.core.security.forwarded import encode_host, encode_principal
from pykbroker.core.settings import Serving
from pykbroker.quorum.journal import METADATA_DIRECTORY
from pykbroker.quorum.metadata_fetches import MetadataFetches
from pykbroker.server.handler import CloseConnection
from pykbroker.world import system
from pykbroker.world.disk import Buffer
from tests.unit.apis.conftest import Client, batch, produce_request
from tests.unit.cluster.nodes import Cluster, Node, cluster, eventually
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.frame import encode_request
from wire.messages.api_versions import ApiVersionsRequest
from wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from wire.messages.describe_cluster import DescribeClusterRequest
from wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from wire.messages.envelope import EnvelopeRequest
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from wire.messages.find_coordinator import CoordinatorType, FindCoordinatorRequest
from wire.messages.init_producer_id import InitProducerIdRequest
from wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

PRINCIPAL, LOOPBACK = encode_principal("User:ANONYMOUS"), encode_host("127.0.0.1")
LENGTH_BYTES = 4


async def leaders(client: Client, topic: str) -> dict[int, int]:
    """Return the leader of each partition, as this client's broker knows it."""
    response = await client.call(
        MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False), 12
    )
    return {one.partition_index: one.leader_id for one in response.topics[0].partitions}


async def test_a_topic_is_known_to_all_brokers_when_the_response_to_its_creation_is_sent(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, 3) as running:
        for number, client in enumerate(running.clients.values()):
            await client.create(f"t{number}", 6)
            known = [await leaders(one, f"t{number}") for one in running.clients.values()]
            assert known[0] == known[1] == known[2]
            assert sorted(set(known[0].values())) == [1, 2, 3]


async def test_the_connections_of_the_controllers_listener_are_counted_too(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as running:
        one, two = [(await running.brokers[each].serving.observer.statistics()).server for each in (1, 2)]
        assert one.connections_open["CONTROLLER"] >= 1
        assert one.connections_accepted >= sum(one.connections_open.values())
        assert set(two.connections_open) == {"PLAINTEXT"}


async def test_a_listener_of_the_controller_has_the_limits_with_its_name(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, listener_name_controller_max_connections="1") as running:
        first, second = await running.controller_client(), await running.controller_client()
        await first.call(ApiVersionsRequest("test", "1"), 3)
        await second.send(ApiVersionsRequest("test", "1"), 3)
        for _ in range(3):
            await first.call(ApiVersionsRequest("test", "1"), 3)
            await running.clients[1].call(ApiVersionsRequest("test", "1"), 3)
        server = (await running.brokers[1].serving.observer.statistics()).server
        assert server.connections_open["CONTROLLER"] == 1
        await first.stream.aclose()
        await second.receive()


async def test_strangers_at_the_controllers_listener_cannot_use_up_the_descriptors(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(system, "open_files_max", lambda: 128)
    async with cluster(tmp_path, 1, pykbroker_client_descriptors_min="80") as running:
        first, *_ = [await running.controller_client() for _ in range(Descriptors(128).nodes_min)]
        waiting = await running.controller_client()
        await waiting.send(ApiVersionsRequest("test", "1"), 3)
        await first.call(ApiVersionsRequest("test", "1"), 3)
        await running.clients[1].call(ApiVersionsRequest("test", "1"), 3)
        server = (await running.brokers[1].serving.observer.statistics()).server
        assert server.connections_open["CONTROLLER"] == Descriptors(128).nodes_min
        await first.stream.aclose()
        await waiting.receive()


async def test_a_broker_serves_its_own_partitions_and_names_the_leader_of_all_others(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as running:
        await running.clients[1].create("t", 4)
        for partition, leader in (await leaders(running.clients[2], "t")).items():
            produced = await running.clients[leader].produce("t", batch(b"v"), partition=partition)
            assert (produced.error_code, produced.base_offset) == (0, 0)
            found = await running.clients[leader].fetch("t", 0, partition=partition)
            assert found.high_watermark == 1
            other, hint = running.clients[3 - leader], (leader, running.brokers[leader].serving.port)
            request = produce_request("t", batch(b"v"), partition)
            response = await other.call(request, 11)
            answer = response.responses[0].partition_responses[0]
            (named,) = response.node_endpoints
            assert (answer.error_code, answer.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, leader)
            assert (named.node_id, named.port) == hint
            topic_id = (
                (await other.call(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12)).topics[0].topic_id
            )
            for epoch in (-1, 0, 1):
                asked = FetchPartition(partition=partition, partition_max_bytes=1, current_leader_epoch=epoch)
                topics = [FetchTopic(topic_id=topic_id, partitions=[asked])]
                for state in (ReplicaState(), ReplicaState(7)):
                    response = await other.call(FetchRequest(topics=topics, replica_state=state), 16)
                    data = response.responses[0].partitions[0]
                    (named,) = response.node_endpoints
                    assert (data.error_code, data.current_leader.leader_id) == (
                        ErrorCode.NOT_LEADER_OR_FOLLOWER,
                        leader,
                    )
                    assert (named.node_id, named.port) == hint


@pytest.mark.parametrize("version", [12, 17])
async def test_a_fetch_of_a_partition_of_another_broker_is_answered_at_once(tmp_path: Path, version: int) -> None:
    """A partition without new records, beside which the error stands, would let the fetch wait."""
    async with cluster(tmp_path, 1, 2) as running:
        topic_id = await running.clients[1].create("t", 2)
        places = await leaders(running.clients[1], "t")
        asked = [FetchPartition(partition=index, partition_max_bytes=1 << 20) for index in places]
        topics = [FetchTopic("t", topic_id, asked)]
        response = await running.clients[1].call(FetchRequest(topics=topics, max_wait_ms=600_000, min_bytes=1), version)
        codes = {one.partition_index: one.error_code for topic in response.responses for one in topic.partitions}
        elsewhere = ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert codes == {index: 0 if leader == 1 else elsewhere for index, leader in places.items()}
        assert set(places.values()) == {1, 2}


@pytest.mark.parametrize("epoch", [-1, 0, 1])
async def test_a_broker_without_a_replica_looks_up_no_offset(tmp_path: Path, epoch: int) -> None:
    async with cluster(tmp_path, 1, 2) as running:
        await running.clients[1].create("t", 2)
        for partition, leader in (await leaders(running.clients[2], "t")).items():
            other = running.clients[3 - leader]
            latest = ListOffsetsTopic("t", [ListOffsetsPartition(partition, epoch, -1)])
            (found,) = (await other.call(ListOffsetsRequest(-1, 0, [latest]), 7)).topics
            assert found.partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            asked = OffsetForLeaderTopic("t", [OffsetForLeaderPartition(partition, epoch, 0)])
            (end,) = (await other.call(OffsetForLeaderEpochRequest(topics=[asked]), 4)).topics
            assert end.partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_follower_that_fetches_a_partition_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as running:
        topic_id = await running.clients[1].create("t")
        topics = [FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition=1, current_leader_epoch=0)])]
        response = await running.clients[1].call(FetchRequest(topics=topics, replica_state=ReplicaState(7)), 16)
        assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_every_broker_lists_all_unfenced_brokers_with_the_endpoint_of_the_clients_listener(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path, 1, 2, 3) as running:
        expected = {node_id: local.serving.port for node_id, local in running.brokers.items()}
        for client in running.clients.values():
            described = await client.call(DescribeClusterRequest(), 1)
            assert {one.broker_id: one.port for one in described.brokers} == expected
            response = await client.call(MetadataRequest(topics=[]), 12)
            assert {one.node_id: one.port for one in response.brokers} == expected
            assert response.controller_id in expected
        await running.stop(3)

        async def is_gone() -> bool:
            response = await running.clients[2].call(MetadataRequest(topics=[]), 12)
            return {one.node_id for one in response.brokers} == {1, 2}

        await eventually(is_gone)


async def test_a_stopped_broker_leaves_no_leader_and_serves_its_records_again_after_a_restart(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as running:
        await running.clients[1].create("t", 2)
        (own,) = [one for one, leader in (await leaders(running.clients[1], "t")).items() if leader == 2]
        assert (await running.clients[2].produce("t", batch(b"kept"), partition=own)).error_code == 0
        await running.stop(2)
        assert (await leaders(running.clients[1], "t"))[own] == -1
        client = await running.start(2)
        assert (await leaders(running.clients[1], "t"))[own] == 2
        assert (await client.fetch("t", 0, partition=own)).high_watermark == 1


async def observers(client: Client) -> dict[int, int]:
    """Return the observers of the metadata log with their log end offsets."""
    request = DescribeQuorumRequest(
        [DescribeQuorumRequestTopicData("__cluster_metadata", [DescribeQuorumRequestPartitionData(0)])]
    )
    response = await client.call(request, 2)
    partition = response.topics[0].partitions[0]
    assert (partition.error_code, [one.replica_id for one in partition.current_voters]) == (0, [1])
    return {one.replica_id: one.log_end_offset for one in partition.observers}


async def test_brokers_are_observers_of_the_quorum_whichever_broker_is_asked(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, 3) as running:
        for client in running.clients.values():
            assert sorted(await observers(client)) == [2, 3]


async def test_a_new_broker_reads_the_snapshot_and_then_the_log(tmp_path: Path) -> None:
    often = {"metadata_log_max_record_bytes_between_snapshots": "1000"}
    async with cluster(tmp_path, 1, **often) as running:
        for number in range(5):
            await running.clients[1].create(f"t{number}", 3)
        directory = running.nodes[1].directory / METADATA_DIRECTORY

        async def snapshots() -> list[Path]:
            return [path for path in directory.glob("*.checkpoint") if not path.name.startswith("0" * 20)]

        await eventually(snapshots)
        client = await running.start(2)
        copies = (running.nodes[2].directory / METADATA_DIRECTORY).glob("*.checkpoint")
        assert {path.name for path in copies} & {path.name for path in await snapshots()}
        for number in range(5):
            assert await leaders(client, f"t{number}") == dict.fromkeys(range(3), 1)


@pytest.mark.parametrize("refusal", [CloseConnection(), ApiError(ErrorCode.SNAPSHOT_NOT_FOUND)], ids=["closed", "gone"])
async def test_a_snapshot_that_is_cut_off_in_the_middle_is_fetched_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: Exception
) -> None:
    read_snapshot, positions = MetadataFetches.read_snapshot, list[int]()

    async def cut_off(
        fetches: MetadataFetches, wanted: OffsetAndEpoch, position: int, bytes_max: int
    ) -> tuple[int, Buffer]:
        positions.append(position)
        if len(positions) == 3:
            raise refusal
        return await read_snapshot(fetches, wanted, position, min(bytes_max, 100))

    monkeypatch.setattr(MetadataFetches, "read_snapshot", cut_off)
    async with cluster(tmp_path, 1, metadata_log_max_record_bytes_between_snapshots="1000") as running:
        for number in range(5):
            await running.clients[1].create(f"t{number}", 3)
        directory = running.nodes[1].directory / METADATA_DIRECTORY

        async def has_snapshot() -> bool:
            return any(not path.name.startswith("0" * 20) for path in directory.glob("*.checkpoint"))

        await eventually(has_snapshot)
        client = await running.start(2)
        assert positions[:6] == [0, 100, 200, 0, 100, 200]
        for number in range(5):
            assert await leaders(client, f"t{number}") == dict.fromkeys(range(3), 1)
        fetched = min((running.nodes[2].directory / METADATA_DIRECTORY).glob("*.checkpoint*"))  # later ones are its own
        assert fetched.read_bytes() == (directory / fetched.name).read_bytes()


async def test_a_new_broker_takes_the_cluster_id_of_the_controller(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as running:
        ids = {local.serving.cluster_id for local in running.brokers.values()}
        assert len(ids) == 1
        client = await running.controller_client()
        described = await client.call(DescribeClusterRequest(endpoint_type=2), 1)
        assert ({described.cluster_id}, described.controller_id, described.endpoint_type) == (ids, 1, 2)
        assert [(one.broker_id, one.port) for one in described.brokers] == [
            (1, running.nodes[1].controller_address.port)
        ]


async def test_a_controller_closes_the_connections_of_other_nodes_before_its_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that arrives later finds no task that could answer it."""
    closes_logs, may_close = trio.Event(), trio.Event()
    close = Broker._close

    async def close_later(self: Broker) -> StopError | None:
        closes_logs.set()
        await may_close.wait()
        return await close(self)

    monkeypatch.setattr(Broker, "_close", close_later)
    async with cluster(tmp_path, 1) as running, trio.open_nursery() as nursery:
        stream = await trio.open_tcp_stream(*running.nodes[1].controller_address)
        client = Client(stream)
        await client.call(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
        nursery.start_soon(running.stop, 1)
        await closes_logs.wait()
        is_closed = False
        with trio.move_on_after(5):
            is_closed = await client.closed()
        may_close.set()
        await stream.aclose()
    assert is_closed


async def test_listeners_of_controllers_and_of_clients_serve_different_apis(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as running:
        request = ApiVersionsRequest("test", "1")
        of_controller = {one.api_key for one in (await (await running.controller_client()).call(request, 4)).api_keys}
        of_clients = {one.api_key for one in (await running.clients[1].call(request, 4)).api_keys}
        assert {ApiKey.ENVELOPE, ApiKey.BROKER_HEARTBEAT, ApiKey.FETCH_SNAPSHOT, ApiKey.ALTER_PARTITION} <= (
            of_controller - of_clients
        )
        assert {ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.JOIN_GROUP} <= of_clients - of_controller
        assert not of_controller & {ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH}


def enveloped(data: bytes, principal: bytes = PRINCIPAL, host: bytes = LOOPBACK) -> EnvelopeRequest:
    return EnvelopeRequest(request_data=data, request_principal=principal, client_host_address=host)


CREATION = encode_request(
    CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)]), 7, 5, "c"
)[LENGTH_BYTES:]


@pytest.mark.parametrize(
    ("envelope", "code"),
    [
        (enveloped(CREATION), ErrorCode.NONE),
        (enveloped(encode_request(enveloped(CREATION), 0, 1, "c")[LENGTH_BYTES:]), ErrorCode.INVALID_REQUEST),
        (enveloped(encode_request(MetadataRequest(), 12, 1, "c")[LENGTH_BYTES:]), ErrorCode.INVALID_REQUEST),
        (enveloped(encode_request(BrokerHeartbeatRequest(), 1, 1, "c")[LENGTH_BYTES:]), ErrorCode.INVALID_REQUEST),
        (enveloped(CREATION[:-3]), ErrorCode.UNSUPPORTED_VERSION),
        (enveloped(b""), ErrorCode.UNSUPPORTED_VERSION),
        (enveloped(CREATION[:2] + b"\0\x7f" + CREATION[4:]), ErrorCode.UNSUPPORTED_VERSION),
        (enveloped(CREATION[:2] + b"\xff\xff" + CREATION[4:]), ErrorCode.UNSUPPORTED_VERSION),
        (enveloped(b"\x7f\0" + CREATION[2:]), ErrorCode.UNSUPPORTED_VERSION),
        (enveloped(CREATION, principal=b"\0\7"), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (enveloped(CREATION, host=b"abc"), ErrorCode.INVALID_REQUEST),
        (enveloped(CREATION, principal=b"\0\7", host=b"abc"), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (enveloped(b"", host=b"abc"), ErrorCode.INVALID_REQUEST),
    ],
    ids=[
        *("create", "envelope", "metadata", "heartbeat", "cut", "empty", "version", "negative_version", "api"),
        *("principal", "host", "principal_and_host", "host_and_empty"),
    ],
)
async def test_an_envelope_carries_only_requests_that_brokers_forward(
    tmp_path: Path, envelope: EnvelopeRequest, code: ErrorCode
) -> None:
    async with cluster(tmp_path, 1) as running:
        response = await (await running.controller_client()).call(envelope, 0)
        assert (response.error_code, response.response_data is not None) == (code, code == ErrorCode.NONE)
        assert ("t" in str(await leaders_of_all(running))) == (code == ErrorCode.NONE)


async def leaders_of_all(running: Cluster) -> list[str]:
    return [topic.name for topic in (await running.clients[1].call(MetadataRequest(topics=None), 12)).topics]


def fetching(**fields: object) -> FetchRequest:
    partition = FetchPartition(**{"partition": 0, "last_fetched_epoch": 0, "current_leader_epoch": 1, **fields})  # type: ignore[arg-type]
    return FetchRequest(topics=[FetchTopic(topic_id=UNASSIGNED, partitions=[partition])], max_wait_ms=0)


async def test_a_fetch_of_the_metadata_log_is_refused_as_kafka_refuses_it(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as running:
        client = await running.controller_client()

        async def partition(request: FetchRequest) -> tuple[int, int, int]:
            (topic,) = (await client.call(request, 18)).responses
            (data,) = topic.partitions
            assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (1, 1)
            return data.error_code, data.diverging_epoch.end_offset, len(data.records or b"")

        code, _, size = await partition(fetching())
        assert (code, size > 0) == (0, True)
        assert await partition(fetching(current_leader_epoch=0)) == (ErrorCode.FENCED_LEADER_EPOCH, -1, 0)
        assert await partition(fetching(current_leader_epoch=9)) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, 0)
        assert await partition(fetching(fetch_offset=-1)) == (ErrorCode.INVALID_REQUEST, -1, 0)
        code, end, size = await partition(fetching(fetch_offset=1_000_000, last_fetched_epoch=1))
        assert (code, end > 0, size) == (0, True, 0)
        foreign = fetching()
        foreign.cluster_id = "x"
        assert (await client.call(foreign, 18)).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
        assert (await client.call(FetchRequest(), 18)).error_code == ErrorCode.INVALID_REQUEST


async def test_clients_are_answered_in_time_while_the_controller_is_away(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as running:
        await running.clients[1].create("known")
        running.crash(1)
        with trio.fail_after(30):  # a request to the controller is given up after 60 s
            async with trio.open_nursery() as nursery:  # each client waits until the broker gives up its request
                nursery.start_soon(metadata_is_answered, await running.brokers[2].connect())
                for key_type in (CoordinatorType.GROUP, CoordinatorType.TRANSACTION):
                    nursery.start_soon(no_coordinator_is_found, await running.brokers[2].connect(), key_type)
                nursery.start_soon(no_producer_id_is_given, await running.brokers[2].connect())
        running.crash(2)  # an orderly shutdown would wait for the controller


async def metadata_is_answered(client: Client) -> None:
    topics = [MetadataRequestTopic(name=name) for name in ("known", "new")]
    response = await client.call(MetadataRequest(topics=topics, allow_auto_topic_creation=True), 12)
    codes = {topic.name: topic.error_code for topic in response.topics}
    assert codes == {"known": ErrorCode.NONE, "new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def no_coordinator_is_found(client: Client, key_type: int) -> None:
    response = await client.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"]), 4)
    (found,) = response.coordinators
    assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


async def no_producer_id_is_given(client: Client) -> None:
    answered = await client.call(InitProducerIdRequest(None, 10_000), 4)
    assert (answered.error_code, answered.producer_id) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)


async def test_a_broker_whose_process_is_gone_is_fenced_at_once(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as running:
        await running.clients[1].create("t", 2)
        (own,) = [one for one, leader in (await leaders(running.clients[1], "t")).items() if leader == 2]
        running.crash(2)

        async def is_fenced() -> bool:
            return (await leaders(running.clients[1], "t"))[own] == -1

        with trio.fail_after(5):  # the session lasts for 9 s
            await eventually(is_fenced)
        await running.start(2)
        assert (await leaders(running.clients[1], "t"))[own] == 2


async def test_a_broker_that_waits_for_its_controller_can_be_stopped(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as running:
        await running.stop(2)
        address = running.nodes[1].controller_address
    for directory in (running.nodes[2].directory, tmp_path / "new"):  # one that is formatted, and one that is not
        directory.mkdir(exist_ok=True)
        node, stop = Node(2, directory, address), trio.Event()
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(broker.serve, node.settings(), refuse_to_be_ready, stop=stop))
                await trio.testing.wait_all_tasks_blocked()
                stop.set()


async def test_a_broker_whose_controller_refuses_connections_stops_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pykbroker.broker.lifecycle.REFUSED_S_MAX", 0.5)
    async with cluster(tmp_path, 1, 2) as running:
        running.crash(1)
        with trio.fail_after(CLOSING_S_MAX / 2):
            await running.stop(2)
    assert "controlled shutdown failed: the controller has refused connections for 0.5 s" in caplog.text


def refuse_to_be_ready(_serving: Serving) -> None:
    raise AssertionError("no controller runs")
