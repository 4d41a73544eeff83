"""Transactions under any schedule of losses, refusals, expiries and late requests: atomic, and without reuse."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykbroker.core.producer.errors import TransactionError
from pykbroker.core.producer.transactions.state import ManagerState
from pykbroker.core.sequence_numbers import SEQUENCE_MASK
from pykbroker.core.topic_partition import TopicPartition
from tests.unit.core.producer.transactions.transactional_setup import (
    MEMORY_BYTES,
    ORDERS,
    PAYMENTS,
    CopierMember,
    InputOffset,
    TransactionalSetup,
    refusal,
)
from wire.declare import Buffer
from wire.error_codes import ErrorCode
from wire.records.batch import Batch
from wire.records.record import records

STEPS = {
    "begin": 12,
    "append ORDERS 1": 6,
    "append ORDERS 90": 8,
    "append PAYMENTS 1": 4,
    "send_offsets": 1,
    "commit": 3,
    "abort": 2,
    "send": 6,
    "request": 6,
    "handle_call": 8,
    "refuse_call NOT_COORDINATOR": 1,
    "refuse_call CONCURRENT_TRANSACTIONS": 1,
    "lose_call unhandled": 1,
    "lose_call handled": 1,
    "handle_produce": 8,
    "refuse_produce NOT_LEADER_OR_FOLLOWER": 1,
    "refuse_produce REQUEST_TIMED_OUT": 1,
    "refuse_produce INVALID_TIMESTAMP": 1,
    "refuse_produce MESSAGE_TOO_LARGE": 1,
    "answer_produce": 8,
    "disconnect": 1,
    "handle_late": 1,
    "step": 4,
    "finish": 3,
    "write_markers": 4,
    "wait 100": 3,
    "wait 600": 1,
}
"""The steps of a schedule, each with its weight. A step that is not possible does nothing."""
SCHEDULES = st.lists(st.sampled_from([step for step, weight in STEPS.items() for _ in range(weight)]), max_size=200)


class AnySchedule:
    """A producer with its application. A committed transaction is in the logs once, whole and in order, and alone."""

    def __init__(self, version: int) -> None:
        self.setup = TransactionalSetup(version)
        self.adds = version >= 2
        self.records: dict[TopicPartition, list[bytes]] = {ORDERS: [], PAYMENTS: []}
        """The records of the open transaction."""
        self.committed: dict[TopicPartition, list[bytes]] = {ORDERS: [], PAYMENTS: []}
        self.number = 0
        self.numbered: dict[tuple[int, int, TopicPartition, int], Buffer | None] = {}
        """The records that were sent, by producer id, epoch, partition and sequence number."""
        self.setup.manager.init()
        self.finish()

    @property
    def state(self) -> ManagerState:
        return self.setup.manager.state

    def perform(self, step: str) -> None:
        """Perform one step."""
        name, *words = step.split()
        getattr(self, name)(*words)

    # ---- the application

    def begin(self) -> None:
        if self.state is ManagerState.READY:
            self.settle()
            self.setup.manager.begin()

    def append(self, topic: str, size: str) -> None:
        if self.setup.manager.is_open:
            partition = ORDERS if topic == "ORDERS" else PAYMENTS
            value = b"%06d" % self.number + b"x" * int(size)
            self.number += 1
            self.setup.append(partition, value)
            self.records[partition].append(value)

    def send_offsets(self) -> None:
        if self.setup.manager.is_open:
            self.setup.manager.send_offsets({ORDERS: InputOffset(self.number)}, CopierMember())

    def commit(self) -> None:
        if self.setup.manager.is_open:
            self.setup.manager.commit()

    def abort(self) -> None:
        self.settle()
        if self.setup.manager.is_open or self.state is ManagerState.ABORTABLE_ERROR:
            self.setup.manager.abort()

    def settle(self) -> None:
        """Note the result of the last call of the application, once it is known."""
        pending = self.setup.manager._status.pending
        if pending is None or not pending.is_done or pending.is_acknowledged:
            return
        if pending.call.value == "commit_transaction" and pending.error is None:
            for partition, values in self.records.items():
                self.committed[partition] += values
        if pending.error is None:
            self.records = {ORDERS: [], PAYMENTS: []}
        try:
            pending.acknowledge()
        except TransactionError as error:
            assert not error.is_fatal, error

    # ---- the owner and the network

    def send(self) -> None:
        self.setup.send()
        self.check_numbers()

    def check_numbers(self) -> None:
        """Check that each sequence number of an epoch was sent with the same record, each time."""
        for partition, data in self.setup.sent:
            batch = Batch.read(data)
            for index, record in enumerate(records(batch, 1 << 20)):
                sequence = (batch.base_sequence + index) & SEQUENCE_MASK
                number = (batch.producer_id, batch.producer_epoch, partition, sequence)
                assert self.numbered.setdefault(number, record.value) == record.value, "a sequence number is used twice"
        self.setup.sent.clear()

    def request(self) -> None:
        if self.setup.call is None:
            self.setup.next_call()

    def handle_call(self) -> None:
        if self.setup.call is not None:
            self.setup.handle_call()

    def refuse_call(self, code: str) -> None:
        if self.setup.call is not None:
            call = self.setup.take_call()
            self.setup.manager.requests.received(call, refusal(call.request(), ErrorCode[code]), self.setup.now_ms)

    def lose_call(self, outcome: str) -> None:
        if self.setup.call is not None:
            call = self.setup.take_call()
            if outcome == "handled":
                self.setup.coordinator.answer(call.request(), self.adds)
            self.setup.manager.requests.disconnected(call, self.setup.now_ms)

    def handle_produce(self) -> None:
        if self.setup.unhandled:
            self.setup.handle_produce()

    def refuse_produce(self, code: str) -> None:
        if self.setup.unhandled:
            self.setup.handle_produce(ErrorCode[code])

    def answer_produce(self) -> None:
        if self.setup.unanswered:
            self.setup.answer_produce()

    def disconnect(self) -> None:
        self.setup.disconnect()

    def handle_late(self) -> None:
        if self.setup.late:
            self.setup.handle_late()

    def write_markers(self) -> None:
        self.setup.coordinator.write_markers()

    def wait(self, ms: str) -> None:
        self.setup.now_ms += int(ms)

    def step(self) -> None:
        """Let everything happen once, without a fault."""
        self.setup.step()
        self.check_numbers()

    def finish(self) -> None:
        """Let everything happen, without a further fault."""
        self.setup.finish()
        self.check_numbers()
        self.settle()

    def check(self) -> None:
        """End the transaction, commit another one, and check the logs."""
        self.finish()
        if self.setup.manager.has_transaction:
            self.setup.manager.abort()
            self.finish()
        for step in ("begin", "append ORDERS 1", "append PAYMENTS 1", "send_offsets", "commit", "finish"):
            self.perform(step)
        assert self.setup.manager._status.pending.error is None, "no fault happens any more"
        while self.setup.late:
            self.handle_late()
        self.write_markers()
        assert self.state is ManagerState.READY
        for partition, values in self.committed.items():
            log = self.setup.logs[partition]
            assert log.committed == values
            assert not any(log.open.values()), "a transaction never ends"
        assert self.setup.accumulator.pool.available_bytes == MEMORY_BYTES


@pytest.mark.parametrize("version", [1, 2])
@settings(max_examples=150, deadline=None)
@given(schedule=SCHEDULES)
def test_transactions_are_atomic_and_no_sequence_number_is_used_twice(version: int, schedule: list[str]) -> None:
    producer = AnySchedule(version)
    for step in schedule:
        producer.perform(step)
    producer.check()
