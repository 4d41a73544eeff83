"""Tests of requests that take long: they run in several time slices of the event loop, and so does
response encoding.
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import pairwise
from typing import Any

import pytest
import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.steps import each
from pykbroker.server.handler import EncodedResponse, Later
from pykbroker.server.large_frame import LARGE_FRAME_BYTES
from pykbroker.world.turns import SHARE_NS, STEPS_A_LOOK, Turns, Unfinished, advance
from tests.unit.apis.calling import context
from tests.unit.server.rig import ECHO, Api, NoTasks, Rig, Ticks, correlation_ids, heartbeat, padded
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.frame import decode_response, encode_request
from wire.messages.heartbeat import HeartbeatResponse
from wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)

MANY = 10 * STEPS_A_LOOK
ASKING = 8
PARTITIONS = 3000
ASKED = encode_request(ListOffsetsRequest(), 7, 50, "me")
LONG = ListOffsetsResponse(
    topics=[
        ListOffsetsTopicResponse(f"t{at}", [ListOffsetsPartitionResponse(index) for index in range(at % 3)])
        for at in range(100)
    ]
)


def slow_ticks() -> Ticks:
    """Return a clock that makes every time slice appear used up."""
    return Ticks(SHARE_NS + 1)


def stepping(steps: int, answer: Any, turns: list[int] | None = None) -> Api:
    def call(context: Any, request: Any) -> Generator[None, None, Any]:
        for step in range(steps):
            if turns is not None:
                turns.append(step)
            yield
        if isinstance(answer, Exception):
            raise answer
        return answer

    return Api(ApiKey.LIST_OFFSETS, "1-11", call)


def answered(frame: bytes) -> ListOffsetsResponse:
    return decode_response(ListOffsetsResponse, 7, frame)[1]


@pytest.mark.parametrize("steps", [0, 1, STEPS_A_LOOK, MANY])
def test_steps_that_end_within_the_first_time_slice_are_answered_at_once(steps: int) -> None:
    rig = Rig(NoTasks(), stepping(steps, LONG), ECHO)
    rig.feed(ASKED + heartbeat(2))
    frames = rig.replies()
    assert correlation_ids(frames) == [50, 2]
    assert answered(frames[0]) == LONG


async def test_other_tasks_run_between_the_time_slices_of_longer_steps() -> None:
    turns: list[int] = []
    others: list[int] = []
    done = trio.Event()

    async def other_task() -> None:
        while not done.is_set():
            others.append(len(turns))
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        rig = Rig(nursery, stepping(MANY, LONG, turns), ECHO, ticks=slow_ticks())
        rig.feed(ASKED + heartbeat(2))
        assert (len(turns), rig.replies()) == (STEPS_A_LOOK, [])
        nursery.start_soon(other_task)
        while not rig.replies():
            await trio.lowlevel.checkpoint()
        done.set()
    seen = [STEPS_A_LOOK, *others, MANY]
    assert max(later - sooner for sooner, later in pairwise(seen)) <= 2 * STEPS_A_LOOK  # Tasks run in any order.
    assert others.count(MANY) > 3, "the response is encoded in time slices as well"
    assert answered(rig.replies()[0]) == LONG
    rig.feed(heartbeat(3))
    assert correlation_ids(rig.replies()) == [50, 2, 3]


async def test_all_requests_with_steps_share_one_time_slice_per_pass() -> None:
    turns: list[int] = []
    others: list[int] = []

    async def other_task() -> None:
        while len(turns) < ASKING * MANY:
            others.append(len(turns))
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        rigs = [Rig(nursery, stepping(MANY, LONG, turns), ticks=slow_ticks())]
        rigs += [Rig(nursery, of=rigs[0].shared) for _ in range(ASKING - 1)]
        for rig in rigs:
            rig.feed(ASKED)
        nursery.start_soon(other_task)
    assert max(later - sooner for sooner, later in pairwise(others)) <= 2 * STEPS_A_LOOK
    assert [answered(rig.replies()[0]) for rig in rigs] == [LONG] * ASKING


async def test_a_later_request_waits_for_the_steps_of_an_earlier_one() -> None:
    started: list[int] = []

    def note(context: Any, request: Any) -> HeartbeatResponse:
        started.append(request.generation_id)
        return HeartbeatResponse()

    async with trio.open_nursery() as nursery:
        rig = Rig(nursery, stepping(MANY, LONG), Api(ApiKey.HEARTBEAT, "0-4", note), ticks=slow_ticks())
        rig.feed(ASKED + heartbeat(2))
        assert (started, rig.connection.wants_input) == ([], False)
    rig.feed(b"")
    assert (started, correlation_ids(rig.replies())) == ([2], [50, 2])


@pytest.mark.parametrize("steps", [0, MANY])
async def test_an_error_in_a_step_gets_an_error_response(steps: int) -> None:
    async with trio.open_nursery() as nursery:
        rig = Rig(nursery, stepping(steps, ApiError(ErrorCode.INVALID_REQUEST)), ticks=slow_ticks())
        rig.feed(
            encode_request(ListOffsetsRequest(topics=[ListOffsetsTopic("a", [ListOffsetsPartition()])]), 7, 50, "me")
        )
    assert answered(rig.replies()[0]).topics[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("steps", [0, MANY])
async def test_steps_may_return_a_coroutine_and_a_coroutine_may_return_steps(steps: int) -> None:
    async def wait() -> Any:
        await trio.lowlevel.checkpoint()
        return stepping(MANY, LONG)(context(7), None)

    async with trio.open_nursery() as nursery:
        rig = Rig(nursery, stepping(steps, Later(wait(), holds_connection=False)), ticks=slow_ticks())
        rig.feed(ASKED)
    assert answered(rig.replies()[0]) == LONG


async def test_the_steps_of_a_closed_connection_are_cancelled_without_a_reply() -> None:
    async with trio.open_nursery() as nursery:
        rig = Rig(nursery, stepping(MANY, LONG), ticks=slow_ticks())
        rig.feed(ASKED)
        rig.close()
    assert (rig.replies(), rig.budget.bytes, rig.budget.requests) == ([], 0, 0)


def test_an_encoded_response_is_sent_unchanged() -> None:
    rig = Rig(NoTasks(), stepping(1, EncodedResponse([b"\0\0\0\7", b"\0\0", b"\0\0\0\0"])))
    rig.feed(encode_request(ListOffsetsRequest(), 5, 50, "me"))
    assert rig.replies()[0][4:] == b"\0\0\0\7\0\0\0\0\0\0"


@pytest.mark.parametrize(("size", "slowly"), [(LARGE_FRAME_BYTES - 10, False), (LARGE_FRAME_BYTES + 10, True)])
def test_a_large_request_is_passed_to_handle_large(size: int, *, slowly: bool) -> None:
    asked: list[bool] = []

    def at_once(context: Any, request: Any) -> HeartbeatResponse:
        asked.append(False)
        return HeartbeatResponse()

    def slow(context: Any, request: Any) -> HeartbeatResponse:
        asked.append(True)
        return HeartbeatResponse()

    api = Api(ApiKey.HEARTBEAT, "0-4", at_once)
    api.handle_large = slow  # type: ignore[method-assign]
    rig = Rig(NoTasks(), api)
    rig.feed(padded(1, size))
    assert (asked, correlation_ids(rig.replies())) == ([slowly], [1])


def asking_much(timestamp: int = 0) -> tuple[ListOffsetsRequest, bytes]:
    """Return a request that is large enough for a buffer of its own, and its frame."""
    partitions = [ListOffsetsPartition(index, -1, timestamp) for index in range(PARTITIONS)]
    request = ListOffsetsRequest(topics=[ListOffsetsTopic("t", partitions)])
    frame = encode_request(request, 7, 50, "me")
    assert len(frame) > LARGE_FRAME_BYTES
    return request, frame


@pytest.mark.parametrize("ready", [True, False])
async def test_a_large_request_is_decoded_in_several_time_slices(*, ready: bool) -> None:
    asked: list[Any] = []
    others: list[int] = []

    async def wait() -> ListOffsetsResponse:
        await trio.lowlevel.checkpoint()
        return LONG

    def note(context: Any, request: Any) -> Any:
        asked.append(request)
        return LONG if ready else Later(wait(), holds_connection=True)

    async def other_task() -> None:
        while len(asked) < 2:
            others.append(len(asked))
            await trio.lowlevel.checkpoint()

    (first, frame), (second, other) = asking_much(), asking_much(-1)
    async with trio.open_nursery() as nursery:
        rig = Rig(nursery, Api(ApiKey.LIST_OFFSETS, "1-11", note), ECHO, ticks=slow_ticks())
        rigs = [rig, Rig(nursery, of=rig.shared)]
        nursery.start_soon(other_task)
        for each_rig, data in zip(rigs, (frame, other), strict=True):
            # The frame is split so that it gets a buffer of its own.
            for at in range(0, len(data), LARGE_FRAME_BYTES + 10):
                each_rig.feed(data[at : at + LARGE_FRAME_BYTES + 10])
        assert (asked, rig.connection.wants_input) == ([], False)
        while len(asked) < 2 or not all(each_rig.replies() for each_rig in rigs):
            await trio.lowlevel.checkpoint()
    assert all(request in asked for request in (first, second))
    assert others.count(0) > PARTITIONS // STEPS_A_LOOK
    for each_rig in rigs:
        each_rig.feed(heartbeat(3))
        assert correlation_ids(each_rig.replies()) == [50, 3]
    assert (answered(rig.replies()[0]), rig.budget.bytes, rig.budget.requests) == (LONG, 0, 0)


async def test_a_large_request_with_an_error_at_its_end_closes_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    _, frame = asking_much()
    async with trio.open_nursery() as nursery:
        rig = Rig(nursery, stepping(0, LONG), ticks=slow_ticks())
        rig.feed(frame[:-10] + b"\x7f" * 10)
        assert not rig.connection.ended
    assert (rig.replies(), rig.closes, rig.budget.requests, rig.budget.bytes) == ([], 1, 0, 0)
    assert "ListOffsetsRequest v7" in caplog.text


async def test_each_step_calls_the_function_once() -> None:
    steps = each(str, range(MANY))
    assert isinstance(advance(steps, slow_ticks()), Unfinished)
    assert await Turns(slow_ticks()).walk(steps) == [str(number) for number in range(MANY)]
