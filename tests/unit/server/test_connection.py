"""Tests of a connection without a socket: frames split anywhere, the order of replies, and errors of the peer."""

from __future__ import annotations

import gc
import struct
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import pytest
import trio

from pykbroker.core.errors import ApiError
from pykbroker.server.connection import OUT_PARTS_MAX, TURN_NS_MAX
from pykbroker.server.frame_pool import FramePool
from pykbroker.server.handler import CloseConnection, Handler, Later, RequestContext
from pykbroker.server.large_frame import LARGE_FRAME_BYTES
from pykbroker.server.slot import SLOTS_MAX
from tests.unit.server.rig import (
    ECHO,
    REQUEST_BYTES_MAX,
    Api,
    NoTasks,
    Rig,
    Ticks,
    correlation_ids,
    echo,
    heartbeat,
    padded,
    shared,
)
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.frame import decode_response, encode_request
from wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wire.messages.fetch import FetchRequest, FetchResponse
from wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse


@pytest.mark.parametrize("version", [0, 1, 4])
def test_a_response_has_the_version_of_its_request(version: int) -> None:
    rig = Rig(NoTasks(), ECHO)
    rig.feed(heartbeat(7, version))
    (frame,) = rig.replies()
    correlation_id, response = decode_response(HeartbeatResponse, version, frame)
    assert (correlation_id, response.throttle_time_ms) == (7, 7 if version else 0)


