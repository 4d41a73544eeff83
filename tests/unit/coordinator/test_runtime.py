"""Tests of the runtime of coordinators: when callers are answered, and what happens to them when the log fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import inf
from random import Random
from typing import Any, TypeVar

import pytest
import trio
import trio.testing

from pykbroker.coordinator.batches import Batches
from pykbroker.coordinator.runtime import COMMIT_S_MAX, Runtime
from pykbroker.core.errors import ApiError
from pykbroker.core.group.machine import GroupMachine
from pykbroker.core.group.offsets import read_run
from pykbroker.core.group.requests import ClientRequest, FetchOffsets, ForgetTopics
from pykbroker.core.group.settings import GroupSettings
from pykbroker.core.log.producers import Marker
from pykbroker.core.now import Now
from pykbroker.core.outcome import Outcome
from pykbroker.machines import loader
from pykbroker.machines.call import Call
from pykbroker.sim.off_loop import InlineOffLoop
from pykbroker.world.off_loop import OffLoop
from pykbroker.world.turns import Turns
from tests.unit.coordinator.memory_log import MemoryLog
from wire.error_codes import ErrorCode
from wire.messages.describe_groups import DescribeGroupsRequest
from wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from wire.messages.list_groups import ListGroupsRequest
from wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from wire.messages.offset_fetch import OffsetFetchRequestGroup
from wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from wire.records.batch import HEADER_BYTES, batches
from wire.records.compression import Codec
from wire.stored.group import GROUP_RECORDS

T = TypeVar("T")
WALL_MS = 1_700_000_000_000
INLINE = InlineOffLoop()
ONE_BY_ONE, IN_RUNS = Batches(GROUP_RECORDS, 0), Batches(GROUP_RECORDS, 0, read_run=read_run)


def runtime_of(
    settings: GroupSettings | None = None,
    framing: Batches = ONE_BY_ONE,
    off_loop: OffLoop = INLINE,
    turns: Turns | None = None,
) -> Runtime:
    effective = settings or GroupSettings(group_initial_rebalance_delay_ms=0)
    return Runtime(
        "__consumer_offsets",
        lambda: GroupMachine(effective, Random(1)),
        framing,
        lambda: WALL_MS,
        off_loop,
        turns or Turns(lambda: 0),
    )


@asynccontextmanager
async def hosting(
    *logs: MemoryLog, framing: Batches = ONE_BY_ONE, off_loop: OffLoop = INLINE
) -> AsyncIterator[Runtime]:
    runtime = runtime_of(None, framing, off_loop)
    async with trio.open_nursery() as nursery:
        runtime.follow(len(logs), dict(enumerate(logs)))
        nursery.start_soon(runtime.run)
        await trio.testing.wait_all_tasks_blocked()
        yield runtime
        nursery.cancel_scope.cancel()


def commit(runtime: Runtime, offset: int = 1, group: str = "g", metadata: str = "") -> Call:
    return runtime.ask(group, commit_request(offset, group, metadata))


def commit_request(offset: int, group: str = "g", metadata: str = "") -> ClientRequest:
    partitions = [OffsetCommitRequestPartition(0, offset, -1, metadata)]
    return ClientRequest(OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic("t", partitions=partitions)]), 9)


def fetch(runtime: Runtime, group: str = "g") -> Call:
    return runtime.ask(group, FetchOffsets(OffsetFetchRequestGroup(group, topics=None), require_stable=False))


def join(runtime: Runtime, member_id: str = "", version: int = 3) -> Call:
    return runtime.ask(
        "g",
        ClientRequest(
            JoinGroupRequest(
                "g", 10_000, 10_000, member_id, None, "consumer", [JoinGroupRequestProtocol("range", b"")]
            ),
            version,
            "c",
            "/h",
        ),
    )


def offset(response: Any) -> int:
    return int(response.topics[0].partitions[0].committed_offset)


def code_of(call: Call) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        call.result()
    return refused.value.code


async def test_a_request_that_commits_at_once_is_answered_at_once_and_survives_a_restart() -> None:
    log = MemoryLog()
    async with hosting(log) as runtime:
        assert commit(runtime, 5).result().topics[0].partitions[0].error_code == 0
        assert offset(fetch(runtime).result()) == 5
        (header,) = batches(log.stored[0])
        assert (header.producer_id, header.base_sequence, header.max_timestamp) == (-1, 0, WALL_MS)
    async with hosting(log) as runtime:
        assert offset(fetch(runtime).result()) == 5


async def test_a_response_waits_until_all_records_it_depends_on_are_committed() -> None:
    log = MemoryLog(held=True)
    async with hosting(log) as runtime:
        calls = [commit(runtime, 5), commit(runtime, 6), fetch(runtime)]
        refused = runtime.ask("g", ClientRequest(OffsetCommitRequest("g", 7, "nobody"), 9))
        await trio.testing.wait_all_tasks_blocked()
        assert not any(call.settled for call in [*calls, refused])
        log.commit()
        assert offset(await calls[2].wait()) == 6
        assert all(call.settled for call in calls)
        assert code_of(refused) == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_caller_whose_records_are_not_committed_in_time_is_refused(autojump_clock: object) -> None:
    log = MemoryLog(held=True)
    async with hosting(log) as runtime:
        first = commit(runtime, 5)
        await trio.sleep(COMMIT_S_MAX / 2)
        second = commit(runtime, 6)
        await first.wait_settled()
        assert not second.settled
        assert code_of(first) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await second.wait_settled()
        assert code_of(second) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        log.commit()
        assert offset(await fetch(runtime).wait()) == 6  # the records stay in the log


async def test_concurrent_requests_share_one_flush() -> None:
    log = MemoryLog()
    async with hosting(log) as runtime:
        log.flush_due = True
        calls = [commit(runtime, number) for number in range(10)]
        assert not any(call.settled for call in calls)
        for call in calls:
            await call.wait()
        assert log.flushes == 1


async def test_a_failed_append_refuses_pending_callers_and_reloads_the_coordinator(autojump_clock: object) -> None:
    log = MemoryLog(held=True)
    async with hosting(log) as runtime:
        log.held = False
        log.commit()
        parked = join(runtime)
        log.held = True
        waiting = commit(runtime, 1, "h")
        log.error = ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        failed = commit(runtime, 2, "h")
        assert {code_of(call) for call in (parked, waiting, failed)} == {ErrorCode.NOT_COORDINATOR}
        assert code_of(commit(runtime)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        log.error, log.held = None, False
        log.commit()
        await trio.sleep(5)
        assert offset(fetch(runtime, "h").result()) == 1, "the reloaded coordinator reads the offset from the log"


async def test_a_failed_flush_refuses_pending_callers(autojump_clock: object) -> None:
    log = MemoryLog()
    async with hosting(log) as runtime:
        log.flush_due = True
        call = commit(runtime)
        log.error = ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        with pytest.raises(ApiError):
            await call.wait()
        assert code_of(call) == ErrorCode.NOT_COORDINATOR


async def test_an_append_that_fails_during_a_flush_reloads_the_coordinator(autojump_clock: object) -> None:
    log = MemoryLog()
    log.flushing = trio.Event()
    async with hosting(log) as runtime:
        log.flush_due = True
        waiting = commit(runtime, 1)
        await trio.testing.wait_all_tasks_blocked()
        log.error = ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        failed = commit(runtime, 2)
        log.error = None
        log.flushing.set()
        await trio.sleep(5)
        assert code_of(waiting) == code_of(failed) == ErrorCode.NOT_COORDINATOR
        assert offset(fetch(runtime).result()) == 1, "the reloaded coordinator reads the offset from the log"


async def test_a_coordinator_that_loses_leadership_refuses_its_callers(caplog: pytest.LogCaptureFixture) -> None:
    log = MemoryLog(held=True)
    async with hosting(log) as runtime:
        waiting = commit(runtime)
        log.resign()
        assert code_of(commit(runtime)) == ErrorCode.NOT_COORDINATOR
        await trio.testing.wait_all_tasks_blocked()
        assert caplog.records == [], "a change of the leader is not logged as an error"
        runtime.follow(1, {})
        with pytest.raises(ApiError):
            await waiting.wait()
        assert code_of(waiting) == ErrorCode.NOT_COORDINATOR
        log.is_leader, log.leader_epoch, log.held = True, 3, False
        runtime.follow(1, {0: log})
        log.commit()
        await trio.testing.wait_all_tasks_blocked()
        assert offset(fetch(runtime).result()) == 1


async def test_a_request_too_large_for_one_batch_is_refused_without_effect() -> None:
    log = MemoryLog()
    async with hosting(log) as runtime:
        log.batch_bytes_max = 3000
        assert not commit(runtime, 1, metadata="x" * 2800).result().topics[0].partitions[0].error_code
        assert code_of(commit(runtime, 2, metadata="x" * 3000)) == ErrorCode.UNKNOWN_SERVER_ERROR
        assert offset(fetch(runtime).result()) == 1
        assert len(log.stored) == 1


async def test_records_that_no_caller_waits_for_are_written_in_several_batches(autojump_clock: object) -> None:
    log = MemoryLog()
    async with hosting(log) as runtime:
        for number in range(40):
            commit(runtime, 1, f"group-{number:03}")
        log.batch_bytes_max = 1000
        runtime.notify(ForgetTopics(frozenset(("t",))))
        await trio.sleep(1)
        assert all(not fetch(runtime, f"group-{number:03}").result().topics for number in range(40))
        tombstones = log.stored[40:]
        assert len(tombstones) > 1
        assert all(len(batch) <= 1000 for batch in tombstones)


async def test_a_session_timeout_empties_the_group(autojump_clock: object) -> None:
    async with hosting(MemoryLog()) as runtime:
        joined = await join(runtime).wait()
        assert joined.generation_id == 1
        asked = ClientRequest(DescribeGroupsRequest(["g"]), 6)
        assert runtime.ask("g", asked).result().groups[0].group_state == "CompletingRebalance"
        await trio.sleep(10.001)
        assert runtime.ask("g", asked).result().groups[0].group_state == "Empty"


async def test_callers_get_an_error_while_the_coordinator_loads_and_without_leadership() -> None:
    log = MemoryLog()
    async with hosting(log) as runtime:
        commit(runtime)
    log.gate = trio.Event()
    async with hosting(log) as runtime:
        assert code_of(fetch(runtime)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        log.gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert offset(fetch(runtime).result()) == 1
    assert code_of(fetch(runtime_of())) == ErrorCode.NOT_COORDINATOR


class Passes(trio.abc.Instrument):
    """An instrument that counts the replayed records in each pass of the event loop."""

    def __init__(self) -> None:
        self.replayed = [0]

    def before_io_wait(self, timeout: float) -> None:
        self.replayed.append(0)


@pytest.mark.parametrize(
    ("framing", "step_max", "replayed_max"), [(ONE_BY_ONE, 10, 10), (IN_RUNS, 9, 1), (IN_RUNS, 10, 2)]
)
async def test_coordinators_that_load_concurrently_take_turns(
    monkeypatch: pytest.MonkeyPatch, framing: Batches, step_max: int, replayed_max: int
) -> None:
    logs = [MemoryLog() for _ in range(3)]
    for log in logs:
        async with hosting(log) as runtime:
            runtime.ask(
                "g",
                ClientRequest(
                    OffsetCommitRequest(
                        "g",
                        topics=[
                            OffsetCommitRequestTopic(
                                "t", partitions=[OffsetCommitRequestPartition(index) for index in range(100)]
                            )
                        ],
                    ),
                    9,
                ),
            ).result()
    passes = Passes()
    monkeypatch.setattr(loader, "LOAD_RECORDS_MAX", step_max)  # The first run of the 100 records has 64.
    replay = GroupMachine.replay

    def noted(machine: GroupMachine, entry: Any) -> None:
        passes.replayed[-1] += 1
        replay(machine, entry)

    monkeypatch.setattr(GroupMachine, "replay", noted)
    trio.lowlevel.add_instrument(passes)
    async with hosting(*logs, framing=framing):
        trio.lowlevel.remove_instrument(passes)
    assert sum(passes.replayed) == 3 * (2 if framing is IN_RUNS else 100)
    assert max(passes.replayed) == replayed_max


class CountingOffLoop(InlineOffLoop):
    """A double of `OffLoop` that counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    async def __call__(self, function: Callable[..., T], *args: object) -> T:
        self.calls += 1
        return await super().__call__(function, *args)


