"""The truncation of an observer's copy of the metadata log (KIP-595)."""

from __future__ import annotations

from pykbroker.core.log.epochs import UNDEFINED_EPOCH, LeaderEpochs
from pykbroker.core.raft.fetch_position import OffsetAndEpoch


def truncation_offset(epochs: LeaderEpochs, log_end_offset: int, diverging: OffsetAndEpoch) -> int:
    """Return the offset to which an observer truncates its log after the leader's `divergingEpoch`.

    It is the smaller end of the newest epoch that both logs have, in either log.
    """
    found, end = epochs.end_offset_for(diverging.epoch, log_end_offset)
    if found == UNDEFINED_EPOCH:
        return min(log_end_offset, diverging.end_offset)
    return min(end, diverging.end_offset) if found == diverging.epoch else end
