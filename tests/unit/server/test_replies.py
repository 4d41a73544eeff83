"""Tests of the queue of replies, which leave in the order of their requests."""

from __future__ import annotations

import itertools

import pytest

from pykbroker.server.handler import NO_RESPONSE, RequestContext
from pykbroker.server.replies import ReplyQueue
from pykbroker.server.slot import SLOTS_MAX, Slot
from pykbroker.server.table import Route
from tests.unit.server.rig import ECHO, SESSION
from wire.api import ApiKey
from wire.messages.heartbeat import HeartbeatResponse


def slot(number: int) -> Slot:
    return Slot(Route(ApiKey.HEARTBEAT, 0, ECHO), number, RequestContext(0, "me", SESSION), None, 0, 100)


def sent(replies: ReplyQueue) -> list[int]:
    """Return the correlation ids of the replies in `out`."""
    return [int.from_bytes(bytes(part)[4:8], "big") for part in replies.out]  # type: ignore[arg-type]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_replies_leave_in_request_order_regardless_of_which_is_ready_first(order: tuple[int, ...]) -> None:
    replies, slots = ReplyQueue(0), [slot(number) for number in range(3)]
    replies.slots += slots
    for count, number in enumerate(order, 1):
        replies.answer(slots[number], HeartbeatResponse(), 0)
        ready = set(order[:count])
        assert sent(replies) == list(itertools.takewhile(ready.__contains__, range(3)))
    assert len(replies) == 0


def test_a_request_without_a_response_delays_no_other_reply() -> None:
    replies, (first, second) = ReplyQueue(0), (slot(1), slot(2))
    replies.slots += [first, second]
    replies.answer(second, HeartbeatResponse(), 0)
    replies.answer(first, NO_RESPONSE, 0)
    assert (sent(replies), len(replies)) == ([2], 0)


def test_the_memory_of_requests_replies_and_unsent_bytes_is_counted() -> None:
    replies, (first, second) = ReplyQueue(0), (slot(1), slot(2))
    replies.slots += [first, second]
    assert replies.kept_bytes == 200
    replies.answer(second, HeartbeatResponse(), 0)
    reply = sum(map(len, second.parts))
    assert replies.kept_bytes == 100 + reply
    replies.unsent(5000, 50, 0)
    assert (replies.unsent_bytes, replies.kept_bytes) == (5000, 150 + reply)
    replies.clear()
    assert (replies.unsent_bytes, replies.out, replies.kept_bytes) == (0, [], 100 + reply)


def test_the_time_of_a_slow_client_is_measured_from_its_first_unsent_byte_to_its_last() -> None:
    replies = ReplyQueue(0)
    assert [replies.unsent(*args) for args in ((100, 100, 10), (40, 40, 20), (0, 0, 35), (0, 0, 50))] == [0, 0, 25, 0]


def test_a_queue_with_the_maximum_of_slots_is_full() -> None:
    replies = ReplyQueue(0)
    replies.slots += [slot(number) for number in range(SLOTS_MAX - 1)]
    assert not replies.is_full
    replies.slots.append(slot(SLOTS_MAX))
    assert replies.is_full


def test_hurrying_calls_the_callback_of_each_request_that_has_one() -> None:
    replies, (first, second), hurried = ReplyQueue(0), (slot(1), slot(2)), list[int]()
    replies.slots += [first, second]
    second.context.hurry = lambda: hurried.append(2)
    replies.hurry()
    assert hurried == [2]