@pytest.mark.parametrize(("codec", "calls"), [(Codec.NONE, 0), (Codec.ZSTD, 2)])
async def test_records_are_decompressed_off_the_event_loop(codec: Codec, calls: int) -> None:
    log, off_loop = MemoryLog(), CountingOffLoop()
    framing = Batches(GROUP_RECORDS, 0, codec)
    async with hosting(log, framing=framing) as runtime:
        commit(runtime, 1)
        commit(runtime, 2, "h")
    async with hosting(log, framing=framing, off_loop=off_loop) as runtime:
        assert (offset(fetch(runtime).result()), offset(fetch(runtime, "h").result())) == (1, 2)
    assert off_loop.calls == calls


async def test_loading_is_retried_after_a_batch_that_cannot_be_decompressed(autojump_clock: object) -> None:
    log = MemoryLog()
    framing = Batches(GROUP_RECORDS, 0, Codec.ZSTD)
    async with hosting(log, framing=framing) as runtime:
        commit(runtime)
    sound = log.stored[0]
    log.stored[0] = sound[:HEADER_BYTES] + bytes(len(sound) - HEADER_BYTES)
    async with hosting(log, framing=framing) as runtime:
        await trio.sleep(10)
        assert code_of(fetch(runtime)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        log.stored[0] = sound
        await trio.sleep(10)
        assert offset(fetch(runtime).result()) == 1


async def test_each_group_has_one_coordinator_and_list_groups_asks_all_coordinators() -> None:
    async with hosting(*(MemoryLog() for _ in range(5))) as runtime:
        for number in range(20):
            commit(runtime, number, f"g{number}")
        listed = [call.result().groups for call in runtime.ask_all(ClientRequest(ListGroupsRequest(), 5))]
        assert sorted(group.group_id for groups in listed for group in groups) == sorted(f"g{n}" for n in range(20))
        assert all(len(groups) < 20 for groups in listed)


async def test_a_marker_applies_the_offsets_that_were_committed_in_its_transaction() -> None:
    log = MemoryLog()
    async with hosting(log) as runtime:
        runtime.ask(
            "g",
            ClientRequest(
                TxnOffsetCommitRequest(
                    "tx", "g", 5, 3, topics=[TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, 9)])]
                ),
                3,
            ),
        ).result()
        (header,) = batches(log.stored[0])
        assert (header.producer_id, header.producer_epoch, header.is_transactional) == (5, 3, True)
    async with hosting(log) as runtime:
        assert fetch(runtime).result().topics == []
        runtime.ask_at(0, Marker(5, 3, commit=True, coordinator_epoch=0)).result()
        (header,) = batches(log.stored[1])
        assert header.is_control
    async with hosting(log) as runtime:
        assert offset(fetch(runtime).result()) == 9


