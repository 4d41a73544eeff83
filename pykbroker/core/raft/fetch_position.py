"""The position of a fetch in the leader's metadata log: whether the fetching node's log is a prefix of it."""

from __future__ import annotations

import msgspec

from pykbroker.core.log.epochs import UNDEFINED, LeaderEpochs, OffsetAndEpoch

BOOTSTRAP_SNAPSHOT = OffsetAndEpoch(0, 0)
"""The snapshot that formatting writes: it has the voters, and no metadata. It is never sent to other nodes."""


class Diverging(msgspec.Struct, frozen=True):
    """The answer to a node whose log has other records: the newest point at which both logs may agree."""

    at: OffsetAndEpoch


class NeedsSnapshot(msgspec.Struct, frozen=True):
    """The answer to a node whose next records are only in a snapshot."""

    snapshot: OffsetAndEpoch


class LeaderLog(msgspec.Struct, frozen=True):
    """The leader's log at one moment. `snapshots` are those on disk, the oldest first."""

    epochs: LeaderEpochs
    log_start_offset: int
    log_end_offset: int
    snapshots: tuple[OffsetAndEpoch, ...] = ()

    def check(self, offset: int, epoch: int) -> Diverging | NeedsSnapshot | None:
        """Return why records cannot be read for a node whose log ends at `offset` with a record of `epoch`, or None."""
        newest = self.snapshots[-1] if self.snapshots else BOOTSTRAP_SNAPSHOT
        # A node without records gets the newest snapshot even if the log has all records, as in Kafka
        # (`KafkaRaftClient`).
        if offset == 0 and newest != BOOTSTRAP_SNAPSHOT:
            return NeedsSnapshot(newest)
        if offset == 0 == self.log_start_offset:
            return None
        start = self.log_start_offset
        oldest = self.snapshots[0] if self.snapshots else None
        if oldest is not None and (
            offset < start or (offset == start and epoch != oldest.epoch) or epoch < oldest.epoch
        ):
            return NeedsSnapshot(newest)
        end = self._end_of(epoch, oldest)
        return None if end.epoch == epoch and end.offset >= offset else Diverging(end)

    def _end_of(self, epoch: int, oldest: OffsetAndEpoch | None) -> OffsetAndEpoch:
        """Return the end of the largest epoch that is not above `epoch`."""
        end = self.epochs.end_offset_for(epoch, self.log_end_offset)
        if end == UNDEFINED:
            return OffsetAndEpoch(self.log_end_offset, max(0, self.epochs.latest))
        if oldest is not None and (end.offset, end.epoch) == (oldest.offset, epoch):
            return oldest
        return end
