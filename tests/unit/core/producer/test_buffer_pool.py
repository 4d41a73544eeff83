"""The producer's memory: the line is served in order, nobody is forgotten, and every byte comes back."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pykbroker.core.producer.buffer_pool import BufferPool, MemoryTicket
from pykbroker.core.producer.errors import ProducerClosed, RecordTooLarge

BYTES_MAX = 100


def ignore() -> None:
    """Do nothing when a ticket is served."""


def test_bytes_are_taken_while_they_are_free() -> None:
    pool = BufferPool(BYTES_MAX)
    assert pool.try_take(60)
    assert not pool.try_take(41)
    assert pool.try_take(40)
    assert pool.available_bytes == 0


def test_nobody_overtakes_the_line() -> None:
    pool, served = BufferPool(BYTES_MAX), []
    assert pool.try_take(50)
    pool.stand_in_line(MemoryTicket(80, lambda: served.append("large")))
    pool.stand_in_line(MemoryTicket(10, lambda: served.append("small")))
    assert not pool.try_take(1)
    assert (served, pool.waiting) == ([], 2)
    pool.give_back(30)
    assert (served, pool.waiting) == (["large"], 1)
    pool.give_back(20)
    assert served == ["large", "small"]


def test_a_request_of_all_memory_is_granted_and_one_byte_more_is_refused() -> None:
    pool = BufferPool(BYTES_MAX)
    assert pool.try_take(BYTES_MAX)
    with pytest.raises(RecordTooLarge, match=r"101 bytes are more than buffer.memory, which is 100"):
        pool.try_take(BYTES_MAX + 1)
    with pytest.raises(RecordTooLarge):
        pool.stand_in_line(MemoryTicket(BYTES_MAX + 1, ignore))


def test_a_caller_that_leaves_the_line_passes_its_bytes_on() -> None:
    pool, served = BufferPool(BYTES_MAX), []
    assert pool.try_take(50)
    first = pool.stand_in_line(MemoryTicket(80, lambda: served.append("first")))
    pool.stand_in_line(MemoryTicket(40, lambda: served.append("second")))
    assert first.got == 50
    pool.leave_line(first)
    assert (served, pool.available_bytes) == (["second"], 10)


def test_a_served_ticket_that_is_not_used_returns_its_bytes() -> None:
    pool = BufferPool(BYTES_MAX)
    ticket = pool.stand_in_line(MemoryTicket(30, ignore))
    assert ticket.is_served
    pool.leave_line(ticket)
    assert pool.available_bytes == BYTES_MAX


def test_a_caller_that_leaves_the_line_twice_returns_its_bytes_once() -> None:
    pool = BufferPool(100)
    ticket = pool.stand_in_line(MemoryTicket(60, ignore))
    pool.leave_line(ticket)
    pool.leave_line(ticket)
    assert pool.available_bytes == 100


def test_closing_ends_every_wait_and_refuses_further_requests() -> None:
    pool, woken = BufferPool(BYTES_MAX), []
    assert pool.try_take(50)
    tickets = [pool.stand_in_line(MemoryTicket(size, lambda: woken.append(1))) for size in (70, 60)]
    pool.close()
    assert [(ticket.is_closed, ticket.is_served) for ticket in tickets] == [(True, False)] * 2
    assert (len(woken), pool.available_bytes) == (2, 50)
    for refused in (lambda: pool.try_take(1), lambda: pool.stand_in_line(MemoryTicket(1, ignore))):
        with pytest.raises(ProducerClosed):
            refused()
    pool.leave_line(tickets[0])
    pool.give_back(50)
    assert pool.available_bytes == BYTES_MAX


class PoolLife(RuleBasedStateMachine):
    """Any order of taking, waiting, leaving and returning: FIFO, no forgotten waiter, and bytes conserved."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BufferPool(BYTES_MAX)
        self.held: list[int] = []
        self.line: deque[MemoryTicket] = deque()
        self.calls = 0

    @rule(size=st.integers(1, BYTES_MAX))
    def take_or_wait(self, size: int) -> None:
        if self.pool.try_take(size):
            assert not self.line
            self.held.append(size)
        else:
            self.line.append(self.pool.stand_in_line(MemoryTicket(size, self.served)))
            self.collect()

    def served(self) -> None:
        self.calls += 1

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def return_bytes(self, data: st.DataObject) -> None:
        self.pool.give_back(self.held.pop(data.draw(st.integers(0, len(self.held) - 1))))
        self.collect()

    @precondition(lambda self: self.line)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        ticket = self.line[data.draw(st.integers(0, len(self.line) - 1))]
        self.line.remove(ticket)
        self.pool.leave_line(ticket)
        self.collect()

    def collect(self) -> None:
        """Move the served tickets, which must be the first of the line, to what is held."""
        while self.line and self.line[0].is_served:
            self.held.append(self.line.popleft().size)
            self.calls -= 1
        assert self.calls == 0
        assert not any(ticket.is_served for ticket in self.line)

    @invariant()
    def conserves_bytes(self) -> None:
        waiting = sum(ticket.got for ticket in self.line)
        assert self.pool.available_bytes + waiting + sum(self.held) == BYTES_MAX
        assert self.pool.waiting == len(self.line)

    @invariant()
    def serves_whoever_can_be_served(self) -> None:
        assert not (self.line and self.pool.available_bytes)


TestPoolLife = PoolLife.TestCase
