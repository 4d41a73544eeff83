"""Transactions whose coordinators and partitions are on different brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from pykbroker.apis.transactions.write_txn_markers import WriteTxnMarkers
from pykbroker.core.coordinator.key import partition_of
from tests.unit.apis.conftest import Client
from tests.unit.apis.transactional import TransactionalClient
from tests.unit.cluster.nodes import Cluster, cluster
from wire.error_codes import ErrorCode
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic

ANSWERED_S_MAX = 15
"""The time in which a verification must be answered. A broker gives up a silent one after 30 s."""


async def leaders(client: Client, topic: str) -> dict[int, int]:
    """Return the leader of each partition."""
    response = await client.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 8)
    return {one.partition_index: one.leader_id for one in response.topics[0].partitions}


async def coordinated_by(node_id: int, running: Cluster) -> TransactionalClient:
    """Return a producer of transactions of version 2 whose coordinator is on the broker."""
    led = await leaders(running.clients[1], "__transaction_state")
    names = (f"producer-{number}" for number in range(1000))
    name = next(name for name in names if led[partition_of(name, len(led))] == node_id)
    producer = TransactionalClient(await running.brokers[node_id].connect(), name, version_2=True)
    while (code := await producer.init()) is not ErrorCode.NONE:  # the coordinator may be loading
        assert code in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
        await trio.sleep(0.02)
    return producer


async def produced(producer: TransactionalClient, running: Cluster, leader: int) -> ErrorCode:
    """Produce a record to the partition of topic `t` that the broker leads."""
    (index,) = [one for one, node_id in (await leaders(running.clients[1], "t")).items() if node_id == leader]
    at_leader = TransactionalClient(await running.brokers[leader].connect(), producer.name, version_2=True)
    at_leader.producer_id, at_leader.epoch = producer.producer_id, producer.epoch
    return await at_leader.produce("t", index=index, name=producer.name)


async def test_a_verification_does_not_wait_for_the_markers_of_other_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, committed = trio.Event(), trio.Event()
    write = WriteTxnMarkers._write

    async def write_slowly(self: WriteTxnMarkers, markers: list[Any]) -> Any:
        asked.set()
        await committed.wait()  # as if a follower were silent
        return await write(self, markers)

    monkeypatch.setattr(WriteTxnMarkers, "_write", write_slowly)
    async with cluster(tmp_path, 1, 2) as running:
        await running.clients[1].create("t", 2)
        await TransactionalClient(running.clients[1]).find()
        ended, other = await coordinated_by(1, running), await coordinated_by(2, running)
        assert await produced(ended, running, leader=2) is ErrorCode.NONE
        assert await ended.end(commit=True) is ErrorCode.NONE
        await asked.wait()
        with trio.fail_after(ANSWERED_S_MAX):
            assert await produced(other, running, leader=1) is ErrorCode.NONE
        committed.set()
        assert await ended.settled() == "CompleteCommit"
