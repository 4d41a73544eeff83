"""The sender against a log under random faults by seed. The runs find bugs that are planted in the sender."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from pykbroker.core.errors import ApiError
from pykbroker.core.producer import sender
from pykbroker.core.producer.accumulator import RecordAccumulator
from pykbroker.core.producer.batch import ProducerBatch
from pykbroker.core.producer.buffer_pool import BufferPool
from pykbroker.core.producer.incomplete import IncompleteBatches
from pykbroker.core.producer.sender import Sender, SendSettings
from pykbroker.core.producer.sequences import Sequences
from tests.unit.core.producer.idempotent_setup import MEMORY_BYTES, A, B, IdempotentSetup
from wire.error_codes import ErrorCode

SEEDS, SEEDS_OF_BUGS, STEPS = 100, 500, 60
AFTER_APPEND = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)
"""The refusals of a leader that may have appended the batch."""
REFUSALS = (*AFTER_APPEND, ErrorCode.MESSAGE_TOO_LARGE)
Patch = Callable[[pytest.MonkeyPatch], None]


def run(seed: int) -> None:
    """Send records under random faults. Raise AssertionError if a record is lost, doubled or moved."""
    rng = Random(seed)
    expires, gives_up = seed % 2 == 0, seed % 3 == 0
    retries = rng.randrange(3) if gives_up else SendSettings().retries
    setup = IdempotentSetup(delivery_timeout_ms=100 if expires else 1e9, retries=retries)
    for _ in range(STEPS):
        step(setup, rng, expires=expires)
        assert 0 <= setup.accumulator.pool.available_bytes <= MEMORY_BYTES, "memory is beyond its limit"
    setup.finish()
    setup.check()
    check_goes_on(setup)
    if not expires and not gives_up:
        setup.check_order()
        assert failures(setup) <= {ErrorCode.MESSAGE_TOO_LARGE}, "a record failed for no reason"


def check_goes_on(setup: IdempotentSetup) -> None:
    """Check that the records after all faults are written, in each partition."""
    for partition in (A, B):
        setup.append(partition)
        setup.finish()
        _, batch, index = setup.sent[partition][-1]
        assert batch.result_of(index).offset >= 0, "a partition has ended"


def run_all() -> None:
    """Run all seeds until one fails."""
    for seed in range(SEEDS_OF_BUGS):
        run(seed)


def failures(setup: IdempotentSetup) -> set[int]:
    """Return the error codes of the records that failed."""
    outcomes = [batch.offsets(index, 1)[1] for sent in setup.sent.values() for _, batch, index in sent]
    return {error.code for errors in outcomes for error in errors.values() if isinstance(error, ApiError)}


def step(setup: IdempotentSetup, rng: Random, *, expires: bool) -> None:
    """Let one random thing happen."""
    chosen = rng.random()
    if chosen < 0.05:
        setup.append_rows(rng.choice((A, B)), rng.choice((1, 9, 30)))
    elif chosen < 0.35:
        setup.append(rng.choice((A, B)), rng.choice((1, 30, 90)))
    elif chosen < 0.6:
        send(setup, expires=expires)
    elif chosen < 0.75 and setup.unhandled:
        refusal = rng.choice(REFUSALS) if rng.random() < 0.3 else None
        setup.handle(refusal, after_append=refusal in AFTER_APPEND and rng.random() < 0.5)
    elif chosen < 0.88 and setup.unanswered:
        setup.answer()
    elif chosen < 0.92:
        setup.disconnect()
    elif expires and chosen < 0.97:
        setup.now_ms += rng.choice((10, 60, 110))
    elif chosen > 0.97:
        coincide(setup, rng, expires=expires)


def send(setup: IdempotentSetup, *, expires: bool) -> None:
    """Send what is due, and check that no batch waits which has expired."""
    setup.send()
    waiting = [each for each in setup.accumulator.incomplete.batches() if each.outcome is None and not each._parts]
    assert not expires or all(each.created_ms + 100 > setup.now_ms for each in waiting), "a batch outlives its time"


def coincide(setup: IdempotentSetup, rng: Random, *, expires: bool) -> None:
    """Let all answers in flight be lost, or be refusals of batches that are written, as a batch of them expires."""
    if rng.random() < 0.5:
        setup.finish()  # a partition in which all is well sends several batches at once
    partition = rng.choice((A, B))
    begun_ms = setup.now_ms
    for _ in range(rng.randrange(2, 4)):
        setup.append(partition, 90)
        setup.send()
        setup.now_ms += expires
    if expires:
        setup.now_ms = begun_ms + 100
    for _ in range(rng.randrange(1, 4)):
        rng.choice((setup.lose_answers, setup.refuse_written, lambda: None))()
        send(setup, expires=expires)


def replaced(owner: type, name: str, function: Any) -> Patch:
    """Return a bug: a method of a class is replaced."""
    return lambda patch: patch.setattr(owner, name, function)


def drain_any(sequences: Sequences, batch: ProducerBatch) -> bool:
    """Let each batch overtake those that are sent again."""
    return sequences.identity.is_valid


def first_not_alone(sequences: Sequences, batch: ProducerBatch) -> bool:
    """Send batches behind the first one of a partition."""
    sequences._of(batch.partition).is_known = True
    return ORIGINAL_MAY_DRAIN(sequences, batch)


def renumbered(sequences: Sequences, batch: ProducerBatch) -> None:
    """Assign a new sequence number to a batch that is sent again."""
    partition = sequences._of(batch.partition)
    if batch.state.base_sequence >= 0:
        partition.number(batch, transactional=False)
    ORIGINAL_DRAINED(sequences, batch)


def reused_after_expiry(sequences: Sequences, batch: ProducerBatch) -> None:
    """Give the sequence number of an expired batch to the next batch."""
    partition = sequences._of(batch.partition)
    sequences._remove(partition, batch)
    partition.next = batch.state.base_sequence


def split_from_start(batch: ProducerBatch, bytes_max: int) -> list[ProducerBatch]:
    """Give all parts of a split batch the sequence number of its first record."""
    parts = ORIGINAL_SPLIT(batch, bytes_max)
    for part in parts:
        part.state = batch.state
    return parts


def at_the_back(accumulator: RecordAccumulator, batch: ProducerBatch) -> None:
    """Queue a batch that is sent again behind later ones."""
    accumulator._queues.setdefault(batch.partition, deque()).append(batch)


def never_released(incomplete: IncompleteBatches, batch: ProducerBatch) -> None:
    """Keep the memory of settled batches."""
    if batch.is_settled:
        incomplete._batches.pop(batch, None)


def released_twice(incomplete: IncompleteBatches, batch: ProducerBatch) -> None:
    """Return memory again for each answer."""
    ORIGINAL_RELEASE(incomplete, batch)
    if batch.is_settled:
        incomplete._pool.give_back(batch.reserved)


def succeed_on_any_answer(given: Sender, batch: ProducerBatch, answer: Any, _code: Any, _now_ms: float) -> bool:
    """Acknowledge a batch instead of sending it again."""
    given._succeed(batch, answer, ErrorCode.NONE)
    return batch.attempts < 0


def unresolved_never_ends(sequences: Sequences) -> None:
    """Never resolve an expired batch."""


def all_renumbered(patch: pytest.MonkeyPatch) -> None:
    """Number all batches in flight anew when one has failed, also those that may be written."""
    patch.setattr(
        Sequences, "failed", lambda self, batch, error, adjust: ORIGINAL_FAILED(self, batch, error, adjust=True)
    )
    patch.setattr(Sequences, "_is_open", lambda *_: False)


def gap_forgotten(sequences: Sequences, batch: ProducerBatch, error: ApiError, *, adjust: bool) -> None:
    """Forget the sequence numbers of a batch that was not written."""
    ORIGINAL_FAILED(sequences, batch, error, adjust=False)


ORIGINAL_MAY_DRAIN, ORIGINAL_DRAINED, ORIGINAL_FAILED = Sequences.may_drain, Sequences.drained, Sequences.failed
ORIGINAL_SPLIT, ORIGINAL_RELEASE = ProducerBatch.split, IncompleteBatches.release
BUGS: dict[str, Patch] = {
    "a retry overtakes": replaced(Sequences, "may_drain", drain_any),
    "the first batch is not alone": replaced(Sequences, "may_drain", first_not_alone),
    "a retry gets a new sequence number": replaced(Sequences, "drained", renumbered),
    "a sequence number is reused after expiry": replaced(Sequences, "left", reused_after_expiry),
    "the parts of a split repeat a sequence number": replaced(ProducerBatch, "split", split_from_start),
    "a split is not noted": replaced(Sequences, "split", lambda *_: None),
    "memory is never returned": replaced(IncompleteBatches, "release", never_released),
    "memory is returned twice": replaced(IncompleteBatches, "release", released_twice),
    "a pool takes no bytes": replaced(BufferPool, "try_take", lambda *_: True),
    "an expired batch is not resolved": replaced(Sequences, "advance", unresolved_never_ends),
    "all batches in flight are numbered anew": all_renumbered,
    "a refusal after the append is taken for one before it": lambda patch: patch.setattr(
        sender, "PERHAPS_WRITTEN", frozenset({ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT})
    ),
    "a gap is forgotten": replaced(Sequences, "failed", gap_forgotten),
    "batches in flight never expire": replaced(Sender, "_next_expiry_ms", lambda _: math.inf),
    "an error is taken for success": replaced(Sender, "_may_retry", succeed_on_any_answer),
    "a retry is queued behind later batches": replaced(RecordAccumulator, "_insert", at_the_back),
    "answers are not noted": replaced(Sequences, "answered", lambda *_: None),
    "a success is not removed": replaced(Sequences, "succeeded", lambda *_: None),
}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_faults_lose_double_and_move_no_record(seed: int) -> None:
    run(seed)


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_of_the_producer_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[bug](monkeypatch)
    with pytest.raises((AssertionError, ValueError, ApiError)):
        run_all()
