"""How far one log is safe from a crash, and what must be on disk before that is said.

1. The recovery point moves after an fsync, and after all that goes with the log below it was brought to its files.
2. A failed fsync is final: the kernel forgets what it could not write, and a later one succeeds without it, also in
   the next process (see `lost_writes`). What fails before it is tried again with the next flush, but for damage.
3. A file is not written that would tell the next start no more than the one that is there, or than a few KiB of
   batches do. Files cost a stop more than anything else does: 0.3 ms each to make one on ext4, with thousands of logs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Protocol

import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.log.epochs import LeaderEpochs
from pykbroker.storage.files import lost_writes
from pykbroker.storage.files.checkpoints import EPOCHS, encode_epochs
from pykbroker.storage.files.errors import CorruptLog, patiently
from pykbroker.storage.files.partition_directory import METADATA
from pykbroker.storage.files.refusals import NO_DESCRIPTOR
from pykbroker.storage.files.small_files import replace, replace_durably, warned
from pykbroker.storage.recovery.rebuild import read_aborted
from pykbroker.storage.segments.config import LONG_MAX
from pykbroker.storage.segments.opening import REPLAYED_BYTES_MAX, Opening
from pykbroker.storage.segments.sealed import SealedSegment
from pykbroker.storage.segments.segment import ActiveSegment
from pykbroker.storage.segments.segments import Segments
from wire.error_codes import ErrorCode

Entries = tuple[tuple[int, int], ...]
"""(epoch, start offset) of leader epochs, ascending."""


class Growing(Protocol):
    """A log that is appended to while it is flushed."""

    log_end_offset: int


class Durability:
    """All below `recovery_point` is durable. `failed`: why nothing more will be. `is_deleted`: the log is gone."""

    def __init__(
        self,
        opening: Opening,
        segments: Segments,
        epochs: LeaderEpochs,
        recovery_point: int,
        *,
        is_placed: bool,
        epochs_durable: Entries | None,
    ) -> None:
        self._disk, self._opening, self._traffic = opening.disk, opening, opening.traffic
        self._segments, self._epochs = segments, epochs
        self.recovery_point = recovery_point
        self.failed: OSError | CorruptLog | None = None
        self.is_deleted = False
        self._syncing: trio.Event | None = None
        self._is_placed, self._epochs_synced, self._saving = is_placed, False, trio.Lock()
        self._epochs_durable = epochs_durable
        self._retreats = 0
        self._ceiling = LONG_MAX

    @property
    def _directory(self) -> str:
        return self._opening.directory

    @property
    def _epochs_path(self) -> str:
        return f"{self._directory}/{EPOCHS}"

    async def wait_idle(self) -> None:
        """Until no flush is under way: from now to the next await, nobody works with the names of files."""
        while self._syncing is not None:
            await self._syncing.wait()

    def note_epochs(self) -> None:
        """An epoch began in a log from offset 0 on: the next flush writes it. Until then recovery has the batches."""
        self._epochs_synced = False

    def save_epochs(self) -> None:
        """Write the leader epochs, not yet durably: the next flush does that, or the one that is at it."""
        self._epochs_synced, self._epochs_durable = False, None
        if self._saving.locked():
            return
        with warned(self._epochs_path):
            replace(self._disk, self._epochs_path, encode_epochs(self._epochs.entries))

    def retreat(self, end: int) -> None:
        """The log was cut at `end`."""
        self._retreats += 1
        self._is_placed = False
        self._ceiling = LONG_MAX
        self.recovery_point = min(self.recovery_point, end)
        self.save_epochs()

    def forgo(self, end: int) -> None:
        """The log will be cut at `end`: the recovery point does not go beyond it before that was done."""
        self._ceiling = end
        self.recovery_point = min(self.recovery_point, end)

    async def forget_epochs(self) -> None:
        """Have no file that says where the log began: it will begin elsewhere."""
        self._epochs_durable = None
        if self._disk.exists(self._epochs_path):
            self._disk.remove(self._epochs_path)
        await self.sync_names()

    async def sync_cut(self) -> None:
        """Make durable that the active segment was cut: else what is written there might be followed by what was."""
        with self._unless_deleted():
            await self._synced(self._segments.active.file.sync())

    async def flush(self, log: Growing) -> None:
        """Make all that stands in `log` now durable. Callers that come together share one fsync."""
        target = log.log_end_offset
        while self.recovery_point < min(target, log.log_end_offset, self._ceiling) or self._segments.unsynced:
            self.require_log()
            if self.failed:
                raise self.failed
            if self._syncing is not None:
                await self._syncing.wait()
            else:
                await self._sync(log.log_end_offset)

    async def _sync(self, target: int) -> None:
        self._syncing = trio.Event()
        active, sealed, retreats = self._segments.active, self._segments.unsynced, self._retreats
        self._segments.unsynced = []
        try:
            with self._unless_deleted():
                await self._make_durable(sealed, active)
                await self.settle(sealed)
            self._traffic.flushes += 1
            if retreats == self._retreats:
                self.recovery_point = max(self.recovery_point, min(target, self._ceiling))
        except BaseException as failure:
            if isinstance(failure, CorruptLog):
                self.failed = failure
            kept = [segment for segment in sealed if not segment.is_dropped]
            self._segments.unsynced = [*kept, *self._segments.unsynced]
            raise
        finally:
            self._syncing.set()
            self._syncing = None

    async def _make_durable(self, sealed: list[SealedSegment], active: ActiveSegment) -> None:
        for segment in (*sealed, active):
            await patiently(segment.require_loaded)
            await self._synced(segment.file.sync())
        await self.place()
        if sealed:
            await self._synced(self._disk.sync_directory(self._directory))

    async def _synced(self, fsync: Awaitable[None]) -> None:
        """Wait for it; once it fails, nothing that a later one says counts."""
        try:
            await fsync
        except OSError as failure:
            if failure.errno not in NO_DESCRIPTOR and not self.is_deleted:
                self.failed = failure
                lost_writes.note(self._disk)
            raise

    async def place(self) -> None:
        """Make the directory itself durable, with what says whose it is; once is enough."""
        retreats = self._retreats
        if not self._is_placed:
            with self._unless_deleted():
                await self._place()
            self._is_placed = retreats == self._retreats

    async def sync_names(self) -> None:
        """Make it durable which files there are."""
        with self._unless_deleted():
            await self._synced(self._disk.sync_directory(self._directory))
        self.require_log()

    async def _place(self) -> None:
        files = (METADATA,) if self._disk.exists(f"{self._directory}/{METADATA}") else ()
        await self._synced(self._disk.sync_directory(self._directory, files))
        await self._synced(self._disk.sync_directory(""))

    @contextmanager
    def _unless_deleted(self) -> Iterator[None]:
        """What cannot be found in a log that was deleted meanwhile is not the disk's failure."""
        try:
            yield
        except OSError:
            self.require_log()
            raise

    def require_log(self) -> None:
        """ApiError: the log was deleted, and has no files any more."""
        if self.is_deleted:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self._directory} is deleted")

    async def settle(self, sealed: list[SealedSegment], *, indexes: bool = True) -> None:
        """Write what goes with these segments, and the leader epochs. A full disk costs what can be rebuilt."""
        for segment in sealed:
            if segment.unwritten:
                if segment.aborted and segment.aborted_unread:
                    await read_aborted(self._disk, self._directory, self._segments.every(), segment)
                await segment.write_aborted()
                if indexes:
                    with warned(f"{self._directory}: an index"):
                        segment.write()
                await trio.lowlevel.checkpoint()
        if not self._epochs_synced or self._saving.locked():
            await self._settle_epochs()

    async def _settle_epochs(self) -> None:
        """They are durable as they are now, also where they change meanwhile: one at a time writes them."""
        async with self._saving:
            while not self._epochs_synced:
                entries = self._epochs.entries
                if self._are_told(entries):
                    return  # and asked again when the log has grown
                self._epochs_synced = True
                try:
                    await replace_durably(self._disk, self._epochs_path, encode_epochs(entries))
                    self._epochs_durable = entries
                except BaseException:
                    self._epochs_synced = False
                    raise

    def _are_told(self, entries: Entries) -> bool:
        """Whether the next start knows these epochs: from the file, or, where there is none, from few batches.

        It forgets those in which nothing was appended, but for where the first one begins: there the log does.
        """
        durable, active = self._epochs_durable, self._segments.active
        if durable is None:
            return False
        if not durable and not active.base_offset and active.size <= REPLAYED_BYTES_MAX:
            return True
        end = active.next_offset
        return [start for _, start in entries[:1]] == [start for _, start in durable[:1]] and [
            one for one in entries if one[1] < end
        ] == [one for one in durable if one[1] < end]
