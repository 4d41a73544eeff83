"""Tests of refused sequences: the errors of the batches behind them, and the limits of the memory."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.core.errors import ApiError
from pykbroker.core.log.producers import Producers
from pykbroker.core.log.refused_sequences import PRODUCERS_MAX, REFUSALS_MAX, REPEATED, RefusalLimit, RefusedSequences
from pykbroker.core.sequence_numbers import SEQUENCE_MASK
from wire.error_codes import ErrorCode

ID = 7
DAY_MS = 86_400_000
IN_FLIGHT_MAX = 5
NOT_LEADER, FEW_REPLICAS, STORAGE = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.KAFKA_STORAGE_ERROR,
)


class Log:
    """A log that refuses batches when told to, and remembers those as a partition does."""

    def __init__(self) -> None:
        self.producers, self.written = Producers(), list[int]()
        self.producers.refused = RefusedSequences(RefusalLimit())

    def refuse(self, sequence: int, code: ErrorCode, *, epoch: int = 0, producer_id: int = ID, now_ms: int = 0) -> None:
        """Refuse a batch before the log looks at it."""
        assert self.producers.refused is not None
        expected = self.producers.expected(producer_id, epoch)
        self.producers.refused.note(producer_id, epoch, sequence, code, expected, now_ms)

    def append(self, sequence: int, count: int = 1, *, epoch: int = 0, transactional: bool = False) -> ErrorCode:
        """Append a batch, and return the error for its producer."""
        verification = self.producers.begin_verification(ID, epoch, sequence, 0) if transactional else None
        try:
            self.producers.check(ID, epoch, sequence, count - 1, transactional, verification)
        except ApiError as error:
            if error.code in REPEATED:
                self.refuse(sequence, error.code, epoch=epoch)
            return error.code
        self.producers.remember(ID, epoch, sequence, len(self.written), count - 1, 1000, transactional)
        self.written.append(sequence)
        return ErrorCode.NONE

    def append_marker(self, epoch: int) -> None:
        """Append the marker of an aborted transaction."""
        self.producers.remember_marker(ID, epoch, 1, len(self.written), 1000, aborted=True)


@pytest.mark.parametrize("code", sorted(REPEATED))
@pytest.mark.parametrize("transactional", [False, True])
def test_a_batch_behind_a_refused_one_gets_the_same_error(code: ErrorCode, transactional: bool) -> None:
    log = Log()
    assert log.append(0, 3, transactional=transactional) is ErrorCode.NONE
    log.refuse(3, code)
    assert [log.append(sequence, transactional=transactional) for sequence in (4, 5)] == [code, code]
    assert [log.append(sequence, transactional=transactional) for sequence in (3, 4, 5)] == [ErrorCode.NONE] * 3
    assert log.append(7, transactional=transactional) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_producer_whose_first_batch_was_refused_begins_with_it() -> None:
    log = Log()
    log.refuse(41, FEW_REPLICAS)
    assert [log.append(sequence) for sequence in (42, 41, 42)] == [FEW_REPLICAS, ErrorCode.NONE, ErrorCode.NONE]


def test_the_first_batch_of_a_refused_transaction_comes_before_the_next() -> None:
    log = Log()
    assert log.append(0, transactional=True) is ErrorCode.NONE
    log.append_marker(1)
    log.refuse(0, ErrorCode.CONCURRENT_TRANSACTIONS, epoch=1)
    assert log.append(1, epoch=1, transactional=True) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert log.append(0, epoch=1, transactional=True) is ErrorCode.NONE
    assert log.append(1, epoch=1, transactional=True) is ErrorCode.NONE


def test_a_refused_batch_that_is_refused_again_passes_on_its_last_error() -> None:
    log = Log()
    log.append(0)
    log.refuse(1, FEW_REPLICAS)
    log.refuse(2, STORAGE)
    assert log.append(3) is FEW_REPLICAS
    log.refuse(1, NOT_LEADER)
    assert log.append(3) is NOT_LEADER
    log.refuse(0, STORAGE)  # it is in the log, and was repeated because its response was lost
    assert log.append(3) is NOT_LEADER


def test_a_batch_that_another_leader_wrote_is_not_missing() -> None:
    log = Log()
    log.append(0)
    log.refuse(1, NOT_LEADER)
    for sequence in (1, 2):
        log.producers.remember(ID, 0, sequence, sequence, 0, 1000, transactional=False)
    assert log.append(4) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    log.refuse(3, FEW_REPLICAS)
    assert log.append(4) is FEW_REPLICAS


def test_a_refused_batch_counts_in_its_own_epoch_only() -> None:
    log = Log()
    log.append(0)
    log.refuse(1, FEW_REPLICAS)
    assert log.append(0, epoch=1) is ErrorCode.NONE
    assert log.append(2, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.append(2) is ErrorCode.INVALID_PRODUCER_EPOCH
    log.refuse(1, STORAGE, epoch=1)
    log.refuse(5, NOT_LEADER)
    assert log.append(2, epoch=1) is STORAGE


def test_the_first_batch_of_a_new_epoch_may_be_refused() -> None:
    log = Log()
    log.append(0)
    log.refuse(0, NOT_LEADER, epoch=1)
    assert [log.append(sequence, epoch=1) for sequence in (2, 0, 2)] == [
        NOT_LEADER,
        ErrorCode.NONE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ]


def test_refused_sequences_expire_with_their_producers() -> None:
    log = Log()
    assert log.producers.refused is not None
    log.append(0)
    log.refuse(1, FEW_REPLICAS, now_ms=DAY_MS)
    log.refuse(1, FEW_REPLICAS, producer_id=ID + 1, now_ms=DAY_MS)
    log.producers.expire(DAY_MS, DAY_MS)
    assert len(log.producers.refused) == 2
    log.producers.expire(1000 + DAY_MS, DAY_MS)
    assert len(log.producers.refused) == 1
    assert log.append(2) is ErrorCode.NONE
    log.producers.expire(2 * DAY_MS - 1, DAY_MS)
    assert len(log.producers.refused) == 1
    log.producers.expire(2 * DAY_MS, DAY_MS)
    assert len(log.producers.refused) == 0


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_partition_remembers_a_limited_number_of_producers(more: int) -> None:
    log = Log()
    for producer_id in range(ID, ID + PRODUCERS_MAX + more):
        log.refuse(0, FEW_REPLICAS, producer_id=producer_id)
        log.refuse(1, FEW_REPLICAS, producer_id=producer_id)
    assert log.producers.refused is not None
    assert len(log.producers.refused) == PRODUCERS_MAX + min(more, 0)
    assert log.append(1) is (ErrorCode.NONE if more > 0 else FEW_REPLICAS)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_broker_remembers_a_limited_number_of_refusals(more: int) -> None:
    limit, each = RefusalLimit(), PRODUCERS_MAX
    partitions = [RefusedSequences(limit) for _ in range(REFUSALS_MAX // each + 1)]
    for number in range(REFUSALS_MAX + more):
        partitions[number // each].note(number, 0, 0, STORAGE, None, 0)
    assert limit.count == sum(map(len, partitions)) == REFUSALS_MAX + min(more, 0)
    assert len(partitions[0]) == each - max(more, 0)
    partitions[0].clear()
    partitions[1].expire(1, 1, ())
    assert limit.count == sum(map(len, partitions)) == REFUSALS_MAX - 2 * each + more


def test_a_truncation_names_the_lowest_sequence_that_it_removed() -> None:
    before, after = Log(), Log()
    for log, epoch, sequences in ((before, 0, (0, 1, 2, 3)), (after, 0, (0, 1))):
        for sequence in sequences:
            log.append(sequence, epoch=epoch)

    def removed(after: Producers) -> list[tuple[int, int, int]]:
        return [(one.producer_id, one.epoch, low) for one, low in after.removed_since(before.producers)]

    assert removed(before.producers) == []
    assert removed(after.producers) == [(ID, 0, 2)]
    assert removed(Producers()) == [(ID, 0, 0)]
    before.append(0, epoch=1)
    assert removed(after.producers) == [(ID, 1, 0)]


@given(
    st.sampled_from([0, SEQUENCE_MASK - 10]),
    st.lists(st.integers(1, 10), max_size=20),
    st.lists(st.sampled_from([None, None, None, NOT_LEADER, FEW_REPLICAS, STORAGE]), max_size=60),
)
def test_a_producer_that_keeps_its_order_is_never_out_of_order(
    first: int, counts: list[int], refusals: list[ErrorCode | None]
) -> None:
    """The producer has five batches in flight, waits for all their responses after an error, and repeats them."""
    log, sequence, to_send = Log(), first, deque[tuple[int, int]]()
    for count in counts:
        to_send.append((sequence, count))
        sequence = (sequence + count) & SEQUENCE_MASK
    sequences, codes = [each for each, _ in to_send], deque(refusals)
    while to_send:
        in_flight = [to_send.popleft() for _ in range(min(len(to_send), IN_FLIGHT_MAX))]
        refused = []
        for batch in in_flight:
            code = codes.popleft() if codes else None
            if code is not None:
                log.refuse(batch[0], code)
            else:
                code = log.append(*batch)
            if code is not ErrorCode.NONE:
                assert code in REPEATED
                refused.append(batch)
        to_send.extendleft(reversed(refused))
    assert log.written == sequences
