"""Random requests while the log fails, loses its leader and recovers: all are answered, and no commit is lost."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

import pytest
import trio
import trio.testing

from pykbroker.coordinator.runtime import Runtime
from pykbroker.core.errors import ApiError
from pykbroker.core.group.requests import ClientRequest, FetchOffsets, ForgetTopics
from pykbroker.machines.call import Call
from pykbroker.world.turns import SHARE_NS, Turns
from tests.unit.coordinator.memory_log import MemoryLog
from tests.unit.coordinator.test_runtime import IN_RUNS, runtime_of
from wire.error_codes import ErrorCode
from wire.messages.delete_groups import DeleteGroupsRequest
from wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from wire.messages.offset_fetch import OffsetFetchRequestGroup

STEPS, MANY = 60, 300
LONGER_THAN_ANY_TIMEOUT_S = 100
FAILURES = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.INVALID_REQUEST)


def ask(runtime: Runtime, dice: Random, offset: int) -> Call:
    group = dice.choice("gh")
    partitions = range(dice.choice((1, 1, 40, MANY)))
    message: Any = dice.choice(
        (
            OffsetCommitRequest(
                group,
                topics=[
                    OffsetCommitRequestTopic(
                        dice.choice("tu"),
                        partitions=[OffsetCommitRequestPartition(index, offset) for index in partitions],
                    )
                ],
            ),
            OffsetDeleteRequest(
                group, [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(index) for index in partitions])]
            ),
            DeleteGroupsRequest([group]),
            JoinGroupRequest(group, 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")]),
            None,
        )
    )
    fetching = FetchOffsets(OffsetFetchRequestGroup(group, topics=None), require_stable=False)
    return runtime.ask(group, ClientRequest(message, 3) if message else fetching)


async def random_requests(runtime: Runtime, log: MemoryLog, dice: Random) -> list[Call]:
    calls = []
    for step in range(STEPS):
        match dice.choices(range(8), (50, 30, 3, 5, 2, 3, 2, 2))[0]:
            case 0:
                calls.append(ask(runtime, dice, step))
            case 1:
                for _ in range(dice.choice((1, 3, 30))):
                    await trio.lowlevel.checkpoint()
            case 2:
                log.error = ApiError(dice.choice(FAILURES))
            case 3:
                log.error = None
            case 4:
                await trio.sleep(dice.choice((1, 3, 20)))
            case 5:
                runtime.notify(ForgetTopics(frozenset("u")))
            case 6:
                log.leader_epoch += 1
                runtime.follow(1, {0: log})
                await trio.testing.wait_all_tasks_blocked()
            case _:
                log.commit()
    return calls


def offsets(runtime: Runtime) -> Any:
    partition: Any = runtime._led[0]
    return partition._shell._machine._shard.offsets._groups


@pytest.mark.parametrize("seed", range(40))
async def test_random_failures_leave_no_caller_waiting_and_a_state_that_matches_the_log(
    seed: int, autojump_clock: object
) -> None:
    dice = Random(seed)
    log = MemoryLog(held=dice.random() < 0.3)
    runtime = runtime_of(framing=IN_RUNS, turns=Turns(count(0, dice.choice((0, SHARE_NS // 3, SHARE_NS + 1))).__next__))
    again = runtime_of()
    async with trio.open_nursery() as nursery:
        runtime.follow(1, {0: log})
        early = [ask(runtime, dice, 0) for _ in range(dice.choice((0, 2)))]
        nursery.start_soon(runtime.run)
        await trio.testing.wait_all_tasks_blocked()
        calls = early + await random_requests(runtime, log, dice)
        log.error, log.held = None, False
        log.commit()
        await trio.sleep(LONGER_THAN_ANY_TIMEOUT_S)
        assert all(call.settled for call in calls)
        again.follow(1, {0: log})
        nursery.start_soon(again.run)
        await trio.testing.wait_all_tasks_blocked()
        assert offsets(runtime) == offsets(again)
        partition: Any = runtime._led[0]
        assert partition._shell._machine.deadline_ms > trio.current_time() * 1000, "every timer that was due has run"
        nursery.cancel_scope.cancel()
