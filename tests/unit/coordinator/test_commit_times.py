"""Tests of the time in which records of a coordinator must be committed: of groups, and of each transaction."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import trio

from pykbroker.coordinator.batches import Batches
from pykbroker.coordinator.runtime import Runtime
from pykbroker.core.errors import ApiError
from pykbroker.core.group.machine import GroupMachine
from pykbroker.core.group.requests import ClientRequest
from pykbroker.core.group.settings import GroupSettings
from pykbroker.core.txn.machine import TransactionsMachine
from pykbroker.core.txn.requests import FindTransaction, InitProducer
from pykbroker.core.txn.settings import TransactionSettings
from pykbroker.machines.call import Call
from pykbroker.sim.off_loop import InlineOffLoop
from pykbroker.world.turns import Turns
from tests.unit.coordinator.memory_log import MemoryLog
from tests.unit.core.txn.harness import Ids
from wire.error_codes import ErrorCode
from wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from wire.stored.group import GROUP_RECORDS
from wire.stored.transaction_log import TRANSACTION_RECORDS

WALL_MS = 1_700_000_000_000


def groups(commit_s_max: float) -> Runtime:
    return Runtime(
        "__consumer_offsets",
        lambda: GroupMachine(GroupSettings(), Random(1)),
        Batches(GROUP_RECORDS, 0),
        lambda: WALL_MS,
        InlineOffLoop(),
        Turns(lambda: 0),
        commit_s_max,
    )


def transactions(commit_s_max: float) -> Runtime:
    settings, ids = TransactionSettings(lambda: 2), Ids()
    return Runtime(
        "__transaction_state",
        lambda: TransactionsMachine(settings, ids),
        Batches(TRANSACTION_RECORDS),
        lambda: WALL_MS,
        InlineOffLoop(),
        Turns(lambda: 0),
        commit_s_max,
    )


async def refused_after(runtime: Runtime, *requests: Any) -> list[float]:
    """Return after how many seconds each request is refused while the log commits nothing."""
    times = [0.0] * len(requests)

    async def wait(place: int, call: Call) -> None:
        began = trio.current_time()
        with pytest.raises(ApiError) as refused:
            await call.wait()
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        times[place] = round(trio.current_time() - began, 3)

    async with trio.open_nursery() as nursery:
        runtime.follow(1, {0: MemoryLog(held=True)})
        nursery.start_soon(runtime.run)
        async with trio.open_nursery() as waiting:
            for place, request in enumerate(requests):
                waiting.start_soon(wait, place, runtime.ask("x", request))
        nursery.cancel_scope.cancel()
    return times


async def test_records_of_a_group_must_be_committed_within_the_configured_time(autojump_clock: object) -> None:
    topic = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 5)])
    commit = ClientRequest(OffsetCommitRequest("x", topics=[topic]), 9)
    assert await refused_after(groups(7), commit, commit) == [7, 7]


async def test_records_of_a_transaction_must_be_committed_within_its_own_timeout(autojump_clock: object) -> None:
    requests = (InitProducer("x", 60_000), InitProducer("y", 20_000), FindTransaction("x"), InitProducer("z", 90_000))
    assert await refused_after(transactions(30), *requests) == [60, 20, 30, 90]