def test_a_connection_is_watched_for_silence_once_it_is_that_of_a_node() -> None:
    def from_node(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        context.from_node = request.generation_id > 0
        return HeartbeatResponse()

    rig = Rig(NoTasks(), Api(ApiKey.HEARTBEAT, "0-4", from_node))
    watches = []
    for number in (0, 1, 2, 0):
        rig.feed(heartbeat(number))
        watches.append(rig.watches)
    assert watches == [0, 1, 1, 1]


def test_frames_may_be_split_anywhere() -> None:
    stream = b"".join(heartbeat(number) for number in range(5))
    for cut in range(len(stream)):
        rig = Rig(NoTasks(), ECHO)
        rig.feed(stream[:cut])
        rig.feed(stream[cut:])
        assert correlation_ids(rig.replies()) == [0, 1, 2, 3, 4]
    rig = Rig(NoTasks(), ECHO)
    for byte in stream:
        rig.feed(bytes((byte,)))
    assert correlation_ids(rig.replies()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("size", [LARGE_FRAME_BYTES - 100, LARGE_FRAME_BYTES + 100, REQUEST_BYTES_MAX - 100])
def test_large_frames_arrive_whole(size: int) -> None:
    groups: list[str] = []

    def note(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        groups.append(request.group_id)
        return echo(context, request)

    rig = Rig(NoTasks(), Api(ApiKey.HEARTBEAT, "0-4", note))
    names = ["a" * 100, *("xyz"[i] * min(size, 32_000) for i in range(3)), "b"]
    rig.feed(b"".join(padded(i, size, group=name) for i, name in enumerate(names)))
    assert correlation_ids(rig.replies()) == list(range(len(names)))
    assert groups == names


@pytest.mark.parametrize("size", [-1, 0, 9, REQUEST_BYTES_MAX + 1, 2**31 - 1, -(2**31)])
def test_a_frame_size_out_of_range_closes_the_connection_at_once(size: int, caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(NoTasks(), ECHO)
    rig.feed(heartbeat(1) + struct.pack(">i", size))
    assert rig.connection.ended
    assert rig.connection.room is None
    assert correlation_ids(rig.replies()) == [1]
    (line,) = caplog.messages
    assert "10.0.0.7:50000" in line
    assert f"{size} bytes" in line


def test_a_request_of_exactly_the_maximum_size_is_accepted() -> None:
    rig = Rig(NoTasks(), ECHO)
    rig.feed(struct.pack(">i", REQUEST_BYTES_MAX))
    rig.feed(bytes(100))
    assert not rig.connection.ended


@pytest.mark.parametrize(
    ("size", "fits"), [(REQUEST_BYTES_MAX - 1, True), (REQUEST_BYTES_MAX, True), (REQUEST_BYTES_MAX + 1, False)]
)
def test_a_request_above_the_maximum_size_closes_the_connection(size: int, *, fits: bool) -> None:
    frame = padded(7, size + 4 - 10)
    frame = padded(7, 2 * (size + 4) - len(frame) - 10)
    assert len(frame) == size + 4
    rig = Rig(NoTasks(), ECHO)
    rig.feed(frame)
    assert (correlation_ids(rig.replies()) == [7], rig.connection.ended) == (fits, not fits)


@pytest.mark.parametrize("ticks", [Ticks(TURN_NS_MAX + 1), Ticks()])
def test_a_pass_of_the_event_loop_may_end_before_a_large_frame(ticks: Ticks) -> None:
    count = 3 * OUT_PARTS_MAX if ticks.step < TURN_NS_MAX else 3
    rig = Rig(NoTasks(), ECHO, ticks=ticks)
    rig.feed(b"".join(map(heartbeat, range(count))) + padded(count, 100_000) + heartbeat(count + 1))
    assert correlation_ids(rig.replies()) == list(range(count + 2))
    assert (rig.budget.bytes, rig.connection.room) == (0, None)


def test_memory_depends_on_received_bytes_and_not_on_the_claimed_size() -> None:
    rig = Rig(NoTasks(), ECHO, request_bytes_max=100 << 20)
    rig.feed(struct.pack(">i", 100 << 20) + bytes(LARGE_FRAME_BYTES - 4))
    assert (rig.connection.room, rig.budget.bytes) == (None, LARGE_FRAME_BYTES)
    rig.feed(bytes(30_000))
    assert rig.budget.bytes <= 1 << 20
    rig.feed(bytes(5 << 20))
    assert rig.budget.bytes <= 7 << 20


def test_the_buffers_of_large_frames_are_reused() -> None:
    taken: list[bytearray] = []

    class Noting(FramePool):
        def take(self, size: int) -> bytearray:
            taken.append(super().take(size))
            return taken[-1]

    of = shared(NoTasks(), ECHO)
    of.pool = Noting()
    rig = Rig(NoTasks(), of=of)
    for number in range(4):
        rig.feed(padded(number, REQUEST_BYTES_MAX - 100))
    assert len(taken) == 4
    assert len({id(buffer) for buffer in taken}) == 1


def test_a_refused_api_version_frees_its_memory() -> None:
    rig = Rig(NoTasks(), Api(ApiKey.API_VERSIONS, "0-4", lambda context, request: ApiVersionsResponse()))
    for version in range(5, 50):
        body = struct.pack(">hhih", ApiKey.API_VERSIONS, version, 5, -1)
        rig.feed(struct.pack(">i", len(body)) + body)
    assert len(rig.replies()) == 45
    assert len(rig.table) == 0


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (struct.pack(">hhih", 4711, 0, 1, 0), "4711"),
        (struct.pack(">hhih", ApiKey.HEARTBEAT, 5, 1, 0), "version 5 is not supported"),
        (struct.pack(">hhih", ApiKey.HEARTBEAT, -1, 1, 0), "is not supported"),
        (struct.pack(">hhih", ApiKey.HEARTBEAT, 4, 1, 500), "client id"),
        (struct.pack(">hhih", ApiKey.HEARTBEAT, 4, 1, -2), "client id"),
        (struct.pack(">hhih", ApiKey.HEARTBEAT, 4, 1, 10_923) + b"\xff" * 10_923, "longer than a string"),
        (struct.pack(">hhih", ApiKey.HEARTBEAT, 4, 1, 0), "header"),
        (struct.pack(">hhih", ApiKey.HEARTBEAT, 4, 1, 0) + b"\0\x7f", ""),
    ],
)
def test_bytes_that_are_not_a_request_close_the_connection_with_one_log_line(
    frame: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig(NoTasks(), ECHO)
    rig.feed(struct.pack(">i", len(frame)) + frame + heartbeat(2))
    assert rig.connection.ended
    assert rig.replies() == []
    (line,) = caplog.messages
    assert line.startswith("closing the connection of 10.0.0.7:50000: ")
    assert reason in line


def test_the_errors_of_a_host_are_one_log_line_for_each_cause(caplog: pytest.LogCaptureFixture) -> None:
    def close(context: RequestContext, request: Any) -> Any:
        raise CloseConnection("acks=0 failed")

    house = shared(NoTasks(), Api(ApiKey.HEARTBEAT, "0-4", close))
    rubbish = struct.pack(">i", 8) + b"rubbish!"
    for data in (rubbish, rubbish, heartbeat(1), heartbeat(1), rubbish):
        rig = Rig(NoTasks(), of=house)
        rig.feed(data)
        assert rig.connection.ended
    unreadable, closed = caplog.messages
    assert unreadable.startswith("closing the connection of 10.0.0.7:50000: ")
    assert closed == "closing the connection of 10.0.0.7:50000: acks=0 failed"


def test_an_unsupported_api_versions_version_is_answered_in_version_0_with_the_supported_range() -> None:
    rig = Rig(NoTasks(), Api(ApiKey.API_VERSIONS, "0-4", lambda context, request: ApiVersionsResponse()))
    body = struct.pack(">hhih", ApiKey.API_VERSIONS, 99, 5, 2) + b"me" + b"\0garbage of the future"
    rig.feed(struct.pack(">i", len(body)) + body)
    (frame,) = rig.replies()
    correlation_id, response = decode_response(ApiVersionsResponse, 0, frame)
    assert (correlation_id, response.error_code) == (5, ErrorCode.UNSUPPORTED_VERSION)
    assert [(api.api_key, api.min_version, api.max_version) for api in response.api_keys] == [(18, 0, 4)]


def test_the_api_versions_response_header_has_no_tagged_fields() -> None:
    rig = Rig(NoTasks(), Api(ApiKey.API_VERSIONS, "0-4", lambda context, request: ApiVersionsResponse(error_code=42)))
    rig.feed(encode_request(ApiVersionsRequest(), 3, 1, None))
    assert rig.replies()[0][:6] == struct.pack(">ih", 1, 42)


def test_the_request_context_has_the_client_id() -> None:
    seen: list[str | None] = []
    rig = Rig(NoTasks(), Api(ApiKey.HEARTBEAT, "0-4", lambda context, request: seen.append(context.client_id)))
    for name in ("one", "one", None, "two", ""):
        rig.feed(encode_request(HeartbeatRequest(), 4, 1, name))
    assert seen == ["one", "one", None, "two", ""]
    assert rig.replies() == []


@pytest.mark.parametrize("raw", ["müller".encode("latin-1"), b"\xff" * 10_922])
def test_a_client_id_that_is_not_utf_8_is_decoded_as_in_java(raw: bytes) -> None:
    seen: list[str | None] = []
    rig = Rig(NoTasks(), Api(ApiKey.HEARTBEAT, "0-4", lambda context, request: seen.append(context.client_id)))
    frame = encode_request(HeartbeatRequest(), 4, 1, "?" * len(raw)).replace(b"?" * len(raw), raw)
    rig.feed(frame + frame)
    assert seen == [raw.decode(errors="replace")] * 2


@pytest.mark.parametrize("new_error", [partial(ApiError, ErrorCode.GROUP_ID_NOT_FOUND), CloseConnection])
@pytest.mark.parametrize("waits", [False, True])
async def test_a_request_that_fails_is_freed_at_once(waits: bool, new_error: Callable[[], Exception]) -> None:
    class Held:
        """An object that only the frames of the handler refer to."""

    held: list[weakref.ref[Held]] = []

    def fail(context: RequestContext, request: HeartbeatRequest) -> Any:
        if waits:
            return fail_later()
        mine = Held()
        held.append(weakref.ref(mine))
        raise new_error()

    async def fail_later() -> Any:
        mine = Held()
        held.append(weakref.ref(mine))
        await trio.lowlevel.checkpoint()
        raise new_error()

    gc.disable()
    try:
        async with trio.open_nursery() as nursery:
            rig = Rig(nursery, Api(ApiKey.HEARTBEAT, "0-4", fail))
            rig.feed(heartbeat(0))
        assert held[0]() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (ApiError(ErrorCode.GROUP_ID_NOT_FOUND), ErrorCode.GROUP_ID_NOT_FOUND),
        (KeyError("bug"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_a_failed_request_gets_an_error_response(raised: Exception, code: ErrorCode) -> None:
    def fail(context: RequestContext, request: HeartbeatRequest) -> Any:
        if request.generation_id:
            return fail_later()
        raise raised

    async def fail_later() -> Any:
        await trio.lowlevel.checkpoint()
        raise raised

    async with trio.open_nursery() as nursery:
        rig = Rig(nursery, Api(ApiKey.HEARTBEAT, "0-4", fail))
        rig.feed(heartbeat(0) + heartbeat(1))
    codes = [decode_response(HeartbeatResponse, 4, frame)[1].error_code for frame in rig.replies()]
    assert codes == [code, code]


def test_a_handler_may_close_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    def close(context: RequestContext, request: Any) -> Any:
        raise CloseConnection("acks=0 failed")

    rig = Rig(NoTasks(), Api(ApiKey.HEARTBEAT, "0-4", close))
    rig.feed(heartbeat(1) + heartbeat(2))
    assert rig.connection.ended
    assert caplog.messages == ["closing the connection of 10.0.0.7:50000: acks=0 failed"]


class Gates:
    """A Heartbeat handler that answers even generations at once. An odd generation waits until its gate opens."""

    def __init__(self) -> None:
        self.gates = [trio.Event() for _ in range(8)]
        self.started: list[int] = []
        self.api = Api(ApiKey.HEARTBEAT, "0-4", self.call)

    def call(self, context: RequestContext, request: HeartbeatRequest) -> Any:
        self.started.append(request.generation_id)
        return self.wait(context, request) if request.generation_id % 2 else echo(context, request)

    async def wait(self, context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        await self.gates[request.generation_id].wait()
        return echo(context, request)


async def test_replies_leave_in_request_order() -> None:
    gates = Gates()
    async with trio.open_nursery() as nursery:
        rig = Rig(nursery, gates.api)
        rig.feed(b"".join(heartbeat(number) for number in range(6)))
        assert gates.started == [0, 1, 2, 3, 4, 5]
        assert correlation_ids(rig.replies()) == [0]
        gates.gates[3].set()
        await trio.testing.wait_all_tasks_blocked()
        assert correlation_ids(rig.replies()) == [0]
        gates.gates[1].set()
        await trio.testing.wait_all_tasks_blocked()
        assert correlation_ids(rig.replies()) == [0, 1, 2, 3, 4]
        gates.gates[5].set()
    assert correlation_ids(rig.replies()) == [0, 1, 2, 3, 4, 5]
    assert rig.flushes == 3


async def test_no_later_request_starts_while_a_request_holds_its_connection() -> None:
    gates = Gates()
    held = Api(ApiKey.LIST_OFFSETS, "1-11", lambda context, request: Later(hold(), holds_connection=True))

    async def hold() -> ListOffsetsResponse:
        await gates.gates[0].wait()
        return ListOffsetsResponse()

    async with trio.open_nursery() as nursery:
        rig = Rig(nursery, gates.api, held)
        rig.feed(heartbeat(0) + encode_request(ListOffsetsRequest(), 11, 50, "me") + heartbeat(2) + heartbeat(4)[:6])
        assert not rig.connection.wants_input
        assert gates.started == [0]
        gates.gates[0].set()
        await trio.testing.wait_all_tasks_blocked()
        assert rig.connection.wants_input
        rig.feed(heartbeat(4)[6:])
    assert gates.started == [0, 2, 4]
    assert correlation_ids(rig.replies()) == [0, 50, 2, 4]


async def test_later_requests_start_once_a_request_no_longer_holds_its_connection() -> None:
    gates, held, last = Gates(), trio.Event(), trio.Event()

    async def wait() -> ListOffsetsResponse:
        await last.wait()
        return ListOffsetsResponse()

    async def hold() -> Any:
        await held.wait()
        return Later(wait(), holds_connection=False)

    async with trio.open_nursery() as nursery:
        rig = Rig(
            nursery,
            gates.api,
            Api(ApiKey.LIST_OFFSETS, "1-11", lambda context, request: Later(hold(), holds_connection=True)),
        )
        rig.feed(encode_request(ListOffsetsRequest(), 11, 50, "me") + heartbeat(2))
        await trio.testing.wait_all_tasks_blocked()
        assert not rig.connection.wants_input
        flushes = rig.flushes
        held.set()
        await trio.testing.wait_all_tasks_blocked()
        assert rig.connection.wants_input
        assert rig.connection.wants_turn
        assert rig.flushes > flushes
        rig.connection.resume()
        await trio.testing.wait_all_tasks_blocked()
        assert (gates.started, rig.replies()) == ([2], [])
        last.set()
    assert correlation_ids(rig.replies()) == [50, 2]


async def test_the_number_of_waiting_requests_of_a_connection_is_limited() -> None:
    gates = Gates()
    async with trio.open_nursery() as nursery:
        rig = Rig(nursery, gates.api)
        rig.feed(b"".join(heartbeat(1) for _ in range(SLOTS_MAX - 1)))
        assert rig.connection.wants_input
        rig.feed(heartbeat(1) + heartbeat(1) + heartbeat(1))
        assert not rig.connection.wants_input
        assert len(gates.started) == SLOTS_MAX
        gates.gates[1].set()
        await trio.testing.wait_all_tasks_blocked()
        assert len(rig.replies()) == SLOTS_MAX
        rig.connection.out.clear()
        assert rig.connection.wants_turn
        rig.connection.resume()
    assert len(rig.replies()) == 2


async def test_queued_replies_are_limited_and_charged_to_the_budget() -> None:
    gates = Gates()
    async with trio.open_nursery() as nursery:
        rig = Rig(nursery, gates.api)
        rig.feed(heartbeat(1))
        rig.feed(b"".join(heartbeat(2) for _ in range(SLOTS_MAX - 2)))
        assert rig.connection.wants_input
        rig.feed(heartbeat(2) + heartbeat(2))
        assert not rig.connection.wants_input
        reply = len(heartbeat(1)) - 4 + (SLOTS_MAX - 1) * 16 + len(heartbeat(2))
        assert (len(rig.connection.replies), rig.budget.bytes) == (SLOTS_MAX, reply)
        gates.gates[1].set()
        await trio.testing.wait_all_tasks_blocked()
        assert len(rig.replies()) == SLOTS_MAX
        rig.connection.resume()
    assert (len(rig.replies()), rig.budget.bytes) == (SLOTS_MAX + 1, 0)


class Parking(Handler):
    """A Fetch handler that waits until the connection asks it to hurry, as a fetch below min_bytes does."""

    key: ClassVar = ApiKey.FETCH
    versions: ClassVar[str] = "4-18"

    def __call__(self, context: RequestContext, request: FetchRequest) -> Any:
        hurried = trio.Event()
        context.hurry = hurried.set
        return Later(self.wait(hurried), holds_connection=False)

    async def wait(self, hurried: trio.Event) -> FetchResponse:
        await hurried.wait()
        return FetchResponse()


def fetch(number: int) -> bytes:
    return encode_request(FetchRequest(), 12, number, "me")


async def test_a_waiting_fetch_is_answered_when_a_request_of_another_api_arrives() -> None:
    async with trio.open_nursery() as nursery:
        rig = Rig(nursery, Parking(), ECHO)
        rig.feed(fetch(1) + fetch(2))
        await trio.testing.wait_all_tasks_blocked()
        assert rig.replies() == []
        rig.feed(heartbeat(3))
    assert correlation_ids(rig.replies()) == [1, 2, 3]


async def test_a_waiting_fetch_is_cancelled_when_its_connection_closes() -> None:
    async with trio.open_nursery() as nursery:
        rig = Rig(nursery, Parking())
        rig.feed(fetch(1))
        await trio.testing.wait_all_tasks_blocked()
        rig.close()
    assert rig.closes == 2
    assert rig.replies() == []


async def test_a_client_that_sends_nothing_more_gets_all_its_replies() -> None:
    gates = Gates()
    async with trio.open_nursery() as nursery:
        rig = Rig(nursery, gates.api)
        connection = rig.connection
        rig.feed(heartbeat(1) + heartbeat(3) + padded(4, 50_000)[:-1])
        await trio.testing.wait_all_tasks_blocked()
        assert connection.room is not None
        connection.filled(0)
        assert not connection.incomplete_bytes
        for number in (3, 1):
            assert (connection.wants_input, connection.ended) == (False, False)
            gates.gates[number].set()
            await trio.testing.wait_all_tasks_blocked()
    assert correlation_ids(rig.replies()) == [1, 3]
    assert connection.wants_input
    assert rig.budget.bytes == 0
    connection.received(b"")
    assert connection.ended


def test_requests_are_counted_and_timed() -> None:
    rig = Rig(NoTasks(), ECHO)
    rig.feed(heartbeat(1) + heartbeat(2) + heartbeat(3, version=1))
    route = rig.table[ApiKey.HEARTBEAT << 16 | 4]
    assert (route.local_ns, route.remote_ns, route.errors, route.histogram[0]) == (2000, 0, 0, 2)
    assert (route.bytes_in, route.bytes_out) == (2 * (len(heartbeat(1)) - 4), sum(map(len, rig.replies()[:2])))
    assert sum(rig.table[ApiKey.HEARTBEAT << 16 | 1].histogram) == 1
