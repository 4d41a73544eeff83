"""Leaders in late errors: a leadership that ends while a Produce or Fetch waits names the new leader (KIP-951)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
import trio
import trio.testing

from pykbroker.apis.records.produce.admit import WriteRights
from pykbroker.apis.records.produce.produce import Produce
from pykbroker.core.metadata.image import Endpoint
from tests.unit.apis.calling import context
from tests.unit.apis.conftest import produce_request
from tests.unit.replica.brokers import TOPIC_ID, Broker, Cluster, batch, pause, responded
from tests.unit.replica.host import NOW_MS
from tests.unit.replica.test_replication import until
from wire.error_codes import ErrorCode
from wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from wire.messages.produce import ProduceResponse

Clock = trio.testing.MockClock
HOST, PORT = "two.example", 9292
HINT = (2, HOST, PORT)


async def produced(leader: Broker, version: int) -> Any:
    """Produce with acks=all, and return the result of the partition and the endpoints."""
    fetch = leader.handlers[FetchRequest]
    rights = WriteRights(leader.replicas, cast("Any", None), lambda: False)
    handler = Produce(leader.replicas, rights, lambda: NOW_MS, fetch.hints)
    request = produce_request("t", batch(b"value"))
    request.timeout_ms = 60_000
    response = await responded(handler(context(version), request))
    assert isinstance(response, ProduceResponse)
    (topic,) = response.responses
    (answer,) = topic.partition_responses
    return answer, response.node_endpoints


async def fetched(leader: Broker, version: int) -> Any:
    """Wait for records as a consumer, and return the result of the partition and the endpoints."""
    partition = FetchPartition(partition=0, current_leader_epoch=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic="t", topic_id=TOPIC_ID, partitions=[partition])]
    request = FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=1 << 20, topics=topics, session_epoch=-1)
    response = await responded(leader.handlers[FetchRequest](context(version), request))
    assert isinstance(response, FetchResponse)
    (topic,) = response.responses
    (data,) = topic.partitions
    return data, response.node_endpoints


@pytest.mark.parametrize(
    ("ask", "version", "is_named"),
    [(produced, 10, True), (produced, 9, False), (fetched, 16, True), (fetched, 15, False)],
    ids=["produce", "older produce", "fetch", "older fetch"],
)
async def test_a_request_that_waits_when_the_leader_changes_is_told_the_new_leader(
    autojump_clock: Clock, ask: Callable[[Broker, int], Awaitable[Any]], version: int, is_named: bool
) -> None:
    cluster = Cluster()
    cluster.set_broker(2, endpoints=(Endpoint("PLAINTEXT", HOST, PORT),))
    results = []
    async with cluster.up():
        leader = cluster.brokers[1]
        await until(lambda: leader.has_partition and leader.partition.is_leader)
        cluster.cut |= {(2, 1), (3, 1)}

        async def run() -> None:
            results.append(await ask(leader, version))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await pause(1)
            assert results == []
            cluster.commit(leader=2)
    ((result, endpoints),) = results
    fenced = ErrorCode.NOT_LEADER_OR_FOLLOWER if ask is produced else ErrorCode.FENCED_LEADER_EPOCH
    assert result.error_code == fenced
    named = [(one.node_id, one.host, one.port) for one in endpoints]
    hint = (result.current_leader.leader_id, result.current_leader.leader_epoch)
    assert (named, hint) == (([HINT], (2, 1)) if is_named else ([], (-1, -1)))
