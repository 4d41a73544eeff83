"""The part of a log that makes it durable: fsync, recovery point, and the files written before that point advances.

1. The recovery point advances after an fsync, and after the indexes and leader epochs below it are in their files.
2. After an fsync has failed, no other fsync is tried: the kernel drops the pages that it could not write, and a later
   fsync succeeds without them, also in the next process (see `lost_writes`). After any other error except damage, the
   next flush tries again.
3. A flush leaves out a file if the next start can get its content from the existing file or from a few KiB of batches,
   since a file takes 0.3 ms to create on ext4. A clean stop writes the rest, once for each log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager

import trio

from pykbroker.core.errors import ApiError, again
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
"""The (epoch, start offset) pairs of the leader epochs, ascending."""


class Flusher:
    """The part of a log that makes it durable.

    All records below `recovery_point` are durable. On macOS, unless a config asks for durability, it is only certain
    that they reach the device before everything that is written later. `failed` is the error that ended flushing, or
    None. No later record becomes durable after it. `is_future` is true for a future log: the log that it replaces may
    be on another device, so that its records must be durable before that log is removed.
    """

    __slots__ = (
        "_directory_synced",
        "_disk",
        "_epochs",
        "_epochs_durable",
        "_epochs_synced",
        "_offset_max",
        "_saving",
        "_segments",
        "_state",
        "_syncing",
        "_traffic",
        "_truncations",
        "failed",
        "is_future",
        "recovery_point",
    )

    def __init__(self, state: LogState, recovered: RecoveredLog) -> None:
        self._state, self._disk, self._traffic = state, state.disk, state.traffic
        self._segments, self._epochs = state.segments, state.epochs
        self.recovery_point = recovered.recovery_point
        self.failed: OSError | CorruptLog | None = None
        self.is_future = False
        self._syncing: trio.Event | None = None
        self._directory_synced, self._epochs_synced, self._saving = recovered.directory_synced, False, trio.Lock()
        self._epochs_durable = recovered.epochs_durable
        self._truncations = 0
        self._offset_max = LONG_MAX

    @property
    def _epochs_path(self) -> str:
        return f"{self._state.directory}/{EPOCHS}"

    async def wait_idle(self) -> None:
        """Wait until no flush is running. The caller may then rename files until its next await."""
        while self._syncing is not None:
            await self._syncing.wait()

    def begin_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """Begin a leader epoch at `start_offset`.

        While the log has only its first segment, the epochs are written by the next flush, since recovery would find
        them in the batches.
        """
        if self._epochs.assign(leader_epoch, start_offset):
            if self._segments.active.base_offset:
                self.save_epochs()
            else:
                self._epochs_synced = False

    def save_epochs(self) -> None:
        """Write the leader epochs without an fsync. The running or the next flush makes them durable."""
        self._epochs_synced, self._epochs_durable = False, None
        # The task that holds the lock may be writing this file. That task or the next flush writes it once more.
        if self._saving.locked():
            return
        with warned(self._epochs_path):
            replace(self._disk, self._epochs_path, encode_epochs(self._epochs.entries))

    def note_truncation(self, end: int) -> None:
        """Record that the log was truncated at `end`."""
        self._truncations += 1
        self._directory_synced = False
        self._offset_max = LONG_MAX
        self.recovery_point = min(self.recovery_point, end)
        self.save_epochs()

    def limit_checkpoints(self, end: int) -> None:
        """Keep the recovery point and the listed log start at or below `end` until the log is truncated there.

        A caller that gives the truncation up calls `lift_limit`.
        """
        self._offset_max = end
        self.recovery_point = min(self.recovery_point, end)

    def lift_limit(self) -> None:
        """Let the recovery point and the listed log start rise again, since the log is not truncated after all."""
        self._offset_max = LONG_MAX

    @property
    def start_max(self) -> int:
        """Return the highest log start offset that a checkpoint may have."""
        return min(self._state.log_start_offset, self._offset_max)

    @property
    def listed_start(self) -> int | None:
        """Return the log start offset that a checkpoint must preserve, None if the first segment begins there."""
        start = self.start_max
        return start if start > self._segments.every()[0].base_offset else None

    async def remove_epochs(self) -> None:
        """Remove the leader epoch file durably, since it records the old start of the log, which is about to change.

        A start without the file finds the epochs in the batches.
        """
        async with self._saving:  # otherwise a running flush might write the old epochs afterwards
            self._epochs_durable, self._epochs_synced = None, False
            if self._disk.exists(self._epochs_path):
                self._disk.remove(self._epochs_path)
            await self.sync_names()

    async def sync_cut(self) -> None:
        """Make a truncation of the active segment durable.

        Without this fsync, truncated records might reappear after newer records when the power fails.
        """
        with self._unless_deleted():
            await self._synced(self._segments.active.file.sync())

    async def flush(self) -> None:
        """Make all records appended before this call durable. Concurrent callers share one fsync."""
        state, target = self._state, self._state.log_end_offset
        # A truncation lowers the log end below `target`, and forbids a recovery point above `_offset_max` before it
        # begins.
        while self._segments.unsynced or self.recovery_point < min(target, state.log_end_offset, self._offset_max):
            self.require_log()
            if self.failed:
                raise again(self.failed)
            if self._syncing is not None:
                await self._syncing.wait()
            else:
                await self._sync(state.log_end_offset)

    async def _sync(self, target: int) -> None:
        self._syncing = trio.Event()
        active, sealed, truncations = self._segments.active, self._segments.take_unsynced(), self._truncations
        try:
            with self._unless_deleted():
                await self._make_durable(sealed, active)
                await self.settle(sealed)
            self._traffic.flushes += 1
            # A truncation meanwhile has lowered the recovery point, and other records may have the offsets of the
            # synced ones.
            if truncations == self._truncations:
                self.recovery_point = max(self.recovery_point, min(target, self._offset_max))
        except BaseException as failure:
            if isinstance(failure, CorruptLog):
                self.failed = failure
            self._segments.keep_unsynced(sealed)
            raise
        finally:
            self._syncing.set()
            self._syncing = None

    async def _make_durable(self, sealed: list[SealedSegment], active: ActiveSegment) -> None:
        """Flush the segments, so that a recovery point that is written later is on the device only if they are.

        Unless a config asks for more, that takes no more than a barrier.
        """
        for segment in (*sealed, active):
            await patiently(segment.require_loaded)
            asked = self.is_future or self._state.opening.config.asks_durability
            await self._synced(segment.file.sync() if asked else segment.file.barrier())
        await self.sync_directory()
        # Recovery could not find records in a segment whose name is lost.
        if sealed:
            await self._synced(self._disk.sync_directory(self._state.directory))

    async def _synced(self, fsync: Awaitable[None]) -> None:
        """Await an fsync. If it fails, set `failed`, since a later fsync may succeed without the lost pages."""
        try:
            await fsync
        except OSError as failure:
            if failure.errno not in NO_DESCRIPTOR and not self._state.is_deleted:
                self.failed = failure
                lost_writes.note(self._disk)
            raise

    async def sync_directory(self) -> None:
        """Make the directory and its partition.metadata durable. Later calls do nothing until a truncation."""
        truncations = self._truncations
        if not self._directory_synced:
            with self._unless_deleted():
                await self._sync_directory()
            self._directory_synced = truncations == self._truncations

    async def sync_names(self) -> None:
        """Make the names of the files in the directory durable."""
        with self._unless_deleted():
            await self._synced(self._disk.sync_directory(self._state.directory))
        self.require_log()

    async def _sync_directory(self) -> None:
        files = (METADATA,) if self._disk.exists(f"{self._state.directory}/{METADATA}") else ()
        await self._synced(self._disk.sync_directory(self._state.directory, files))
        await self._synced(self._disk.sync_directory(""))

    @contextmanager
    def _unless_deleted(self) -> Iterator[None]:
        """Raise ApiError instead of an OSError if the log was deleted.

        A missing file of a deleted log is no disk failure.
        """
        try:
            yield
        except OSError:
            self.require_log()
            raise

    def require_log(self) -> None:
        """Raise ApiError if the log was deleted with its files."""
        if self._state.is_deleted:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the log {self._state.directory} was deleted")

    async def settle(self, sealed: list[SealedSegment], *, indexes: bool = True) -> None:
        """Write the index files of these segments, and the leader epochs.

        If the disk is full, the files are left out, since they can be rebuilt.
        """
        for segment in sealed:
            if segment.unwritten:
                if segment.aborted_unread and (segment.aborted or segment.aborted_cut):
                    await read_aborted(self._disk, self._state.directory, self._segments.every(), segment)
                await segment.write_aborted()
                if indexes:
                    with warned(f"{self._state.directory}: an index"):
                        segment.write()
                await trio.lowlevel.checkpoint()
        # While they are written, `_epochs_synced` is true already: see `_settle_epochs`.
        if not self._epochs_synced or self._saving.locked():
            await self._settle_epochs()

    async def _settle_epochs(self) -> None:
        """Make the leader epochs durable, also those that begin during the call. One task at a time writes them."""
        async with self._saving:
            while not self._epochs_synced:
                entries = self._epochs.entries
                if self._are_recoverable(entries):
                    return  # the next flush checks again, after the log has grown
                # An epoch that begins during the write makes it false again, and the loop writes once more.
                self._epochs_synced = True
                try:
                    await replace_durably(self._disk, self._epochs_path, encode_epochs(entries))
                    self._epochs_durable = entries
                except BaseException:
                    self._epochs_synced = False
                    raise

    def unwritten_epochs(self) -> dict[str, bytes]:
        """Return the leader epoch file by path, if the log has records and the file was left out."""
        if self._epochs_durable != () or not self._segments.active.next_offset:
            return {}
        return {self._epochs_path: encode_epochs(self._epochs.entries)}

    def _are_recoverable(self, entries: Entries) -> bool:
        """Whether the next start would find these epochs in the existing file or in a few KiB of batches.

        The epochs need not be written then. Recovery drops epochs that have no records. Only the start offset of the
        first epoch must be preserved, since the log begins there.
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
