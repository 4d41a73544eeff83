"""A follower's decisions about its leader's answers (KIP-101, KIP-279, KIP-320, KIP-595).

1. A follower fetches at its log end offset, with the epoch of its last record. The leader answers with records, or with
   the epoch and offset at which the logs diverge.
2. An answer counts only if the position of the request is still the current one. The position includes the epoch of the
   last record: a second, late answer about a divergence would otherwise cut records that were fetched since.
3. The leader's log may start inside a batch, after DeleteRecords. A follower that begins there gets the whole batch:
   its log begins at the batch's base offset, and keeps the log start offset (KAFKA-6975).
4. A leader may cut the records at a size limit: an incomplete last batch is dropped. A batch of an epoch above the
   requested leader epoch is dropped, and so are all batches after it.
"""

from __future__ import annotations

from enum import Enum, auto

import msgspec

from pykbroker.core.log.epochs import LeaderEpochs
from pykbroker.core.replication.divergence import truncation_offset
from wire.declare import Buffer
from wire.error_codes import ErrorCode
from wire.errors import DecodeError
from wire.messages.fetch import EpochEndOffset, PartitionData
from wire.records.batch import Batch, batches
from wire.sentinels import NO_LEADER_EPOCH

NO_DIVERGENCE = EpochEndOffset()


class Following(msgspec.Struct, frozen=True, gc=False):
    """The role of a broker that does not lead a partition in this leader epoch, -1 before the first one.

    `has_leader` is true if another broker leads, so that the high watermark follows that broker's. `absence` is the
    error for clients that ask for the leader.
    """

    epoch: int = NO_LEADER_EPOCH
    has_leader: bool = False
    absence: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER


class Position(msgspec.Struct, frozen=True, gc=False):
    """A place in the leader's log: `offset` is the next offset to fetch, `last_epoch` the epoch of the record
    before."""

    leader_epoch: int
    offset: int
    last_epoch: int


class CutLog(msgspec.Struct, frozen=True, gc=False):
    """Truncate the log to this offset, and fetch again."""

    offset: int


class Restart(msgspec.Struct, frozen=True, gc=False):
    """Drop the whole log, and begin it anew at `offset`, which is at most the new log start offset."""

    offset: int
    log_start_offset: int


class Store(msgspec.Struct, frozen=True, gc=False):
    """Append these whole batches, and take over the leader's high watermark and log start offset.

    `restart` is done first, unless it is None.
    """

    records: Buffer
    high_watermark: int
    log_start_offset: int
    restart: Restart | None = None


class Pause(Enum):
    """A reason not to fetch again at once."""

    LOOK_UP = auto()
    """The offset is outside of the leader's log: ask for the leader's latest and earliest offsets."""
    BACKOFF = auto()
    """Another error: try again later."""
    METADATA = auto()
    """The leader epoch is over: wait for new metadata."""


FollowerDecision = Store | CutLog | Pause


def decide(
    asked: Position,
    current: Position | None,
    answer: PartitionData,
    epochs: LeaderEpochs,
    log_start_offset: int,
    log_end_offset: int,
) -> FollowerDecision | None:
    """Return what to do after the leader's answer to a fetch at `asked`, or None for an answer that no longer counts.

    `current` is the position now, or None if the partition is no longer followed here. The own log has the offsets
    from `log_start_offset` to below `log_end_offset`.
    """
    if asked != current:
        return None
    match answer.error_code:
        case ErrorCode.NONE:
            if answer.diverging_epoch != NO_DIVERGENCE:
                return CutLog(truncation_offset(answer.diverging_epoch, epochs, log_end_offset))
            records = usable(answer.records or b"", asked.leader_epoch)
            restart = begin_inside(records, log_end_offset) if log_start_offset == log_end_offset else None
            return Store(records, answer.high_watermark, answer.log_start_offset, restart)
        case ErrorCode.OFFSET_OUT_OF_RANGE:
            return Pause.LOOK_UP
        case ErrorCode.FENCED_LEADER_EPOCH:
            return Pause.METADATA
        case _:
            # UNKNOWN_LEADER_EPOCH is among these: the leader will receive the metadata that this broker has.
            return Pause.BACKOFF


def start_offset(epochs: LeaderEpochs, high_watermark: int, log_end_offset: int) -> int:
    """Return the offset to truncate the own log to before the first fetch: its end, unless it has no leader epoch."""
    # Without epochs the leader cannot say where the logs diverge, and only committed records are surely equal
    # (KIP-101).
    return log_end_offset if epochs.latest != NO_LEADER_EPOCH else min(high_watermark, log_end_offset)


def begin_inside(records: Buffer, log_start_offset: int) -> Restart | None:
    """Return the begin of an empty log, if `log_start_offset` is inside the first of these whole batches."""
    if not records:
        return None
    first = Batch.read(records)
    is_inside = first.base_offset < log_start_offset <= first.last_offset
    return Restart(first.base_offset, log_start_offset) if is_inside else None


def after_range(latest: int, earliest: int, log_end_offset: int) -> CutLog | Restart | None:
    """Return what to do when the leader's log, from `earliest` to `latest`, does not have the fetched offset.

    None means to fetch on at the own log end.
    """
    # An unclean election chose a leader with a shorter log.
    if latest < log_end_offset:
        return CutLog(latest)
    # The leader has deleted records that this log lacks. Otherwise the leader's log has changed since the fetch.
    return Restart(earliest, earliest) if earliest > log_end_offset else None


def usable(records: Buffer, leader_epoch: int) -> Buffer:
    """Return the records that may be appended: whole batches of epochs up to `leader_epoch`.

    A damaged header ends the usable part. CRCs are not checked here.
    """
    end = 0
    try:
        for batch in batches(records):
            if batch.leader_epoch > leader_epoch:
                break
            end += batch.size
    except DecodeError:
        pass
    return records if end == len(records) else memoryview(records)[:end]
