"""Answers with changed bytes: every record gets an outcome, all memory returns, and the producer lives on."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.producer.errors import MetadataTimeout, TransactionError, TransactionTimeout
from pykbroker.producer.delivery import Delivery
from pykbroker.producer.producer import Producer
from pykbroker.sim.scripted.cluster import ScriptedCluster
from tests.unit.client.garbling import GarblingNet
from tests.unit.producer.conftest import Producing

SEEDS, RECORDS = 40, 40
PATIENCE_S = 400
EXPECTED = (ApiError, MetadataTimeout, TransactionError, TransactionTimeout)


async def send_all(producer: Producer) -> list[Delivery]:
    """Send records one after the other, and return those that were taken."""
    taken = []
    for number in range(RECORDS):
        with suppress(*EXPECTED):
            taken.append(await producer.send("topic", b"%d" % number, partition=number % 3))
        await trio.sleep(0.1)
    return taken


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_garbage_leaves_no_record_without_an_outcome(
    autojump_clock, nursery, seed: int, transactional: bool
) -> None:
    net = GarblingNet(Random(seed), share=0.5)
    cluster = ScriptedCluster(lambda _host: net, Random(seed), nursery)
    cluster.start()
    settings = {"transactional_id": "copier"} if transactional else {}
    async with Producing(net, cluster).producer(delivery_timeout_ms=60_000, **settings) as producer:
        if transactional:
            await producer.init_transactions()
            await producer.begin_transaction()
        net.is_garbling = True
        taken = await send_all(producer)
        with trio.fail_after(PATIENCE_S):
            for delivery in taken:
                with suppress(*EXPECTED):
                    await delivery
        if transactional:
            with suppress(*EXPECTED):
                await producer.commit_transaction()
        net.is_garbling = False
        for _ in range(PATIENCE_S):
            if (left := producer.statistics()).buffer_available_bytes == left.buffer_bytes:
                break
            await trio.sleep(1)  # answers to records that have expired are still on their way
        assert left.buffer_available_bytes == left.buffer_bytes
    assert taken
    assert net.garbled
