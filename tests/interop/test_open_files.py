"""Tests of a broker with few descriptors, which reserves some for clients and reports partitions that stay offline."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pykbroker.core.descriptors import OWN_DESCRIPTORS
from tests.interop.bad_batches import good
from tests.interop.raw_client import PATIENCE_S, RawClient
from tools.broker_process import BrokerProcess, limited
from tools.smoke import count_apis
from wire.error_codes import ErrorCode
from wire.frame import encode_request
from wire.messages.api_versions import ApiVersionsRequest
from wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic
from wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from wire.records.builder import BatchBuilder

FEW = limited("-n 128")
PARTITIONS_MAX, CLIENTS_MIN = 57, 32
SEGMENTS = 50
TIMEOUT_MS = 30_000


def create(client: RawClient, name: str, partitions: int) -> tuple[int, str | None]:
    request = CreateTopicsRequest([CreatableTopic(name, partitions, 1)], TIMEOUT_MS)
    answer = client.call(CreateTopicsResponse, request, 5).topics[0]
    return answer.error_code, answer.error_message


def leaders(client: RawClient, *names: str) -> Counter[int]:
    """Count the partitions of these topics by their error code in Metadata."""
    request = MetadataRequest([MetadataRequestTopic(name=name) for name in names])
    topics = client.call(MetadataResponse, request, 9).topics
    return Counter(partition.error_code for topic in topics for partition in topic.partitions)


def wait_for_line(broker: BrokerProcess, text: str) -> None:
    """Wait until the broker's log contains `text`."""
    deadline = time.monotonic() + PATIENCE_S
    while text not in broker.stderr.read_text():
        assert time.monotonic() < deadline, broker.output()
        time.sleep(0.01)


def fill(client: RawClient) -> None:
    """Create as many partitions as the broker allows."""
    assert create(client, "full", PARTITIONS_MAX) == (0, None)
    assert leaders(client, "full") == {ErrorCode.NONE: PARTITIONS_MAX}


