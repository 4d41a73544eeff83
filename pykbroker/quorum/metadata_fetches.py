"""The metadata log and its snapshots as the leader serves them to observers (KIP-595, KIP-630).

Records are sent once they are appended, before the leader's own fsync. An observer applies only what is below the high
watermark, which the fsync raises. A fetch that finds nothing new waits for the next append or commit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.log.epochs import OffsetAndEpoch
from pykbroker.core.raft.fetch_position import Diverging, LeaderLog, NeedsSnapshot
from pykbroker.core.raft.observers import Observers
from pykbroker.quorum.images import Images
from pykbroker.quorum.journal import ReplicatedJournal
from pykbroker.quorum.progress import LogProgress
from pykbroker.quorum.snapshots import Snapshots
from pykbroker.world.disk import Buffer, FileSlice
from wire.error_codes import ErrorCode

PARKED_MS_MAX = 500
"""The time that a fetch waits for new records or a new high watermark."""
FETCH_BYTES_MAX = 8 << 20
"""The limit on the size of one response, whatever its request allows. A larger batch is sent alone."""


class MetadataFetch(NamedTuple):
    """A request for records. `high_watermark` is the one that the observer knows already."""

    leader_epoch: int
    offset: int
    last_epoch: int
    high_watermark: int
    bytes_max: int


class Fetched(NamedTuple):
    """The records from the requested offset on, or the reason why the response has no records."""

    high_watermark: int
    log_start_offset: int
    records: Buffer | FileSlice = b""
    why_not: Diverging | NeedsSnapshot | None = None


class MetadataFetches:
    """The server of the metadata log. This node leads it in `epoch` for as long as the node runs."""

    def __init__(
        self,
        epoch: int,
        journal: ReplicatedJournal,
        images: Images,
        snapshots: Snapshots,
        progress: LogProgress,
        wall_ms: Callable[[], int],
    ) -> None:
        self.epoch, self._journal, self._images, self._snapshots = epoch, journal, images, snapshots
        self._progress, self._wall_ms = progress, wall_ms
        self.observers = Observers()

    @property
    def high_watermark(self) -> int:
        """Return the offset below which all records are durable and committed."""
        return self._images.committed.offset + 1

    @property
    def log_end_offset(self) -> int:
        """Return the offset of the next record."""
        return self._journal.log_end_offset

    def check_epoch(self, epoch: int) -> None:
        """Raise ApiError if a request has another leader epoch. -1 stands for no epoch and is allowed."""
        if 0 <= epoch < self.epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        if epoch > self.epoch:
            raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    async def fetch(self, wanted: MetadataFetch, replica_id: int, directory_id: bytes, wait_ms: int) -> Fetched:
        """Return records. If there is nothing new, wait for it, at most `wait_ms` and `PARKED_MS_MAX`.

        Raise ApiError FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH.
        """
        self.check_epoch(wanted.leader_epoch)
        log = self._log()
        why_not = log.check(wanted.offset, wanted.last_epoch)
        if why_not is None:
            with trio.move_on_after(max(0, min(wait_ms, PARKED_MS_MAX)) / 1000):
                while wanted.offset >= self.log_end_offset and wanted.high_watermark >= self.high_watermark:
                    await self._progress.wait()
        if replica_id >= 0 and why_not is None:
            self.observers.fetched(replica_id, directory_id, wanted.offset, self.log_end_offset, self._wall_ms())
        return await self._read(wanted, why_not)

    async def _read(self, wanted: MetadataFetch, why_not: Diverging | NeedsSnapshot | None) -> Fetched:
        journal, bytes_max = self._journal, min(wanted.bytes_max, FETCH_BYTES_MAX)
        high_watermark, log_start_offset = self.high_watermark, journal.log_start_offset
        if why_not is not None or wanted.offset >= journal.log_end_offset:
            return Fetched(high_watermark, log_start_offset, b"", why_not)
        try:
            # Observers also get uncommitted records. They apply them once the high watermark has passed them (KIP-595).
            records = await journal.read_patiently(wanted.offset, bytes_max, journal.log_end_offset, at_least_one=True)
        except ApiError:  # the retention has just deleted these records
            # `check(0, 0)` names the newest snapshot.
            return Fetched(high_watermark, journal.log_start_offset, b"", self._log().check(0, 0))
        return Fetched(high_watermark, log_start_offset, records)

    async def read_snapshot(self, snapshot: OffsetAndEpoch, position: int, bytes_max: int) -> tuple[int, Buffer]:
        """Return the size of a snapshot, and its bytes from `position` on.

        Raise ApiError SNAPSHOT_NOT_FOUND or POSITION_OUT_OF_RANGE.
        """
        if snapshot not in self._snapshots.ids() or snapshot.offset == 0:
            raise ApiError(ErrorCode.SNAPSHOT_NOT_FOUND)
        size = self._snapshots.size(snapshot)
        if not 0 <= position < size:
            raise ApiError(ErrorCode.POSITION_OUT_OF_RANGE)
        return size, await self._snapshots.read_part(snapshot, position, min(bytes_max, FETCH_BYTES_MAX))

    def _log(self) -> LeaderLog:
        journal = self._journal
        snapshots = tuple(self._snapshots.ids())
        return LeaderLog(journal.epochs, journal.log_start_offset, journal.log_end_offset, snapshots)
