"""Tests of requests for thousands of partitions: other tasks run between their steps, but no other request does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest
import trio
import trio.testing

from pykbroker.coordinator.runtime import Runtime
from pykbroker.core.errors import ApiError
from pykbroker.core.group.requests import ClientRequest, FetchOffsets, ForgetTopics
from pykbroker.core.outcome import Outcome
from pykbroker.machines.call import Call
from pykbroker.world.turns import SHARE_NS, STEPS_A_LOOK, Turns
from tests.unit.coordinator.memory_log import MemoryLog
from tests.unit.coordinator.test_runtime import runtime_of
from wire.error_codes import ErrorCode
from wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from wire.records.batch import batches

MANY = 2_000
SLOW = SHARE_NS + 1
"""The nanoseconds that the clock advances at each reading, more than the time slice of a request."""


@asynccontextmanager
async def hosting(log: MemoryLog) -> AsyncIterator[Runtime]:
    runtime = runtime_of(turns=Turns(count(0, SLOW).__next__))
    async with trio.open_nursery() as nursery:
        runtime.follow(1, {0: log})
        nursery.start_soon(runtime.run)
        await trio.testing.wait_all_tasks_blocked()
        yield runtime
        nursery.cancel_scope.cancel()


def commit(runtime: Runtime, offset: int, partitions: int = MANY) -> Call:
    return runtime.ask(
        "g",
        ClientRequest(
            OffsetCommitRequest(
                "g",
                topics=[
                    OffsetCommitRequestTopic(
                        "t", partitions=[OffsetCommitRequestPartition(index, offset) for index in range(partitions)]
                    )
                ],
            ),
            8,
        ),
    )


def commit_in_transaction(runtime: Runtime) -> Call:
    return runtime.ask(
        "g",
        ClientRequest(
            TxnOffsetCommitRequest(
                "x",
                "g",
                7,
                0,
                topics=[
                    TxnOffsetCommitRequestTopic(
                        "t", [TxnOffsetCommitRequestPartition(index, 1) for index in range(MANY)]
                    )
                ],
            ),
            3,
        ),
    )


def fetch(runtime: Runtime) -> Call:
    return runtime.ask(
        "g",
        FetchOffsets(
            OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", partition_indexes=list(range(MANY)))]),
            require_stable=False,
        ),
    )


def delete(runtime: Runtime) -> Call:
    return runtime.ask(
        "g",
        ClientRequest(
            OffsetDeleteRequest(
                "g", [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(index) for index in range(MANY)])]
            ),
            0,
        ),
    )


async def committed(runtime: Runtime) -> set[int]:
    (topic,) = (await fetch(runtime).wait()).topics
    return {one.committed_offset for one in topic.partitions}


async def passes_of_other_tasks(call: Call) -> int:
    """Return how often other tasks ran before the call was answered."""
    turns = 0
    while not call.settled:
        await trio.lowlevel.checkpoint()
        turns += 1
    call.result()
    return turns


@pytest.mark.parametrize(
    ("ask", "passes"),
    [(lambda runtime: commit(runtime, 2), 3), (commit_in_transaction, 3), (fetch, 1), (delete, 3)],
    ids=["OffsetCommit", "TxnOffsetCommit", "OffsetFetch", "OffsetDelete"],
)
async def test_other_tasks_run_during_a_large_request(ask: Callable[[Runtime], Call], passes: int) -> None:
    async with hosting(MemoryLog()) as runtime:
        await commit(runtime, 1).wait()
        assert await passes_of_other_tasks(ask(runtime)) >= passes * MANY // STEPS_A_LOOK - 1


async def test_a_small_request_is_answered_at_once() -> None:
    async with hosting(MemoryLog()) as runtime:
        assert commit(runtime, 1, partitions=1).settled


async def test_a_large_offset_commit_is_one_batch() -> None:
    log = MemoryLog()
    async with hosting(log) as runtime:
        await commit(runtime, 1).wait()
    assert [header.count for data in log.stored for header in batches(data)] == [MANY]


async def test_requests_after_a_large_request_wait_for_it() -> None:
    async with hosting(MemoryLog()) as runtime:
        calls = [commit(runtime, 1), commit(runtime, 2, partitions=1), fetch(runtime), commit(runtime, 3)]
        order = list[int]()

        async def note(place: int, call: Call) -> None:
            await call.wait()
            order.append(place)

        async with trio.open_nursery() as nursery:
            for place, call in enumerate(calls):
                nursery.start_soon(note, place, call)
        assert order == [0, 1, 2, 3]
        (topic,) = calls[2].result().topics
        assert [one.committed_offset for one in topic.partitions] == [2] + [1] * (MANY - 1)
        assert await committed(runtime) == {3}


@pytest.mark.parametrize("turns", [1, MANY // STEPS_A_LOOK, 5 * MANY // 2 // STEPS_A_LOOK])
async def test_a_large_commit_during_a_loss_of_leadership_has_full_effect_or_none(turns: int) -> None:
    log = MemoryLog()
    async with hosting(log) as runtime:
        calls = commit(runtime, 1), commit(runtime, 2, partitions=1)
        for _ in range(turns):
            await trio.lowlevel.checkpoint()
        log.leader_epoch += 1
        runtime.follow(1, {0: log})
        for call in calls:
            with pytest.raises(ApiError) as refused:
                await call.wait()
            assert refused.value.code == ErrorCode.NOT_COORDINATOR
        await trio.testing.wait_all_tasks_blocked()
        assert await committed(runtime) == ({1} if log.stored else {-1})
        assert bool(log.stored) == (turns > 2 * MANY // STEPS_A_LOOK)


async def test_a_large_request_is_refused_if_the_leader_epoch_changes_before_the_append() -> None:
    log = MemoryLog()
    async with hosting(log) as runtime:
        call = commit(runtime, 1)
        log.leader_epoch += 1
        with pytest.raises(ApiError) as refused:
            await call.wait()
        assert refused.value.code == ErrorCode.NOT_COORDINATOR
        assert not log.stored


async def test_an_unexpected_error_in_a_large_request_reloads_the_coordinator_and_answers_all(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    log = MemoryLog()
    async with hosting(log) as runtime:
        await commit(runtime, 1, partitions=1).wait()
        partition: Any = runtime._led[0]

        def broken(entry: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(partition._shell._machine, "replay", broken)
        failing, other = commit(runtime, 2), fetch(runtime)
        with pytest.raises(ZeroDivisionError):
            await failing.wait()
        with pytest.raises(ApiError) as refused:
            await other.wait()
        assert refused.value.code == ErrorCode.NOT_COORDINATOR
        await trio.testing.wait_all_tasks_blocked()
        assert "the coordinator failed; reloading from the log" in caplog.text
        await trio.sleep(5)
        assert await committed(runtime) == {2}


async def test_a_failed_append_of_a_large_request_reloads_the_coordinator_and_answers_all(
    caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    log = MemoryLog()
    async with hosting(log) as runtime:
        calls = commit(runtime, 1), commit(runtime, 2, partitions=1)
        log.error = ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        for call in calls:
            with pytest.raises(ApiError) as refused:
                await call.wait()
            assert refused.value.code == ErrorCode.NOT_COORDINATOR
        await trio.testing.wait_all_tasks_blocked()
        assert "the coordinator lost its log; reloading from the log" in caplog.text
        log.error = None
        await trio.sleep(5)
        assert await committed(runtime) == {-1}


async def test_timers_still_run_after_a_large_request_that_arrives_before_the_coordinators_tasks_start(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    """Send the request before the tasks of the coordinator start."""
    runtime = runtime_of(turns=Turns(count(0, SLOW).__next__))
    async with trio.open_nursery() as nursery:
        runtime.follow(1, {0: MemoryLog()})
        call = commit(runtime, 1)
        nursery.start_soon(runtime.run)
        await call.wait()
        partition: Any = runtime._led[0]
        ticked = trio.Event()

        def tick(_now: object) -> Outcome[Any, Any]:
            ticked.set()
            return Outcome()

        monkeypatch.setattr(partition._shell._machine, "tick", tick)
        with trio.fail_after(24 * 60 * 60):
            await ticked.wait()
        nursery.cancel_scope.cancel()


async def test_a_timer_that_waited_until_the_coordinator_was_lost_does_not_run(autojump_clock: object) -> None:
    log = MemoryLog()
    async with hosting(log) as runtime:
        await commit(runtime, 1).wait()
        partition: Any = runtime._led[0]
        async with partition._shell._ticking:
            runtime.notify(ForgetTopics(frozenset("t")))
            await trio.testing.wait_all_tasks_blocked()
            log.error = ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        with pytest.raises(ApiError):
            commit(runtime, 2, partitions=1).result()
        await trio.lowlevel.checkpoint()
        log.error = None
        await trio.sleep(5)
        assert not partition._shell._work.under_way
        assert commit(runtime, 3, partitions=1).settled
