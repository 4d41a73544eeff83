"""A broker serves its clients while requests wait for another node that is silent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from pykbroker.coordinator.transactions import TransactionRequests
from tests.unit.apis.conftest import Client, LocalBroker, batch, produce_request, serving
from tests.unit.cluster.nodes import cluster
from wire.declare import Request
from wire.messages.api_versions import ApiVersionsRequest
from wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from wire.messages.find_coordinator import FindCoordinatorRequest
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from wire.messages.produce import ProduceRequest
from wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

SERVED_S_MAX = 10
"""The time in which clients must be served. The controller is waited for up to 60 s, another broker for 30 s."""
ORDERED_S = 0.2
"""The time in which no response may overtake that of the waiting request."""


async def require_others_served(
    local: LocalBroker, waiting: Client, request: Request[Any], version: int, partition: int = 0
) -> None:
    """Send a request that has no response for now, and require that other clients are served."""
    await waiting.send(request, version)
    await waiting.send(MetadataRequest(topics=[]), 8)
    overtaken = False
    with trio.move_on_after(ORDERED_S):
        overtaken = bool(await waiting.stream.receive_some())
    assert not overtaken
    with trio.fail_after(SERVED_S_MAX):
        other = await local.connect()
        assert (await other.call(ApiVersionsRequest(), 2)).error_code == 0
        assert (await other.produce("t", batch(b"v"), partition=partition, acks=1)).error_code == 0
        await other.stream.aclose()


@pytest.mark.parametrize(
    ("waiting", "version"),
    [
        (CreateTopicsRequest(topics=[CreatableTopic("new", 1, 1)]), 7),
        (MetadataRequest(topics=[MetadataRequestTopic(name="new")]), 8),
    ],
    ids=("forwarded", "auto-created"),
)
async def test_requests_that_wait_for_the_controller_do_not_stop_a_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waiting: Request[Any], version: int
) -> None:
    monkeypatch.setattr("pykbroker.quorum.ongoing.WAIT_S_MAX", 6 * SERVED_S_MAX)
    async with cluster(tmp_path, 1, 2, queued_max_requests="1") as running:
        await running.clients[1].create("t", 2)
        described = await running.clients[2].call(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 8)
        (own,) = [one.partition_index for one in described.topics[0].partitions if one.leader_id == 2]
        running.crash(1)
        await require_others_served(running.brokers[2], running.clients[2], waiting, version, own)
        running.crash(2)  # an orderly shutdown would wait for the controller


def transactional_produce() -> ProduceRequest:
    records = batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    request = produce_request("t", records)
    request.transactional_id = "x"
    return request


def transactional_offsets() -> TxnOffsetCommitRequest:
    offsets = [TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, 1)])]
    return TxnOffsetCommitRequest("x", "g", producer_id=7, producer_epoch=0, topics=offsets)


@pytest.mark.parametrize(
    ("waiting", "version"), [(transactional_produce(), 11), (transactional_offsets(), 4)], ids=("records", "offsets")
)
async def test_requests_that_wait_for_a_transaction_coordinator_do_not_stop_a_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waiting: Request[Any], version: int
) -> None:
    asked, ended = trio.Event(), trio.Event()

    async def admit(*_: object, **__: object) -> dict[Any, Any]:
        asked.set()
        await ended.wait()
        return {}

    monkeypatch.setattr(TransactionRequests, "admit", admit)
    topics = (("t", 1), ("__consumer_offsets", 1))
    async with serving(tmp_path, topics=topics, queued_max_requests="1", offsets_topic_num_partitions="1") as local:
        client = await local.connect()
        await client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        await require_others_served(local, client, waiting, version)
        assert asked.is_set()
        ended.set()
        for _ in ("the waiting request", "the one after it"):
            await client.receive()
