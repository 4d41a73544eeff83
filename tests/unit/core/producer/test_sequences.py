"""Sequence numbers: no record is written twice or reordered, whatever is lost, refused or expires."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from pykbroker.core.errors import ApiError
from pykbroker.core.producer.batch import BatchState, ProducerBatch
from pykbroker.core.producer.sequences import IN_FLIGHT_BATCHES_MAX, ProducerIdentity, Sequences
from pykbroker.core.producer_epoch import EPOCH_MAX
from pykbroker.core.topic_partition import TopicPartition
from tests.unit.core.producer.idempotent_setup import A, B, IdempotentSetup
from wire.error_codes import ErrorCode


def sent_batches(setup: IdempotentSetup, count: int) -> list[ProducerBatch]:
    """Send so many full batches to partition A, one in each request. Return them."""
    found = []
    for _ in range(count):
        setup.append(A, size=90)
        setup.send()
        found.append(setup.sent[A][-1][1])
    return found


def known(setup: IdempotentSetup) -> IdempotentSetup:
    """Let the producer act as if a broker had acknowledged an earlier batch of partition A. Return the setup."""
    partition = setup.sequences._of(A)
    partition.identity, partition.is_known = ProducerIdentity(7, setup.first_epoch), True
    return setup


def begun(setup: IdempotentSetup) -> IdempotentSetup:
    """Send a first batch to partition A. Its log knows the producer from then on. Return the setup."""
    sent_batches(setup, 1)
    setup.finish()
    return setup


def states(batches: list[ProducerBatch]) -> list[tuple[int, int]]:
    """Return epoch and base sequence of each batch."""
    return [(batch.state.epoch, batch.state.base_sequence) for batch in batches]


def test_batches_are_numbered_in_the_order_in_which_they_are_sent() -> None:
    setup = known(IdempotentSetup())
    assert states(sent_batches(setup, 3)) == [(0, 0), (0, 1), (0, 2)]
    setup.append(B)
    setup.send()
    assert setup.sent[B][0][1].state == BatchState(7, 0, 0)


def test_the_first_batch_of_a_partition_is_alone_in_flight() -> None:
    setup = IdempotentSetup()
    for _ in range(2):
        setup.append(A, size=90)
        setup.send()
    assert len(setup.unhandled) == 1
    setup.handle()
    setup.answer()
    for _ in range(2):
        setup.append(A, size=90)
        setup.send()
    assert len(setup.unhandled) == 2


def test_nothing_is_sent_without_a_producer_id() -> None:
    sequences = Sequences()
    assert sequences.needs_identity
    assert not sequences.may_drain(ProducerBatch(A, 100, 100, 0))
    sequences.set_identity(ProducerIdentity(5, 0))
    assert not sequences.needs_identity
    assert sequences.may_drain(ProducerBatch(A, 100, 100, 0))


def test_sequence_numbers_wrap() -> None:
    setup = known(IdempotentSetup())
    sent_batches(setup, 1)
    partition = setup.sequences._of(A)
    setup.handle()
    setup.answer()
    partition.next, partition.last_written = 0x7FFF_FFFF, 0x7FFF_FFFE
    log = setup.logs[A].producers.get(7)
    assert log is not None
    setup.logs[A].forget_producers()
    assert [sequence for _, sequence in states(sent_batches(setup, 2))] == [0x7FFF_FFFF, 0]
    setup.finish()
    assert partition.last_written == 0
    setup.check()


def test_while_a_batch_is_sent_again_later_batches_wait() -> None:
    setup = known(IdempotentSetup())
    first, second = sent_batches(setup, 2)
    setup.disconnect()
    setup.append(A, size=90)
    setup.send()
    assert [list(call.batches.values()) for call, _ in setup.unhandled] == [[first]]
    setup.handle()
    setup.answer()
    setup.send()
    assert [list(call.batches.values()) for call, _ in setup.unhandled] == [[second]]
    setup.finish()
    assert states([first, second]) == [(0, 0), (0, 1)]
    setup.check()
    setup.check_order()


def test_a_lost_answer_does_not_write_a_record_twice() -> None:
    setup = known(IdempotentSetup())
    (batch,) = sent_batches(setup, 1)
    setup.handle()
    setup.disconnect()
    setup.finish()
    assert batch.result_of(0).offset == 0
    setup.check()


def test_no_record_is_written_twice_if_a_new_leader_answers_before_the_old_one() -> None:
    """The old leader has written five batches, and the new leader has them. Their answers are lost."""
    setup = known(IdempotentSetup())
    sent_batches(setup, IN_FLIGHT_BATCHES_MAX)
    for _ in range(IN_FLIGHT_BATCHES_MAX):
        setup.handle()
    late = [call for call, _ in setup.unanswered]
    setup.unanswered.clear()
    for _ in range(IN_FLIGHT_BATCHES_MAX):
        setup.append(A, size=90)
        setup.send()
    assert not setup.unhandled
    for call in late:
        setup.sender.failed(call, ErrorCode.NETWORK_EXCEPTION, "gone", setup.now_ms)
    setup.finish()
    assert setup.sequences.identity.epoch == 0
    setup.check()
    setup.check_order()


def test_a_batch_out_of_order_behind_another_one_is_sent_again_in_the_same_epoch() -> None:
    setup = known(IdempotentSetup())
    first, second = sent_batches(setup, 2)
    setup.handle(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    setup.handle(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    setup.answer()
    setup.answer()
    setup.finish()
    assert states([first, second]) == [(0, 0), (0, 1)]
    setup.check()
    setup.check_order()


def test_a_gap_bumps_the_epoch_and_numbers_the_batches_from_zero() -> None:
    setup = known(IdempotentSetup())
    first, second, third = sent_batches(setup, 3)
    setup.handle()
    setup.answer()
    for _ in range(2):
        setup.handle(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    setup.answer()
    setup.send()
    assert setup.sequences.identity.epoch == 0, "a batch of the partition is still on its way"
    setup.answer()
    setup.finish()
    assert states([first, second, third]) == [(0, 0), (1, 0), (1, 1)]
    setup.check()
    setup.check_order()


def test_a_partition_without_a_gap_keeps_its_epoch_until_its_batches_are_done() -> None:
    setup = known(IdempotentSetup())
    sent_batches(setup, 1)
    setup.append(B)
    setup.send()
    other = setup.sent[B][0][1]
    setup.handle(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    setup.handle(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    setup.answer()
    setup.answer()
    setup.send()
    assert (setup.sequences.identity.epoch, other.state.epoch) == (1, 0)
    setup.finish()
    setup.append(B)
    setup.send()
    assert setup.sent[B][1][1].state == BatchState(7, 1, 0)
    setup.finish()
    setup.check()


@pytest.mark.parametrize(("log_start_offset", "epoch"), [(0, 1), (-1, 0)])
def test_an_unknown_producer_id_bumps_the_epoch_if_the_broker_knows_its_log(log_start_offset: int, epoch: int) -> None:
    setup = known(IdempotentSetup())
    (batch,) = sent_batches(setup, 1)
    setup.handle(ErrorCode.UNKNOWN_PRODUCER_ID)
    setup.unanswered[0][1].responses[0].partition_responses[0].log_start_offset = log_start_offset
    setup.answer()
    setup.send()
    assert batch.state.epoch == epoch
    setup.finish()
    setup.check()


def test_a_batch_that_is_refused_for_good_leaves_no_gap() -> None:
    setup = known(IdempotentSetup())
    sent_batches(setup, 3)
    setup.handle(ErrorCode.INVALID_TIMESTAMP)
    setup.answer()
    setup.finish()
    assert setup.logs[A].values == [value for value, _, _ in setup.sent[A][1:]]
    setup.check()
    setup.check_order()


def test_new_batches_wait_until_it_is_known_whether_an_expired_one_was_written() -> None:
    setup = known(IdempotentSetup(delivery_timeout_ms=100))
    sent_batches(setup, 1)
    setup.now_ms = 100
    setup.append(A, size=90)
    setup.send()
    assert len(setup.unhandled) == 1, "only the expired batch was sent"
    setup.handle()
    setup.answer()
    setup.finish()
    assert setup.sequences.identity.epoch == 0
    assert len(setup.logs[A].values) == 2
    setup.check()


def test_an_expired_batch_that_was_not_written_bumps_the_epoch() -> None:
    setup = known(IdempotentSetup(delivery_timeout_ms=100))
    sent_batches(setup, 1)
    setup.now_ms = 100
    setup.append(A, size=90)
    setup.send()
    setup.disconnect()
    setup.finish()
    assert setup.sequences.identity.epoch == 1
    assert setup.logs[A].values == [setup.sent[A][1][0]]


def test_a_batch_that_may_be_written_keeps_its_number_when_an_earlier_one_expires_with_its_answer() -> None:
    """Both are written. Their answers are lost in the pass of the loop in which the first one expires."""
    setup = known(IdempotentSetup(delivery_timeout_ms=100))
    sent_batches(setup, 1)
    setup.now_ms = 50
    (second,) = sent_batches(setup, 1)
    setup.now_ms = 100
    setup.lose_answers()
    setup.finish()
    assert second.result_of(0).offset == 1
    assert setup.sequences.identity.epoch == 0
    setup.check()


def test_a_bump_waits_until_batches_that_may_be_written_are_answered_under_their_numbers() -> None:
    """The first batch is refused for good, and the connection is lost while the second one is on its way."""
    setup = begun(IdempotentSetup())
    _, second = sent_batches(setup, 2)
    setup.handle(ErrorCode.INVALID_TIMESTAMP)
    setup.answer()
    setup.disconnect()
    setup.append(A, size=90)
    setup.send()
    assert states([second]) == [(0, 2)]
    assert [list(call.batches.values()) for call, _ in setup.unhandled] == [[second]]
    setup.finish()
    assert states([second]) == [(1, 0)]
    setup.check()
    setup.check_order()


@pytest.mark.parametrize("retries", [0, 1])
def test_a_batch_that_fails_after_the_last_retry_leaves_no_gap(retries: int) -> None:
    setup = begun(IdempotentSetup(retries=retries))
    sent_batches(setup, 2)
    for _ in range(retries + 1):
        setup.handle(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        setup.answer()
        setup.disconnect()
        setup.send()
    setup.finish()
    (last,) = sent_batches(setup, 1)
    setup.finish()
    assert last.result_of(0).offset >= 0
    setup.check()


def test_a_batch_that_fails_for_good_out_of_order_bumps_the_epoch() -> None:
    """Without retries, the first batch may have been written when its answer is lost, and the second one is behind."""
    setup = begun(IdempotentSetup(retries=0))
    first, _ = sent_batches(setup, 2)
    setup.handle(ErrorCode.REQUEST_TIMED_OUT)
    setup.answer()
    setup.handle()
    setup.answer()
    assert first.outcome is not None
    (last,) = sent_batches(setup, 1)
    setup.finish()
    assert last.result_of(0).offset == 1
    assert setup.sequences.identity.epoch == 1


def test_a_batch_that_a_leader_has_appended_before_it_lost_its_leadership_keeps_its_number() -> None:
    """The first batch expires as it is refused with NOT_LEADER_OR_FOLLOWER. Both are in the log."""
    setup = begun(IdempotentSetup(delivery_timeout_ms=100))
    sent_batches(setup, 1)
    setup.now_ms = 50
    (second,) = sent_batches(setup, 1)
    setup.now_ms = 100
    for _ in range(2):
        setup.handle()
    refused = [(call, ErrorCode.NOT_LEADER_OR_FOLLOWER) for call, _ in setup.unanswered]
    setup.unanswered.clear()
    for call, code in refused:
        setup.sender.failed(call, code, "", setup.now_ms)
    setup.finish()
    assert second.result_of(0).offset == 2
    setup.check()


def test_a_partition_that_waits_does_not_keep_others_from_another_epoch() -> None:
    sequences = Sequences()
    sequences.set_identity(ProducerIdentity(7, 0))
    batches = [ProducerBatch(partition, 100, 100, 0) for partition in (A, B)]
    for batch in batches:
        sequences.drained(batch)
        sequences._request_bump(batch.partition)
    sequences.answered(batches[0], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    sequences.advance()
    assert not sequences.needs_identity
    assert states(batches) == [(1, 0), (0, 0)]
    sequences.answered(batches[1], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    sequences.advance()
    assert states(batches) == [(1, 0), (2, 0)]


def test_an_exhausted_epoch_is_replaced_by_a_new_producer_id() -> None:
    setup = known(IdempotentSetup(first_epoch=EPOCH_MAX))
    (batch,) = sent_batches(setup, 1)
    setup.handle(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    setup.answer()
    setup.finish()
    assert batch.state == BatchState(8, EPOCH_MAX, 0)
    setup.check()


def test_records_after_an_abort_are_sent_although_aborted_batches_had_sequence_numbers() -> None:
    setup = known(IdempotentSetup())
    sent_batches(setup, 2)
    setup.handle()
    setup.answer()
    setup.handle(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    setup.answer()
    setup.sender.abort(ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "refused"), unsent_only=False)
    setup.append(A, size=90)
    setup.disconnect()
    setup.finish()
    assert setup.logs[A].values[-1] == setup.sent[A][-1][0]
    setup.check()


class AnySchedule(RuleBasedStateMachine):
    """Under any schedule of losses, refusals and expiries, no record is written twice or lost after its answer."""

    EXPIRES = True

    def __init__(self) -> None:
        super().__init__()
        self.setup = IdempotentSetup(delivery_timeout_ms=100 if self.EXPIRES else 1e9)

    @rule(partition=st.sampled_from([A, B]), size=st.sampled_from([1, 90]))
    def append(self, partition: TopicPartition, size: int) -> None:
        self.setup.append(partition, size)

    @rule()
    def send(self) -> None:
        self.setup.send()

    @precondition(lambda self: self.setup.unhandled)
    @rule()
    def handle(self) -> None:
        self.setup.handle()

    @precondition(lambda self: self.setup.unhandled)
    @rule(
        code=st.sampled_from(
            [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.MESSAGE_TOO_LARGE]
        )
    )
    def refuse(self, code: ErrorCode) -> None:
        self.setup.handle(code)

    @precondition(lambda self: self.setup.unanswered)
    @rule()
    def answer(self) -> None:
        self.setup.answer()

    @rule()
    def disconnect(self) -> None:
        self.setup.disconnect()

    @rule(ms=st.sampled_from([10, 60, 100]))
    def wait(self, ms: int) -> None:
        if self.EXPIRES:
            self.setup.now_ms += ms

    def teardown(self) -> None:
        self.setup.finish()
        self.setup.check()
        self.setup.check_order()


class AnyScheduleWithoutExpiry(AnySchedule):
    """Without expiry, every record that the broker does not refuse is written."""

    EXPIRES = False


AnySchedule.TestCase.settings = AnyScheduleWithoutExpiry.TestCase.settings = settings(
    max_examples=100, stateful_step_count=60, deadline=None
)
TestAnySchedule = AnySchedule.TestCase
TestAnyScheduleWithoutExpiry = AnyScheduleWithoutExpiry.TestCase
