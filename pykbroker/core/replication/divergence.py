"""The place at which two logs diverge, from the leader's and from the follower's side (KIP-101, KIP-279, KIP-595)."""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.log.epochs import LeaderEpochs
from wire.error_codes import ErrorCode
from wire.messages.fetch import EpochEndOffset
from wire.sentinels import NO_LEADER_EPOCH


def divergence(
    epochs: LeaderEpochs, log_start_offset: int, log_end_offset: int, last_fetched_epoch: int, fetch_offset: int
) -> EpochEndOffset | None:
    """Return the epoch and offset at which the log of a client that fetches diverges from this log, or None.

    Only a divergence below the client's fetch offset counts. Raise OFFSET_OUT_OF_RANGE if this log knows too little.
    """
    end = epochs.end_offset_for(last_fetched_epoch, log_end_offset)
    if end.epoch == NO_LEADER_EPOCH or fetch_offset < log_start_offset:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if end.epoch >= last_fetched_epoch and end.offset >= fetch_offset:
        return None
    return EpochEndOffset(epoch=end.epoch, end_offset=end.offset)


def truncation_offset(diverging: EpochEndOffset, epochs: LeaderEpochs, log_end_offset: int) -> int:
    """Return the offset to truncate the own log to, after the leader named the end of an epoch in its log.

    If the own log has that epoch, both logs agree up to the smaller end. Otherwise the own log is cut to the end of its
    largest smaller epoch, and the next fetch compares that epoch.
    """
    own = epochs.end_offset_for(diverging.epoch, log_end_offset)
    if own.epoch == NO_LEADER_EPOCH:
        return min(diverging.end_offset, log_end_offset)
    end = min(own.offset, log_end_offset)
    return min(end, diverging.end_offset) if own.epoch == diverging.epoch else end
