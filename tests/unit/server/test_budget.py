"""Tests of the budget for request bytes and held requests: connections above it wait, but none waits for ever.

A held request is one during which its connection starts no further request.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest
import trio

from pykbroker.server.budget import Budget
from pykbroker.server.handler import Later
from pykbroker.server.large_frame import GROWTH_BYTES, LARGE_FRAME_BYTES
from pykbroker.server.slot import SLOTS_MAX
from tests.unit.server.rig import ECHO, Api, NoTasks, Rig, Ticks, correlation_ids, heartbeat, padded, shared
from wire.api import ApiKey
from wire.frame import encode_request
from wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse

MIB = 1 << 20
LARGE = 3 * MIB


def rigs(count: int, of: Any) -> list[Rig]:
    return [Rig(None, of=of) for _ in range(count)]


def test_the_budget_is_exhausted_at_its_limit_and_not_below() -> None:
    budget = Budget(bytes_max=100, requests_max=1)
    one, other = rigs(2, shared(NoTasks()))
    budget.charge(one.connection, 60)
    budget.charge(other.connection, 39)
    assert (budget.bytes, budget.is_spent) == (99, False)
    budget.charge(other.connection, 40)
    assert budget.is_spent
    budget.charge(one.connection, 10)
    assert (budget.bytes, budget.is_spent, budget.holders) == (50, False, {one.connection: 10, other.connection: 40})
    budget.leave(one.connection)
    budget.charge(one.connection, 0)
    budget.charge(other.connection, 0)
    assert (budget.bytes, budget.holders) == (0, {})


def test_an_idle_connection_is_not_charged_to_the_budget() -> None:
    rig = Rig(NoTasks(), ECHO)
    whole = padded(1, 100_000)
    rig.feed(heartbeat(0) + whole[:50_000])
    assert rig.budget.bytes >= 50_000
    rig.feed(whole[50_000:] + heartbeat(2)[:9])
    assert rig.budget.bytes == 9
    rig.feed(heartbeat(2)[9:])
    assert (rig.budget.bytes, rig.budget.holders) == (0, {})
    rig.feed(heartbeat(3)[:9])
    rig.close()
    assert (rig.budget.bytes, rig.budget.holders) == (0, {})


def test_large_frames_are_read_one_after_another_while_the_budget_is_exhausted() -> None:
    of = shared(NoTasks(), ECHO, bytes_max=MIB, request_bytes_max=LARGE)
    one, two, three = all_three = rigs(3, of)
    frames = [padded(number, LARGE - 100) for number in range(3)]
    fed = [rig.feed(frame[:100_000]) for rig, frame in zip(all_three, frames, strict=True)]
    assert of.budget.is_spent
    while any(given < len(frame) for given, frame in zip(fed, frames, strict=True)):
        before = list(fed)
        for i, rig in enumerate(all_three):
            fed[i] += rig.feed(frames[i][fed[i] : fed[i] + 70_000])
        assert fed != before, "at least one connection must make progress"
        assert of.budget.bytes <= MIB + LARGE + 2 * GROWTH_BYTES
    assert [correlation_ids(rig.replies()) for rig in (one, two, three)] == [[0], [1], [2]]
    assert (of.budget.bytes, of.budget.holders) == (0, {})


def test_when_a_connection_closes_the_next_one_may_read() -> None:
    of = shared(NoTasks(), ECHO, bytes_max=1, request_bytes_max=LARGE)
    first, favoured, third = all_three = rigs(3, of)
    frame = padded(1, 200_000)
    for rig in all_three:
        rig.feed(frame[:50_000])
    assert [rig.connection.wants_input for rig in all_three] == [True, True, False]
    first.close()
    assert not third.connection.wants_input
    favoured.close()
    assert third.connection.wants_input is third.connection.wants_turn is True
    third.feed(b"")
    third.feed(frame[50_000:])
    assert correlation_ids(third.replies()) == [1]


def test_small_requests_are_served_while_the_budget_is_exhausted() -> None:
    of = shared(NoTasks(), ECHO, bytes_max=1)
    one, two = rigs(2, of)
    one.feed(padded(1, 100_000)[:50_000])
    assert of.budget.is_spent
    two.feed(b"".join(map(heartbeat, range(5))))
    assert correlation_ids(two.replies()) == [0, 1, 2, 3, 4]


def test_unsent_replies_are_charged_to_the_budget() -> None:
    rig = Rig(NoTasks(), ECHO)
    rig.connection.unsent(1000, 70)
    assert rig.budget.bytes == 70
    rig.feed(heartbeat(1)[:5])
    assert rig.budget.bytes == 75
    rig.connection.unsent(0, 0)
    rig.close()
    assert rig.budget.bytes == 0


class Holding:
    """A ListOffsets handler whose requests hold their connection until the test opens their gate."""

    def __init__(self) -> None:
        self.gates: list[trio.Event] = []
        self.api = Api(ApiKey.LIST_OFFSETS, "1-11", lambda context, request: Later(self.hold(), holds_connection=True))

    async def hold(self) -> ListOffsetsResponse:
        self.gates.append(trio.Event())
        await self.gates[-1].wait()
        return ListOffsetsResponse()


def list_offsets(number: int) -> bytes:
    return encode_request(ListOffsetsRequest(), 11, number, "me")


@pytest.mark.parametrize("requests_max", [1, 3])
async def test_no_request_starts_while_the_maximum_number_of_requests_is_held(requests_max: int) -> None:
    holding = Holding()
    async with trio.open_nursery() as nursery:
        of = shared(nursery, ECHO, holding.api, requests_max=requests_max)
        *holders, last = rigs(requests_max + 1, of)
        for rig in holders[1:]:
            rig.feed(list_offsets(7))
        last.feed(heartbeat(1))
        assert correlation_ids(last.replies()) == [1]
        holders[0].feed(list_offsets(7))
        await trio.testing.wait_all_tasks_blocked()
        assert (of.budget.requests, of.budget.is_full) == (requests_max, True)
        last.feed(heartbeat(2) + heartbeat(3))
        assert correlation_ids(last.replies()) == [1]
        assert not last.connection.wants_input
        for count, gate in enumerate(holding.gates[: (requests_max + 1) // 2]):
            assert not last.connection.wants_turn, f"{count} held requests have ended"
            gate.set()
            await trio.testing.wait_all_tasks_blocked()
        assert last.connection.wants_turn
        last.feed(b"")
        assert correlation_ids(last.replies()) == [1, 2, 3]
        for gate in holding.gates:
            gate.set()
    assert (of.budget.requests, of.budget.bytes, of.budget.holders) == (0, 0, {})


async def test_a_complete_large_frame_also_waits_for_held_requests() -> None:
    holding = Holding()
    async with trio.open_nursery() as nursery:
        of = shared(nursery, ECHO, holding.api, requests_max=1)
        holder, large = rigs(2, of)
        frame = padded(5, 100_000)
        large.feed(frame[:60_000])
        holder.feed(list_offsets(1))
        await trio.testing.wait_all_tasks_blocked()
        large.feed(frame[60_000:])
        assert large.replies() == []
        assert of.budget.bytes > 100_000
        holding.gates[0].set()
        await trio.testing.wait_all_tasks_blocked()
        large.feed(b"")
    assert correlation_ids(large.replies()) == [5]
    assert of.budget.bytes == 0


async def test_a_held_request_is_charged_until_it_ends_even_if_its_client_disconnects() -> None:
    holding = Holding()
    async with trio.open_nursery() as nursery:
        of = shared(nursery, ECHO, holding.api)
        stays, leaves = rigs(2, of)
        size, rest = len(list_offsets(1)) - 4, len(heartbeat(2))
        for rig in (stays, leaves):
            rig.feed(list_offsets(1) + heartbeat(2))
        await trio.testing.wait_all_tasks_blocked()
        assert of.budget.bytes == 2 * (size + rest)
        leaves.close()
        assert (of.budget.bytes, of.budget.requests) == (2 * size + rest, 2)
        for gate in holding.gates:
            gate.set()
    stays.feed(b"")
    assert correlation_ids(stays.replies()) == [1, 2]
    assert (of.budget.bytes, of.budget.requests, of.budget.holders) == (0, 0, {})


def test_a_claimed_frame_size_allocates_no_memory() -> None:
    of = shared(NoTasks(), ECHO, request_bytes_max=100 * MIB)
    for rig in rigs(1000, of):
        rig.feed(struct.pack(">i", 100 * MIB) + bytes(100))
    assert of.budget.bytes == 104_000


async def test_a_connection_with_too_many_waiting_requests_does_not_block_others() -> None:
    async def park() -> Any:
        await trio.sleep_forever()

    parking = Api(ApiKey.LIST_OFFSETS, "1-11", lambda context, request: park())
    async with trio.open_nursery() as nursery:
        of = shared(nursery, ECHO, parking, bytes_max=1000, request_bytes_max=LARGE)
        crowded, other = rigs(2, of)
        crowded.feed(b"".join(list_offsets(number) for number in range(SLOTS_MAX)) + padded(1, 200_000)[:50_000])
        assert of.budget.is_spent
        other.feed(padded(2, 200_000))
        assert correlation_ids(other.replies()) == [2]
        nursery.cancel_scope.cancel()


def test_a_large_frame_starts_with_a_smaller_buffer_if_memory_is_scarce() -> None:
    of = shared(NoTasks(), ECHO, bytes_max=4 * MIB, request_bytes_max=100 * MIB)
    one, other = rigs(2, of)
    claim = struct.pack(">i", 50 * MIB) + bytes(LARGE_FRAME_BYTES)
    one.feed(claim)
    plenty = of.budget.bytes
    of.budget.charge(one.connection, 3 * MIB)
    other.feed(claim)
    assert (plenty, of.budget.bytes - 3 * MIB) == (MIB // 2, MIB // 16)


def test_a_connection_makes_progress_when_its_peer_takes_bytes_and_not_when_replies_are_queued() -> None:
    """`moved_at` determines which connections are idle, so queueing a reply that the peer does not take must not change
    it.
    """
    ticks = Ticks(step=0)
    connection = Rig(NoTasks(), ECHO, ticks=ticks).connection
    moves = []
    for ticks.now, size in enumerate((100, 100, 99, 99, 150, 149, 0, 0), 1):
        connection.unsent(size, size)
        moves.append(connection.moved_at == ticks.now)
    assert moves == [False, False, True, False, False, True, True, True]


async def test_waiting_connections_continue_where_they_stopped_once_the_budget_has_space() -> None:
    """An incomplete frame gets a buffer and a complete frame is handled; other connections are not called."""
    holding = Holding()
    async with trio.open_nursery() as nursery:
        of = shared(nursery, ECHO, holding.api, requests_max=1)
        holder, waiting, growing, idle = rigs(4, of)
        growing.feed(padded(5, 190_000)[:100_000])
        holder.feed(list_offsets(1))
        await trio.testing.wait_all_tasks_blocked()
        waiting.feed(heartbeat(2))
        flushes = [rig.flushes for rig in (holder, waiting, growing, idle)]
        assert not waiting.connection.wants_input
        holding.gates[0].set()
        await trio.testing.wait_all_tasks_blocked()
        assert (waiting.connection.wants_input, waiting.connection.wants_turn) == (True, True)
        assert waiting.flushes == flushes[1] + 1, "the pump is asked to handle the complete frame"
        assert [rig.connection.wants_turn for rig in (growing, idle)] == [False, False]
        waiting.feed(b"")
        assert correlation_ids(waiting.replies()) == [2]


def test_a_connection_waiting_inside_a_large_frame_gets_a_buffer_once_the_budget_has_space() -> None:
    of = shared(NoTasks(), ECHO, bytes_max=MIB, request_bytes_max=LARGE)
    first, second = rigs(2, of)
    whole = padded(1, LARGE - 100)
    first.feed(whole[: 2 * MIB])
    assert of.budget.is_spent
    large = padded(2, LARGE - 100)
    taken = second.feed(large)
    assert taken < len(large)
    assert (second.connection.wants_input, second.connection.room) == (False, None)
    flushes = second.flushes
    first.feed(whole[2 * MIB :])
    assert (second.connection.wants_input, second.flushes) == (True, flushes + 1)
    assert second.connection.wants_turn is (second.connection.room is None), (
        "a connection that got a buffer waits for bytes only"
    )
    second.feed(large[taken:])
    assert correlation_ids(second.replies()) == [2]


def test_a_connection_that_got_a_buffer_for_its_frame_waits_for_bytes_only() -> None:
    """The budget is exhausted after the connection has filled the first buffer of a large frame."""
    of = shared(NoTasks(), ECHO, bytes_max=4 * MIB, request_bytes_max=LARGE)
    one, other = rigs(2, of)
    frame = padded(1, LARGE - 100)
    one.feed(frame[:100_000])
    of.budget.charge(other.connection, 4 * MIB)
    assert of.budget.may_grow(other.connection), "the other connection may read beyond the budget"
    taken = 100_000 + one.feed(frame[100_000:])
    assert (taken < len(frame), one.connection.room, one.connection.wants_input) == (True, None, False)
    flushes = one.flushes
    of.budget.charge(other.connection, 0)
    assert one.connection.room is not None
    assert (one.connection.wants_turn, one.flushes) == (False, flushes + 1)
    one.feed(frame[taken:])
    assert correlation_ids(one.replies()) == [1]


async def test_a_connection_that_gets_budget_while_its_request_is_held_continues_after_the_request() -> None:
    holding = Holding()
    async with trio.open_nursery() as nursery:
        rig = Rig(nursery, ECHO, holding.api)
        rig.feed(list_offsets(1) + heartbeat(2))
        await trio.testing.wait_all_tasks_blocked()
        rig.connection.relieved()
        assert (rig.connection.wants_input, rig.connection.wants_turn) == (False, False)
        holding.gates[0].set()
        await trio.testing.wait_all_tasks_blocked()
        rig.feed(b"")
        assert correlation_ids(rig.replies()) == [1, 2]


STAGES = "own node", "other node", "own node", "no hold"


async def test_a_request_that_waits_for_another_node_holds_its_connection_only() -> None:
    """The work of a request goes on in stages, and only those that do not wait for another node count."""
    gates = {stage: trio.Event() for stage in range(4)}

    async def work(stage: int) -> Any:
        await gates[stage].wait()
        return ListOffsetsResponse() if stage == len(STAGES) - 1 else later(stage + 1)

    def later(stage: int) -> Later:
        where = STAGES[stage]
        return Later(work(stage), holds_connection=where != "no hold", awaits_node=where == "other node")

    api = Api(ApiKey.LIST_OFFSETS, "1-11", lambda context, request: later(0))
    async with trio.open_nursery() as nursery:
        of = shared(nursery, ECHO, api, requests_max=1)
        holder, other = rigs(2, of)
        holder.feed(list_offsets(7) + heartbeat(8))
        seen = []
        for gate in gates.values():
            await trio.testing.wait_all_tasks_blocked()
            seen.append((of.budget.requests, of.budget.is_full, holder.connection.wants_input))
            gate.set()
    assert seen == [(1, True, False), (0, False, False), (1, True, False), (0, False, True)]
    assert other.connection.wants_input
    holder.feed(b"")
    assert correlation_ids(holder.replies()) == [7, 8]
    assert of.budget.requests == 0


async def test_connections_whose_requests_wait_for_another_node_are_not_limited_to_the_maximum() -> None:
    gate = trio.Event()

    async def wait() -> ListOffsetsResponse:
        await gate.wait()
        return ListOffsetsResponse()

    api = Api(
        ApiKey.LIST_OFFSETS, "1-11", lambda context, request: Later(wait(), holds_connection=True, awaits_node=True)
    )
    async with trio.open_nursery() as nursery:
        of = shared(nursery, ECHO, api, requests_max=2)
        *waiting, last = rigs(5, of)
        for rig in waiting:
            rig.feed(list_offsets(7))
        last.feed(heartbeat(1))
        assert correlation_ids(last.replies()) == [1]
        assert of.budget.bytes == len(waiting) * (len(list_offsets(7)) - 4)
        gate.set()
    assert [correlation_ids(rig.replies()) for rig in waiting] == [[7]] * 4
    assert (of.budget.requests, of.budget.bytes) == (0, 0)