def test_partitions_use_no_descriptors_that_are_reserved_for_clients(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker(program=FEW)
    with RawClient(broker.address) as client:
        code, message = create(client, "t", 240)
        assert code == ErrorCode.POLICY_VIOLATION
        assert "the process may open 128 files, of which 32 are kept for clients" in (message or "")
        fill(client)
        assert create(client, "t", 1)[0] == ErrorCode.POLICY_VIOLATION
        grown = client.call(
            CreatePartitionsResponse,
            CreatePartitionsRequest([CreatePartitionsTopic("full", PARTITIONS_MAX + 1, None)], TIMEOUT_MS),
            3,
        ).results[0]
        assert grown.error_code == ErrorCode.POLICY_VIOLATION
        asked = client.call(MetadataResponse, MetadataRequest([MetadataRequestTopic(name="auto")]), 9)
        assert asked.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        found = client.call(FindCoordinatorResponse, FindCoordinatorRequest("group"), 3)
        assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert "kept for clients" in (found.error_message or "")
        client.call(DeleteTopicsResponse, DeleteTopicsRequest([], ["full"], TIMEOUT_MS), 5)
        assert create(client, "t", PARTITIONS_MAX) == (0, None)
    output = broker.stderr.read_text()
    assert "0 of at most 57 partitions are open, which leaves room for 89 connections" in output
    assert "the topic auto, which a client needs, is not created: 1 more partition(s) beside 57 would exceed" in output
    assert broker.stop() == 0


def test_connections_above_the_descriptor_limit_wait_and_the_others_are_served(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker(program=FEW)
    with contextlib.ExitStack() as open_clients:
        clients = [open_clients.enter_context(RawClient(broker.address)) for _ in range(CLIENTS_MIN)]
        fill(clients[0])
        for client in clients:
            assert leaders(client, "full") == {ErrorCode.NONE: PARTITIONS_MAX}
        late = open_clients.enter_context(RawClient(broker.address))
        late.socket.sendall(encode_request(ApiVersionsRequest(), 0, 1, None))
        wait_for_line(broker, "32 connections are open")
        late.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            late.socket.recv(1)
        clients[0].socket.close()
        late.socket.settimeout(PATIENCE_S)
        assert late.frame()
    assert broker.stop() == 0


def test_clients_that_do_not_read_keep_a_limited_number_of_segments_open(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    """Every client requests another sealed segment, which stays open until the client has received it."""
    broker = start_broker(program=FEW)
    builder = BatchBuilder()
    builder.append(b"k", bytes(900_000), timestamp=int(time.time() * 1000))
    batch = builder.build()
    with contextlib.ExitStack() as open_clients:
        client = open_clients.enter_context(RawClient(broker.address))
        topic = client.create_topic({"internal.segment.bytes": "1000000"})
        for _ in range(SEGMENTS):
            assert client.produce(topic, batch) == 0
        wait_for_few_files(broker)
        for number in range(PARTITIONS_MAX):
            reader = open_clients.enter_context(RawClient(broker.address))
            reader.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.socket.sendall(encode_request(fetching(topic, number % SEGMENTS), 12, 1, "slow"))
        for offset in range(SEGMENTS):
            found = client.call(FetchResponse, fetching(topic, offset), 12).responses[0].partitions[0]
            assert (found.error_code, len(found.records or b"")) == (0, len(batch))
        assert client.produce(topic, batch) == 0, "the segment must have been rolled"
    assert "Too many open files" not in broker.stderr.read_text()
    assert broker.stop() == 0


def fetching(topic: str, offset: int) -> FetchRequest:
    """Return a Fetch request for one batch of at most a million bytes."""
    partition = FetchPartition(0, -1, offset, partition_max_bytes=1_000_000)
    return FetchRequest(max_bytes=1_000_000, topics=[FetchTopic(topic, partitions=[partition])])


def wait_for_few_files(broker: BrokerProcess) -> None:
    """Wait until newly sealed segments are flushed and all but a few are closed."""
    deadline = time.monotonic() + PATIENCE_S
    while len(os.listdir(f"/proc/{broker.pid}/fd")) > OWN_DESCRIPTORS:
        assert time.monotonic() < deadline, broker.output()
        time.sleep(0.01)


def test_partitions_above_the_descriptor_limit_are_offline_and_clients_can_still_connect(
    start_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    data = ("--data-dir", str(tmp_path / "d"))
    broker = start_broker(*data)
    with RawClient(broker.address) as client:
        assert create(client, "t", 240) == (0, None)
        assert client.call(FindCoordinatorResponse, FindCoordinatorRequest("group"), 3).error_code == 0
        assert client.produce("t", good()) == 0
    broker.kill()
    small = start_broker(*data, program=FEW)
    with RawClient(small.address) as client:
        assert leaders(client, "__consumer_offsets") == {ErrorCode.NONE: 50}
        assert leaders(client, "t") == {ErrorCode.NONE: 7, ErrorCode.LEADER_NOT_AVAILABLE: 233}
        assert create(client, "u", 1)[0] == ErrorCode.POLICY_VIOLATION
    assert count_apis(small.port) > 0
    lines = [line for line in small.stderr.read_text().splitlines() if "stay offline" in line]
    assert len(lines) == 1
    assert "233 partitions, of which t-7 is the first, stay offline" in lines[0]
    assert small.stop() == 0
    assert not (tmp_path / "d/.kafka_cleanshutdown").exists(), "recovery must still open 233 logs"
    broker.start()
    with RawClient(broker.address) as client:
        assert leaders(client, "t", "__consumer_offsets") == {ErrorCode.NONE: 290}
        assert len(client.read("t")) > 0
    assert "stay" not in broker.stderr.read_text()
    assert broker.stop() == 0


def test_a_broker_with_too_few_descriptors_reports_the_required_number(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    with pytest.raises(RuntimeError, match="the process may open 63 files, and a broker needs 64") as refusal:
        start_broker(program=limited("-n 63"))
    assert "Traceback" not in str(refusal.value)
