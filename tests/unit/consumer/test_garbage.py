"""Answers with changed bytes: a consumer raises errors of its own, ends in time, and lives on."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import trio

from pykbroker.core.consumer.errors import ConsumerError, ConsumerTimeout, GroupDataMalformed
from pykbroker.core.consumer.fetching import ConsumerFetches
from pykbroker.core.errors import ApiError
from pykbroker.sim.scripted.cluster import ScriptedCluster
from tests.unit.client.garbling import GarblingNet
from tests.unit.consumer.conftest import Consuming
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.heartbeat import HeartbeatResponse

SEEDS, POLLS = 25, 30
API_MS_MAX = 5_000
"""The virtual time after which a call gives up whose answers are all garbled. It sends requests all the time."""
PATIENCE_S = 300
"""Seconds of virtual time, which one call takes at most."""
EXPECTED = (ApiError, ConsumerError, ConsumerTimeout)


@pytest.mark.parametrize("protocol", [None, "classic", "consumer"])
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_garbage_crashes_no_consumer(autojump_clock, nursery, seed: int, protocol: str | None) -> None:
    net = GarblingNet(Random(seed))
    cluster = ScriptedCluster(lambda _host: net, Random(seed), nursery)
    cluster.start()
    consuming = Consuming(net, cluster)
    consuming.append(*(b"%d" % number for number in range(20)))
    settings = {} if protocol is None else {"group_id": "group", "group_protocol": protocol}
    async with consuming.consumer(
        "topic", max_poll_records=5, default_api_timeout_ms=API_MS_MAX, **settings
    ) as consumer:
        net.is_garbling = True
        for _ in range(POLLS):
            with trio.fail_after(PATIENCE_S):
                try:
                    await consumer.poll(0.5)
                    if consumer.assignment:
                        await (consumer.committed if protocol else consumer.end_offsets)(consumer.assignment)
                        consumer.seek_to_beginning()
                except EXPECTED:
                    continue
        net.is_garbling = False
    assert net.garbled


async def test_an_error_code_of_a_newer_broker_is_an_error_of_the_poll(autojump_clock, consuming: Consuming) -> None:
    consuming.append(b"value")
    consuming.change_fetched(lambda data: setattr(data, "error_code", 9999), 1)
    async with consuming.consumer("topic") as consumer:
        with pytest.raises(ApiError) as caught:
            await consumer.poll(10)
        assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert [record.value for record in await consumer.poll(10)] == [b"value"]


async def test_a_heartbeat_with_an_unknown_error_code_is_repeated(autojump_clock, consuming: Consuming) -> None:
    consuming.append(b"value")
    async with consuming.member() as consumer:
        assert await consumer.poll(10)
        consuming.answer_with(ApiKey.HEARTBEAT, lambda _request: HeartbeatResponse(0, 9999), times=2)
        await consumer.poll(10)
        assert consumer.assignment == frozenset(consuming.partitions)


async def test_a_malformed_subscription_of_another_member_is_an_error_of_the_poll(
    autojump_clock, consuming: Consuming
) -> None:
    async def malformed(node: Any, header: Any, request: Any) -> Any:
        if header.key != ApiKey.JOIN_GROUP or not request.member_id or not left:
            return None
        response = await node.handle(header, request)
        response.members[0].metadata = left.pop()
        return response

    left = [b"\x00", b"\x00\x01\xff\xff"]
    for node in consuming.cluster.nodes.values():
        node.scripts.append(malformed)
    consuming.append(b"value")
    async with consuming.member() as consumer:
        for _ in range(2):
            with pytest.raises(GroupDataMalformed, match="group group: the subscription of member 'pykbroker-"):
                await consumer.poll(30)
        assert [record.value for record in await consumer.poll(30)] == [b"value"]


async def test_a_defect_in_the_handling_of_a_response_ends_the_consumer(
    autojump_clock, consuming: Consuming, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planted(*_args: Any) -> None:
        raise ZeroDivisionError("planted")

    consuming.append(b"value")
    monkeypatch.setattr(ConsumerFetches, "received", planted)
    with pytest.RaisesGroup(ZeroDivisionError, flatten_subgroups=True):
        async with consuming.consumer("topic") as consumer:
            await consumer.poll(60)