async def test_loading_is_retried_after_the_log_could_not_be_read(autojump_clock: object) -> None:
    log = MemoryLog()
    async with hosting(log) as runtime:
        commit(runtime)
    log.error = ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
    async with hosting(log) as runtime:
        await trio.sleep(10)
        log.error = None
        await trio.sleep(10)
        assert offset(fetch(runtime).result()) == 1


class Faulty(GroupMachine):
    """A group state machine that raises an unexpected error in its timers and for one kind of request."""

    def tick(self, now: Now) -> Any:
        raise ZeroDivisionError

    def handle(self, request: Any, token: Any, now: Now) -> Any:
        if request is None:
            raise ZeroDivisionError
        return super().handle(request, token, now)


async def test_an_unexpected_error_reloads_the_coordinator_only(autojump_clock: object) -> None:
    settings = GroupSettings(group_initial_rebalance_delay_ms=0)
    runtime = Runtime(
        "topic", lambda: Faulty(settings, Random(1)), ONE_BY_ONE, lambda: WALL_MS, INLINE, Turns(lambda: 0)
    )
    async with trio.open_nursery() as nursery:
        runtime.follow(1, {0: MemoryLog()})
        nursery.start_soon(runtime.run)
        await trio.testing.wait_all_tasks_blocked()
        commit(runtime, 5)
        parked = join(runtime)
        with pytest.raises(ApiError):
            await parked.wait()
        assert code_of(parked) == ErrorCode.NOT_COORDINATOR
        await trio.sleep(5)
        assert offset(fetch(runtime).result()) == 5
        with pytest.raises(ZeroDivisionError):
            runtime.ask_at(0, None).result()
        await trio.sleep(5)
        assert offset(fetch(runtime).result()) == 5
        nursery.cancel_scope.cancel()


