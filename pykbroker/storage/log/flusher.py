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

import trio

from pykbroker.core.errors import ApiError
from pykbroker.storage.files import lost_writes
from pykbroker.storage.files.checkpoints import EPOCHS, encode_epochs
from pykbroker.storage.files.errors import CorruptLog, patiently
from pykbroker.storage.files.partition_directory import METADATA
from pykbroker.storage.files.refusals import NO_DESCRIPTOR
from pykbroker.storage.files.small_files import replace, replace_durably, warned
from pykbroker.storage.log.state import LogState
from pykbroker.storage.recovery.rebuild import read_aborted
from pykbroker.storage.recovery.recovery import RecoveredLog
from pykbroker.storage.segments.config import LONG_MAX
from pykbroker.storage.segments.opening import REPLAYED_BYTES_MAX
from pykbroker.storage.segments.sealed import SealedSegment
from pykbroker.storage.segments.segment import ActiveSegment
from wire.error_codes import ErrorCode

Entries = tuple[tuple[int, int], ...]
"""(epoch, start offset) of leader epochs, ascending."""


class Flusher:
    """The part of a log that makes it durable.

    All records below `recovery_point` are durable. `failed` is the error after which no later record can become so.
    """

    __slots__ = (
        "_disk",
        "_epochs",
        "_epochs_durable",
        "_epochs_synced",
        "_is_placed",
        "_recovery_point_max",
        "_saving",
        "_segments",
        "_state",
        "_syncing",
        "_traffic",
        "_truncations",
        "failed",
        "recovery_point",
    )

    def __init__(self, state: LogState, recovered: RecoveredLog) -> None:
        self._state, self._disk, self._traffic = state, state.disk, state.traffic
        self._segments, self._epochs = state.segments, state.epochs
        self.recovery_point = recovered.recovery_point
        self.failed: OSError | CorruptLog | None = None
        self._syncing: trio.Event | None = None
        self._is_placed, self._epochs_synced, self._saving = recovered.is_placed, False, trio.Lock()
        self._epochs_durable = recovered.epochs_durable
        self._truncations = 0
        self._recovery_point_max = LONG_MAX

    @property
    def _directory(self) -> str:
        return self._state.opening.directory

    @property
    def _epochs_path(self) -> str:
        return f"{self._directory}/{EPOCHS}"

    async def wait_idle(self) -> None:
        """Until no flush is under way: from now to the next await, nobody works with the names of files."""
        while self._syncing is not None:
            await self._syncing.wait()

    def begin_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """Begin a leader epoch at `start_offset`.

        While the first segment is active, only the next flush writes the epochs: recovery has the batches until then.
        """
        if self._epochs.assign(leader_epoch, start_offset):
            if self._segments.active.base_offset:
                self.save_epochs()
            else:
                self._epochs_synced = False

    def save_epochs(self) -> None:
        """Write the leader epochs, not yet durably: the next flush does that, or the one that is at it."""
        self._epochs_synced, self._epochs_durable = False, None
        if self._saving.locked():
            return
        with warned(self._epochs_path):
            replace(self._disk, self._epochs_path, encode_epochs(self._epochs.entries))

    def note_truncation(self, end: int) -> None:
        """The log was cut at `end`."""
        self._truncations += 1
        self._is_placed = False
        self._recovery_point_max = LONG_MAX
        self.recovery_point = min(self.recovery_point, end)
        self.save_epochs()

    def limit_recovery_point(self, end: int) -> None:
        """The log will be cut at `end`: the recovery point does not go beyond it before that was done."""
        self._recovery_point_max = end
        self.recovery_point = min(self.recovery_point, end)

    async def remove_epochs(self) -> None:
        """Have no file that says where the log began: it will begin elsewhere."""
        self._epochs_durable = None
        if self._disk.exists(self._epochs_path):
            self._disk.remove(self._epochs_path)
        await self.sync_names()

    async def sync_cut(self) -> None:
        """Make durable that the active segment was cut: else what is written there might be followed by what was."""
        with self._unless_deleted():
            await self._synced(self._segments.active.file.sync())

    async def flush(self) -> None:
        """Make all records appended before this call durable. Concurrent callers share one fsync."""
        state, target = self._state, self._state.log_end_offset
        while self._segments.unsynced or self.recovery_point < min(
            target, state.log_end_offset, self._recovery_point_max
        ):
            self.require_log()
            if self.failed:
                raise self.failed
            if self._syncing is not None:
                await self._syncing.wait()
            else:
                await self._sync(state.log_end_offset)

    async def _sync(self, target: int) -> None:
        self._syncing = trio.Event()
        active, sealed, truncations = self._segments.active, self._segments.unsynced, self._truncations
        self._segments.unsynced = []
        try:
            with self._unless_deleted():
                await self._make_durable(sealed, active)
                await self.settle(sealed)
            self._traffic.flushes += 1
            if truncations == self._truncations:
                self.recovery_point = max(self.recovery_point, min(target, self._recovery_point_max))
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
            if failure.errno not in NO_DESCRIPTOR and not self._state.is_deleted:
                self.failed = failure
                lost_writes.note(self._disk)
            raise

    async def place(self) -> None:
        """Make the directory itself durable, with what says whose it is; once is enough."""
        truncations = self._truncations
        if not self._is_placed:
            with self._unless_deleted():
                await self._place()
            self._is_placed = truncations == self._truncations

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
        if self._state.is_deleted:
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
                if self._can_be_rebuilt(entries):
                    return  # and asked again when the log has grown
                self._epochs_synced = True
                try:
                    await replace_durably(self._disk, self._epochs_path, encode_epochs(entries))
                    self._epochs_durable = entries
                except BaseException:
                    self._epochs_synced = False
                    raise

    def _can_be_rebuilt(self, entries: Entries) -> bool:
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
