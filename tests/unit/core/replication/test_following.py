"""Tests of a follower's decisions: late answers, truncation by leader epoch, and the usable part of the records."""

from __future__ import annotations

import pytest

from pykbroker.core.errors import ApiError
from pykbroker.core.log.epochs import LeaderEpochs
from pykbroker.core.replication.divergence import divergence, truncation_offset
from pykbroker.core.replication.following import (
    CutLog,
    Pause,
    Position,
    Restart,
    Store,
    after_range,
    decide,
    start_offset,
    usable,
)
from wire.error_codes import ErrorCode
from wire.messages.fetch import EpochEndOffset, PartitionData
from wire.records.builder import BatchBuilder

EPOCHS = LeaderEpochs([(1, 0), (3, 10), (5, 20)])
HERE = Position(6, 30, 5)


def batch(offset: int, epoch: int) -> bytes:
    builder = BatchBuilder(base_offset=offset, leader_epoch=epoch)
    builder.append(None, b"value")
    return builder.build()


@pytest.mark.parametrize(
    "current",
    [None, Position(7, 30, 5), Position(6, 29, 5), Position(6, 30, 6)],
    ids=["not followed", "new epoch", "truncated", "another record before it"],
)
def test_an_answer_of_another_position_does_not_count(current: Position | None) -> None:
    for answer in (PartitionData(records=batch(30, 6)), PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)):
        assert decide(HERE, current, answer, EPOCHS, 0, 30) is None


@pytest.mark.parametrize(
    ("code", "decision"),
    [
        (ErrorCode.OFFSET_OUT_OF_RANGE, Pause.LOOK_UP),
        (ErrorCode.FENCED_LEADER_EPOCH, Pause.METADATA),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, Pause.BACKOFF),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, Pause.BACKOFF),
        (ErrorCode.KAFKA_STORAGE_ERROR, Pause.BACKOFF),
    ],
)
def test_an_error_decides_when_the_follower_fetches_again(code: ErrorCode, decision: Pause) -> None:
    assert decide(HERE, HERE, PartitionData(error_code=code), EPOCHS, 0, 30) is decision


def test_whole_batches_of_the_asked_epoch_are_stored() -> None:
    first, second, newer = batch(30, 5), batch(31, 6), batch(32, 7)
    stored = decide(
        HERE, HERE, PartitionData(records=first + second, high_watermark=9, log_start_offset=4), EPOCHS, 0, 30
    )
    assert stored == Store(first + second, 9, 4)
    assert usable(first + second[:-1], 6) == first
    assert usable(first + newer + second, 6) == first
    assert usable(first[:40], 6) == b""
    assert usable(b"", 6) == b""


def test_a_damaged_header_ends_the_usable_part() -> None:
    damaged = bytearray(batch(31, 6))
    damaged[16] = 1  # the magic
    assert usable(batch(30, 6) + bytes(damaged), 6) == batch(30, 6)


@pytest.mark.parametrize(
    ("epoch", "end", "offset"),
    [
        (5, 25, 25),  # both have epoch 5, and the leader's ends first
        (3, 15, 15),
        (3, 25, 20),  # both have epoch 3, and the own ends first
        (4, 18, 20),  # the own log lacks epoch 4: cut to the end of epoch 3, then compare again
        (0, 7, 0),  # no epoch up to 0 is known: its end is where the first one begins
        (9, 28, 28),  # an epoch above all own ones
        (9, 33, 30),
    ],
)
def test_a_log_is_truncated_to_the_end_of_the_last_common_epoch(epoch: int, end: int, offset: int) -> None:
    diverging = EpochEndOffset(epoch=epoch, end_offset=end)
    assert truncation_offset(diverging, EPOCHS, 30) == offset
    assert decide(HERE, HERE, PartitionData(diverging_epoch=diverging, records=batch(30, 6)), EPOCHS, 0, 30) == CutLog(
        offset
    )


@pytest.mark.parametrize(
    ("last_epoch", "offset", "expected"),
    [
        (5, 30, None),
        (5, 31, EpochEndOffset(epoch=5, end_offset=30)),
        (4, 15, EpochEndOffset(epoch=3, end_offset=20)),
        (3, 20, None),
        (3, 21, EpochEndOffset(epoch=3, end_offset=20)),
    ],
)
def test_a_leader_names_the_place_where_a_followers_log_diverges(
    last_epoch: int, offset: int, expected: EpochEndOffset | None
) -> None:
    assert divergence(EPOCHS, 0, 30, last_epoch, offset) == expected


@pytest.mark.parametrize(("last_epoch", "offset"), [(6, 30), (5, 1)], ids=["unknown epoch", "below the log start"])
def test_a_leader_that_knows_too_little_refuses_the_offset(last_epoch: int, offset: int) -> None:
    with pytest.raises(ApiError) as refused:
        divergence(EPOCHS, 2, 30, last_epoch, offset)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_log_without_leader_epochs_starts_at_its_high_watermark() -> None:
    assert start_offset(LeaderEpochs(), 7, 30) == 7
    assert start_offset(LeaderEpochs(), 40, 30) == 30
    assert start_offset(EPOCHS, 7, 30) == 30


def test_a_follower_outside_of_the_leaders_log_is_cut_or_begins_anew() -> None:
    assert after_range(latest=20, earliest=5, log_end_offset=30) == CutLog(20)
    assert after_range(latest=90, earliest=50, log_end_offset=30) == Restart(50, 50)
    assert after_range(latest=90, earliest=30, log_end_offset=30) is None


def long_batch(base_offset: int, count: int) -> bytes:
    builder = BatchBuilder(base_offset=base_offset, leader_epoch=6)
    for _ in range(count):
        builder.append(None, b"value")
    return builder.build()


@pytest.mark.parametrize(
    ("base_offset", "count", "log_start_offset", "begin"),
    [
        (29, 2, 30, Restart(29, 30)),
        (20, 11, 30, Restart(20, 30)),
        (30, 2, 30, None),
        (31, 2, 30, None),
        (20, 10, 30, None),
        (29, 2, 29, None),
    ],
    ids=["first", "last", "at its begin", "compacted", "below", "log with records"],
)
def test_an_empty_log_begins_with_the_batch_that_holds_its_start(
    base_offset: int, count: int, log_start_offset: int, begin: Restart | None
) -> None:
    """A log with records has whole batches, and a batch that does not follow them is an error."""
    answer = PartitionData(records=long_batch(base_offset, count), log_start_offset=30)
    stored = decide(HERE, HERE, answer, EPOCHS, log_start_offset, 30)
    assert isinstance(stored, Store)
    assert stored.restart == begin