async def test_the_number_of_waiting_callers_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykbroker.machines.shell.CALLS_MAX", 2)
    log = MemoryLog(held=True)
    async with hosting(log) as runtime:
        waiting = [commit(runtime), commit(runtime)]
        assert code_of(commit(runtime)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        log.commit()
        for call in waiting:
            await call.wait()
        log.held = False
        commit(runtime).result()


async def test_a_fenced_producer_id_fails_only_its_own_request() -> None:
    log = MemoryLog()
    async with hosting(log) as runtime:
        commit(runtime, 4).result()
        log.error = ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)
        assert code_of(commit(runtime, 5)) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert offset(fetch(runtime).result()) == 4


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_FETCH_SIZE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_clients_get_errors_of_a_coordinator_for_errors_of_its_log(refusal: ErrorCode, code: ErrorCode) -> None:
    log = MemoryLog()
    async with hosting(log) as runtime:
        log.error = ApiError(refusal)
        assert code_of(commit(runtime)) == code


async def test_the_writer_of_a_marker_gets_the_error_of_the_log() -> None:
    log = MemoryLog()
    async with hosting(log) as runtime:
        log.error = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
        assert (
            code_of(runtime.ask_at(0, Marker(5, 3, commit=True, coordinator_epoch=0))) == ErrorCode.NOT_ENOUGH_REPLICAS
        )


