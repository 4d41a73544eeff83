"""A replica whose log takes no appends: its disk is full, or its log cannot be opened.

1. A replica in the ISR that has written nothing for `UNWRITABLE_MS_MAX` is reported as lost (KIP-858). The controller
   then moves the leadership, and takes the replica out of the ISR, so that acks=all does not wait for it.
2. A leader leaves only if another member of the ISR has all its records and may be elected. A follower refuses only
   records that its leader has. Leader and followers whose disks are full at once therefore do not all leave.
3. The log is intact. The replica follows its new leader from its log end offset on, and is not fetched anew.
4. The replica's real directory is reported once the replica has written again. A follower that lacks nothing has
   nothing to write, though the leader may need it in the ISR before it takes records (`min.insync.replicas`). Its log
   directory is probed. A response without records of the replica proves that it lacks nothing only if the response had
   room for them and the log of the replica reaches the high watermark: records of other partitions, or a quota, may
   have displaced them.
5. The directory of a replica is also reported if the partition has no leader, so that its records can at least be read.
"""

from __future__ import annotations

from enum import Enum, auto

from pykbroker.core.ids import LOST
from pykbroker.core.metadata.image import PartitionImage
from wire.sentinels import NO_LEADER

UNWRITABLE_MS_MAX = 3000.0
"""The time in ms for which a replica in the ISR may refuse all appends."""


class UnwritableStep(Enum):
    """A step of a replica that refuses appends."""

    WAIT = auto()
    """Wait for an append, new metadata, or some time."""
    LEAVE = auto()
    """Report the replica as lost."""
    PROBE = auto()
    """Look whether the log directory has room, and if so, report it."""
    RETURN = auto()
    """Report the log directory of the replica."""
    END = auto()
    """Forget the refusals: the replica can be written, or lacks nothing."""


class Unwritable:
    """The refused appends of a replica since its last successful one.

    Offsets are those below which all records are written, None while the log is not open. `is_level` is true for a
    follower that has found out since the last refusal that it lacks no records.
    """

    __slots__ = ("_offset", "_since_ms", "is_level")

    def __init__(self, now_ms: float, written_offset: int | None) -> None:
        self._since_ms, self._offset, self.is_level = now_ms, written_offset, False

    def note_refused_append(self, now_ms: float, written_offset: int | None) -> None:
        """Note another refused append. After a successful append, the time begins anew."""
        if self.is_level or self._has_written(written_offset):
            self._since_ms = now_ms
        self._offset, self.is_level = written_offset, False

    def step(
        self, placed: PartitionImage, node_id: int, now_ms: float, written_offset: int | None, *, has_successor: bool
    ) -> UnwritableStep:
        """Return the next step of broker `node_id`'s replica under this metadata.

        `has_successor` says whether another member of the ISR may be elected and, if this broker leads, has all its
        records.
        """
        has_written = self._has_written(written_offset)
        if not has_written:
            self._offset = written_offset  # which is lower after a truncation
        if placed.directory(node_id) == LOST:
            if has_written or placed.leader in (NO_LEADER, node_id):
                return UnwritableStep.RETURN
            if self.is_level:
                return UnwritableStep.PROBE
        elif has_written or self.is_level or len(placed.replicas) == 1:
            return UnwritableStep.END
        is_late = now_ms - self._since_ms >= UNWRITABLE_MS_MAX
        return UnwritableStep.LEAVE if is_late and has_successor and node_id in placed.isr else UnwritableStep.WAIT

    def _has_written(self, written_offset: int | None) -> bool:
        return written_offset is not None and (self._offset is None or written_offset > self._offset)