class Busy:
    """A state machine whose timer is always due. It records the event-loop passes in which it ran."""

    deadline_ms = -inf

    def __init__(self, turns: BusyPasses) -> None:
        self._turns = turns

    def loaded(self, now: Now) -> Outcome[Any, Any]:
        return Outcome()

    def tick(self, now: Now) -> Outcome[Any, Any]:
        self._turns.taken.append(self._turns.passes)
        return Outcome()


class BusyPasses(trio.abc.Instrument):
    """An instrument that records the event-loop passes in which a state machine ran."""

    def __init__(self) -> None:
        self.passes = 0
        self.taken: list[int] = []

    def before_io_wait(self, timeout: float) -> None:
        self.passes += 1


async def test_coordinators_that_are_always_busy_take_turns() -> None:
    turns = BusyPasses()
    runtime = Runtime(
        "__consumer_offsets",
        lambda: Busy(turns),  # type: ignore[arg-type,return-value]
        ONE_BY_ONE,
        lambda: WALL_MS,
        INLINE,
        Turns(lambda: 0),
    )
    trio.lowlevel.add_instrument(turns)
    async with trio.open_nursery() as nursery:
        runtime.follow(20, {index: MemoryLog() for index in range(20)})
        nursery.start_soon(runtime.run)
        while len(turns.taken) < 100:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    trio.lowlevel.remove_instrument(turns)
    assert len(set(turns.taken)) == len(turns.taken)
