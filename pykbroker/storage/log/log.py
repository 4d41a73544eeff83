"""One partition's log: appends go to its active segment, reads come from the tail in memory or from the files."""

# fmt: off
from __future__ import annotations

import logging
from collections.abc import Callable
from struct import Struct, error

import msgspec
import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.log.producers import Marker, WrittenBatch
from pykbroker.core.log.verification import Verification
from pykbroker.storage.files.errors import CorruptLog
from pykbroker.storage.files.small_files import replace, warned
from pykbroker.storage.files.traffic import Traffic
from pykbroker.storage.log.durability import Durability
from pykbroker.storage.log.log_reads import LogReads
from pykbroker.storage.log.retention import expired
from pykbroker.storage.log.rewrite import is_long_work, opens_records, rewrites, rewritten
from pykbroker.storage.log.swap import require_sources, swap
from pykbroker.storage.log.validate import (
    COMPRESSED_RECORDS_MAX,
    RECORD_BYTES_MIN,
    REFUSED_ATTRIBUTES,
    refusal,
    single_batch,
)
from pykbroker.storage.recovery import producer_snapshot
from pykbroker.storage.recovery.rebuild import producers_at
from pykbroker.storage.recovery.recovery import NO_SNAPSHOT, LogState, begin, needs_snapshot, recover
from pykbroker.storage.recovery.replay import remember
from pykbroker.storage.segments.cleaned import CleanedSegment
from pykbroker.storage.segments.config import LONG_MAX, LogConfig
from pykbroker.storage.segments.leftovers import offsets_of
from pykbroker.storage.segments.opening import Loaded, Opening
from pykbroker.storage.segments.scrub import Paced, check
from pykbroker.storage.segments.sealed import SealedSegment
from pykbroker.storage.segments.segment import ActiveSegment, file_name
from pykbroker.storage.segments.tail import KEEP_BYTES_MAX
from pykbroker.world.disk import Buffer, Disk
from pykbroker.world.off_loop import OffLoop
from wire.error_codes import ErrorCode
from wire.errors import DecodeError
from wire.records.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    HEADER,
    LENGTH_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
    Batch,
    batches,
)
from wire.records.compression import Codec
from wire.records.control import transaction_marker
from wire.records.crc import crc32c

logger = logging.getLogger(__name__)

PLACE = Struct(">qii")
"""base offset, batch length, leader epoch: what a broker writes over, outside the CRC."""
AFTER_PLACE = PLACE.size
NOTHING = -1
"""Below all offsets."""

CODEC_MAX = max(Codec)
UNEXPLAINED = "a batch was refused that breaks no rule"

unpack_header = HEADER.unpack_from


def no_jitter(_below: int) -> int:
    """Segments roll exactly when `segment.ms` says."""
    return 0


class Appended(msgspec.Struct, gc=False):
    """Where a batch stands. Times in ms, -1 when its records bear the producer's."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int = -1
    duplicate: bool = False


class Log(LogReads):
    """Offsets are absolute, sizes in bytes, times in ms since 1970.

    1. An append that raises has changed nothing. One that returns is in the page cache; `flush` makes it durable.
    2. A failed fsync is final (`failed`): what was written may be lost though a later one succeeds.
    """

    def __init__(self, opening: Opening, off_loop: OffLoop, state: LogState) -> None:
        super().__init__(opening, off_loop, state)
        self._off_loop = off_loop
        self._reshaping = trio.Lock()
        self._durability = Durability(opening, self._segments, self.epochs, state.recovery_point,
                                      is_placed=state.is_placed, epochs_durable=state.epochs_durable)
        self._snapshot_offset = state.snapshot_offset
        self.configure(opening.config)

    @classmethod
    async def open(cls, disk: Disk, directory: str, config: LogConfig, *, off_loop: OffLoop, now_ms: int = 0,
                   recovery_point: int = 0, log_start_offset: int = 0, cleaned_offset: int = 0,
                   high_watermark: int = 0, clean: bool = False,
                   jitter: Callable[[int], int] = no_jitter, loaded: Loaded | None = None,
                   traffic: Traffic | None = None) -> Log:
        """Recover the log in `directory`, which exists; an empty one begins at `log_start_offset`.

        `recovery_point`: all below is known to be synced; `high_watermark`: all below was there. `clean`: the last
        broker here closed it. `jitter` draws a number below its argument. `loaded`, `traffic`: shared by the logs of a
        disk. CorruptLog: damage below the recovery point.
        """
        opening = Opening(disk, directory, config, loaded or Loaded(), jitter, traffic or Traffic(), recovery_point,
                          log_start_offset, cleaned_offset, high_watermark)
        state = await recover(opening, clean=clean)
        state.producers.expire(now_ms, config.producer_id_expiration_ms)
        return cls(opening, off_loop, state)

    @classmethod
    def create(cls, disk: Disk, directory: str, config: LogConfig, *, off_loop: OffLoop,
               jitter: Callable[[int], int] = no_jitter, loaded: Loaded | None = None,
               traffic: Traffic | None = None) -> Log:
        """Begin a log at offset 0 in a directory that holds no segment: one file is created. OSError: it is not."""
        opening = Opening(disk, directory, config, loaded or Loaded(), jitter, traffic or Traffic())
        return cls(opening, off_loop, begin(opening))

    def configure(self, config: LogConfig) -> None:
        """Use these configs from now on."""
        self.config = self._opening.config = config
        self._active.configure(config)
        self._rewrites = rewrites(config)
        self._batch_bytes_max = min(config.max_message_bytes, config.segment_bytes)
        untimed = config.log_append_time or opens_records(config)
        self._ahead_ms_max = LONG_MAX if untimed else config.message_timestamp_after_max_ms

    # Appending

    def append(self, data: Buffer, leader_epoch: int, now_ms: int, shown: Verification | None = None) -> Appended:
        """Validate a client's batch, give it offsets, write it. ApiError: it is refused. OSError: the disk refuses.

        LongWork: `needs_off_loop` could not tell that it belongs off the loop.
        Small batches are copied; a large one in a writable buffer is patched where it lies. `shown`: for one that
        begins a transaction here, what `producers.begin_verification` said.
        """
        size = len(data)
        try:
            (base, length, _, magic, crc, attributes, delta, _, max_timestamp, producer_id, epoch, sequence,
             count) = unpack_header(data)
        except error:
            raise ApiError(ErrorCode.INVALID_RECORD, "the request holds no whole record batch") from None
        if length + LENGTH_OVERHEAD != size:
            return self.append(single_batch(data), leader_epoch, now_ms, shown)
        if (magic != MAGIC or base or count <= 0 or delta + 1 != count or size > self._batch_bytes_max
                or attributes & REFUSED_ATTRIBUTES > CODEC_MAX or max_timestamp - now_ms > self._ahead_ms_max
                or (sequence < 0 <= producer_id) or crc32c(data, CRC_START) != crc
                or count > COMPRESSED_RECORDS_MAX or (count * RECORD_BYTES_MIN > size and not attributes & CODEC_MASK)):
            raise refusal(data, self.config, now_ms) or AssertionError(UNEXPLAINED)
        if self._rewrites:
            return self.append_opened(rewritten(Batch.read(data), self.config, now_ms, at_once=True), leader_epoch,
                                      shown)
        if producer_id >= 0:
            transactional = attributes & TRANSACTIONAL != 0
            written = self.producers.check(producer_id, epoch, sequence, delta, transactional, shown)
            if written is not None:
                return duplicate(written)
            try:
                base = self._write(data, size, length, delta, max_timestamp, leader_epoch)
            except OSError:
                self.producers.note_unwritten(producer_id, epoch, sequence)
                raise
            self.producers.remember(producer_id, epoch, sequence, base, delta, max_timestamp, transactional)
        else:
            base = self._write(data, size, length, delta, max_timestamp, leader_epoch)
        return Appended(base, base + delta)

    def _append_trusted(self, batch: Batch, leader_epoch: int) -> Appended:
        base = self._write(batch.buffer, batch.size, batch.batch_length, batch.last_offset_delta, batch.max_timestamp,
                           leader_epoch)
        if batch.producer_id >= 0:
            self._remember(msgspec.structs.replace(batch, base_offset=base, leader_epoch=leader_epoch))
        return Appended(base, base + batch.last_offset_delta,
                        batch.max_timestamp if batch.is_log_append_time else -1)

    def _write(self, data: Buffer, size: int, length: int, delta: int, max_timestamp: int, leader_epoch: int) -> int:
        """Put one batch at the end, under the next offset; answers that offset."""
        base = self.log_end_offset
        last = base + delta
        segment = self._active
        if ((segment.size + size > segment.size_max or max_timestamp > segment.timestamp_max
                or last > segment.offset_max) and segment.size):
            segment = self._roll()
        chunk: bytes | None = None
        if size <= KEEP_BYTES_MAX:
            data = chunk = PLACE.pack(base, length, leader_epoch) + data[AFTER_PLACE:]
        elif isinstance(data, bytes) or (isinstance(data, memoryview) and data.readonly):
            data = PLACE.pack(base, length, leader_epoch) + data[AFTER_PLACE:]
        else:
            PLACE.pack_into(data, 0, base, length, leader_epoch)
        segment.file.append(data)
        self._traffic.bytes_in += size
        self._tail.add(base, segment.size, chunk)
        segment.note(size, last, max_timestamp)
        self.log_end_offset = last + 1
        if leader_epoch != self.epochs.latest:
            self._assign_epoch(leader_epoch, base)
        return base

    def needs_off_loop(self, data: Buffer) -> bool:
        """Whether `append` would open so large a batch that it belongs off the loop: then use `open_off_loop`."""
        return self._rewrites and is_long_work(data, self.config)

    async def open_off_loop(self, data: Buffer, now_ms: int) -> Batch:
        """The first half of `append`, in a thread: look at the batch and rewrite it. `data` must not change meanwhile.

        The other half is `append_opened`; between them anything may have happened to the log.
        """
        return await self._off_loop(checked_and_rewritten, data, self.config, now_ms)

    def append_opened(self, batch: Batch, leader_epoch: int, shown: Verification | None = None) -> Appended:
        """The other half. ApiError: it is refused. OSError: the disk refuses."""
        if batch.producer_id >= 0:
            written = self.producers.check(batch.producer_id, batch.producer_epoch, batch.base_sequence,
                                           batch.last_offset_delta, batch.is_transactional, shown)
            if written is not None:
                return duplicate(written)
        try:
            return self._append_trusted(batch, leader_epoch)
        except OSError:
            self.producers.note_unwritten(batch.producer_id, batch.producer_epoch, batch.base_sequence)
            raise

    def append_as_leader(self, data: Buffer, leader_epoch: int, shown: Verification | None = None) -> Appended:
        """Append a batch that this broker made: control, coordinator or metadata records.

        ApiError: its producer is fenced, or it would begin a transaction here without being `shown` to be part of it.
        """
        _, length, _, _, _, attributes, delta, _, max_timestamp, producer_id, epoch, _, _ = unpack_header(data)
        if producer_id >= 0:
            if attributes & (TRANSACTIONAL | CONTROL) == TRANSACTIONAL:
                self.producers.check_verified(producer_id, epoch, shown)
            return self._append_trusted(Batch.read(data), leader_epoch)
        base = self._write(data, len(data), length, delta, max_timestamp, leader_epoch)
        return Appended(base, base + delta)

    def append_marker(self, marker: Marker, leader_epoch: int, now_ms: int) -> Appended:
        """Append the end of a transaction. ApiError: its producer or its coordinator was fenced."""
        self.producers.check_marker(marker)
        batch = transaction_marker(
            commit=marker.commit, producer_id=marker.producer_id, producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch, timestamp=now_ms)
        return self._append_trusted(Batch.read(batch), leader_epoch)

    def append_stored(self, data: Buffer) -> Appended:
        """Append batches as their leader stores them, offsets and epochs included. CORRUPT_MESSAGE: nothing changed."""
        try:
            found = list(batches(data, strict=True))
        except DecodeError as damage:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(damage)) from damage
        following = self.log_end_offset
        for batch in found:
            if batch.base_offset < following or not batch.crc_ok():
                raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"batch of offset {batch.base_offset} does not follow "
                               f"{following}, or is damaged")
            following = batch.last_offset + 1
        for batch in found:
            self._append_copy(batch)
        return Appended(found[0].base_offset, found[-1].last_offset) if found else Appended(-1, -1)

    def _append_copy(self, batch: Batch) -> None:
        segment = self._active
        if segment.refuses(batch.size, batch.last_offset, batch.max_timestamp):
            segment = self._roll()
        segment.file.append(batch.buffer)
        self._traffic.bytes_in += batch.size
        if batch.base_offset != self.log_end_offset:
            self._tail.clear()  # which knows no gaps
        self._tail.add(batch.base_offset, segment.size,
                       bytes(batch.buffer) if batch.size <= KEEP_BYTES_MAX else None)
        segment.note_batch(batch)
        self.log_end_offset = batch.last_offset + 1
        if batch.leader_epoch != self.epochs.latest:
            self._assign_epoch(batch.leader_epoch, batch.base_offset)
        self._remember(batch)

    def _remember(self, batch: Batch) -> None:
        if aborted := remember(self.producers, batch):
            self._active.aborted.append(aborted)

    def _roll(self) -> ActiveSegment:
        """Seal the active segment and begin another one at the log end offset. OSError: nothing changed."""
        self._active = self._segments.roll(self.log_end_offset)
        self._tail.clear()
        self._take_snapshot()
        return self._active

    def _take_snapshot(self) -> None:
        """Keep the producers as they are at the log end offset; without it recovery reads more of the log."""
        path = file_name(self.directory, self.log_end_offset, ".snapshot")
        with warned(path):
            replace(self._disk, path, producer_snapshot.encode(self.producers.entries()))
            self._snapshot_offset = self.log_end_offset

    # Leadership

    def become_leader(self, leader_epoch: int) -> None:
        """An epoch in which this broker leads begins here, also if nothing will be appended in it.

        The epochs of a log that has never held a record are written by its first flush: until then all that a start
        needs to know of them stands in the batches.
        """
        if self.log_end_offset:
            self._assign_epoch(leader_epoch, self.log_end_offset)
        else:
            self.epochs.assign(leader_epoch, 0)

    def _assign_epoch(self, leader_epoch: int, start_offset: int) -> None:
        if self.epochs.assign(leader_epoch, start_offset):
            if self._active.base_offset:
                self._durability.save_epochs()
            else:
                self._durability.note_epochs()

    # Flushing

    @property
    def recovery_point(self) -> int:
        """All below is durable."""
        return self._durability.recovery_point

    @property
    def failed(self) -> OSError | CorruptLog | None:
        """What made a flush fail; nothing that was appended since the last one counts any more."""
        return self._durability.failed

    @property
    def flush_due(self) -> bool:
        """Whether a flush must come before what was appended is acknowledged."""
        waiting = self.log_end_offset - self.recovery_point
        return waiting >= self.config.flush_messages or (waiting > 0 and self.config.flush_before_ack)

    @property
    def committable_offset(self) -> int:
        """How far the log may be committed: to its end, or only to what no power loss takes back."""
        return self.recovery_point if self.config.flush_before_ack else self.log_end_offset

    @property
    def has_rolled(self) -> bool:
        """Whether sealed segments wait for `flush`."""
        return bool(self._segments.unsynced)

    @property
    def unflushed_segment_count(self) -> int:
        """How many sealed segments wait for `flush`, each with its file open."""
        return len(self._segments.unsynced)

    async def flush(self) -> None:
        """Make all that was appended before this call durable. Callers that come together share one fsync.

        ApiError: the log was deleted meanwhile. OSError: try again, unless `failed`. CorruptLog: a sealed segment is.
        """
        await self._durability.flush(self)

    async def place(self) -> None:
        """Make the directory itself durable, with what says whose it is."""
        await self._durability.place()

    # Looking after

    async def scrub(self, pace: Paced) -> None:
        """Read all that is stored with its checksums. CorruptLog: it does not hold. OSError: the disk refuses.

        What is let go or compacted meanwhile is nobody's concern any more.
        """
        for segment in self._segments.every():
            try:
                await check(segment, self.directory, 0, segment.size, pace)
            except (CorruptLog, OSError):
                if segment in self._segments.every() and not self.is_deleted:
                    raise

    # Shrinking

    def delete_records(self, offset: int) -> int:
        """The log starts at `offset` from now on, if that is later; answers its start. Files go with `retain`."""
        if offset > self.log_end_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is above the end {self.log_end_offset}")
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            if self.epochs.truncate_start(offset):
                self._durability.save_epochs()
        return self.log_start_offset

    async def retain(self, now_ms: int, high_watermark: int) -> None:
        """Let go of whole segments below `high_watermark` that are too old, too much, or below the log's start."""
        async with self._reshaping:
            doomed, why = await expired(self._segments, self.config, self.log_start_offset, high_watermark, now_ms)
            if not doomed:
                return
            if doomed > len(self._segments.sealed):
                self._roll()
            start = self._segments.every()[doomed].base_offset
            logger.info("%s: segments below offset %d are deleted: %s", self.directory, start, why)
            self.delete_records(start)
            await self._let_go(start)

    async def _let_go(self, start: int) -> None:
        """Drop the segments below `start`, one after the other: no power loss leaves a gap between those that stay.

        That it begins at `start` is durable before, if the disk has room for that.
        """
        with warned(f"{self.directory}: the leader epochs"):
            await self._durability.settle([])
        await self._durability.sync_names()
        while self._segments.every()[0].base_offset < start:
            self._segments.drop_oldest()
            await self._durability.sync_names()

    async def truncate(self, offset: int) -> None:
        """Drop the batch that holds `offset` and all behind it, durably. The caller keeps appends away meanwhile.

        And it has seen to it that no checkpoint says more to be durable than what stays: `LogDirectory.truncate` does.
        """
        async with self._reshaping:
            if offset >= self.log_end_offset:
                return
            if offset < self._segments.every()[0].base_offset:
                await self._begin_anew(offset)
            else:
                self._tail.clear()
                await self._drop_above(offset)
                self._active = await self._segments.cut(offset)
                await self._durability.sync_cut()
                await self._resume_at(self._active.next_offset)

    async def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; the next batch has `offset`, or a later one. The caller keeps appends away meanwhile."""
        async with self._reshaping:
            await self._begin_anew(offset)

    async def _drop_above(self, offset: int) -> None:
        """Drop the segments above `offset`, but the first, from the last on: no power loss leaves a gap."""
        while self._segments.sealed and self._segments.active.base_offset > offset:
            self._active = await self._segments.drop_newest()
            await self._durability.sync_names()

    async def _begin_anew(self, offset: int) -> None:
        self._tail.clear()
        await self._durability.forget_epochs()
        await self._drop_above(NOTHING)
        self._active = self._segments.begin_anew(offset)
        await self._durability.sync_names()
        self.log_start_offset = offset
        await self._resume_at(offset)

    async def _resume_at(self, end: int) -> None:
        """The log ends at `end` now: forget what was known of offsets above."""
        self.log_end_offset = end
        self.log_start_offset = min(self.log_start_offset, end)
        self.cleaned_offset = min(self.cleaned_offset, end)
        kept = NO_SNAPSHOT
        for taken in offsets_of(self._disk.names(self.directory), ".snapshot"):
            if taken > end:
                self._disk.remove(file_name(self.directory, taken, ".snapshot"))
            else:
                kept = taken
        self._snapshot_offset = kept
        self.epochs.truncate_end(end)
        self._durability.retreat(end)
        self.producers = await producers_at(self._disk, self.directory, self._segments.every(), end)

    def begin_cleaned(self, sources: list[SealedSegment]) -> CleanedSegment:
        """What these segments, which follow each other, are to become."""
        return CleanedSegment(self._opening, sources, self._durability.require_log)

    async def swap_in(self, cleaned: CleanedSegment) -> None:
        """Let a compacted segment take the place of its sources.

        Interrupted: they are not there any more. ApiError: the log was deleted. OSError: the disk refused.
        """
        sealed = await cleaned.finish()
        async with self._reshaping:
            require_sources(self._segments, cleaned.sources)
            with trio.CancelScope(shield=True):
                await swap(self._opening, self._segments, self._durability, cleaned.sources, sealed)

    @property
    def cleaned_offset(self) -> int:
        """All below was compacted; where compaction goes on."""
        return self._opening.cleaned_offset

    @cleaned_offset.setter
    def cleaned_offset(self, offset: int) -> None:
        self._opening.cleaned_offset = offset

    def forgo(self, offset: int) -> None:
        """From now on nothing from `offset` on is said to be durable, until the log was truncated there."""
        self._durability.forgo(offset)

    def take_doomed(self) -> list[str]:
        """Files that were let go since the last call, to be removed after `file.delete.delay.ms`."""
        doomed, self._segments.doomed = self._segments.doomed, []
        return doomed

    async def rename(self, directory: str) -> None:
        """Give the directory another name and go on. OSError: nothing changed."""
        async with self._reshaping:
            await self._durability.wait_idle()
            before = self.directory
            self._disk.rename(before, directory)
            self._opening.directory = directory
            self._segments.doomed = [path.replace(before, directory, 1) for path in self._segments.doomed]

    def succeed(self, log: Log) -> None:
        """Take over what `log` knows, and what its copy cannot know from the batches that are left.

        Not how far it is compacted: this copy may be of what it was before.
        """
        self.delete_records(log.log_start_offset)
        self.producers = log.producers
        self._take_snapshot()
        for epoch, start_offset in log.epochs.entries[-1:]:
            self._assign_epoch(epoch, start_offset)

    def retire(self, directory: str) -> None:
        """Another copy is the partition's log from now on. What is still being read here is under this name."""
        self._disk.rename(self.directory, directory)
        self._opening.directory = directory
        self._durability.is_deleted = True
        self._segments.forget()

    @property
    def is_deleted(self) -> bool:
        """Whether its files are none of its business any more."""
        return self._durability.is_deleted

    def abandon(self) -> None:
        """Give the files back and leave everything as it is: the partition is deleted."""
        self._durability.is_deleted = True
        self._segments.close()

    async def close(self) -> None:
        """Make all durable, write what lets the next broker open the log at once, give the files back."""
        if self.failed is None:
            await self.flush()
            if needs_snapshot(self._active, self._snapshot_offset):
                self._take_snapshot()
            lacks_index = self._active.lacks_index
            await self._durability.settle([SealedSegment.of(self._active, self._opening)], indexes=lacks_index)
        self._segments.close()


def duplicate(written: WrittenBatch) -> Appended:
    """The answer to a batch that came again: where it stands since the first time, and its time."""
    return Appended(written.base_offset, written.last_offset, written.timestamp, True)


def checked_and_rewritten(data: Buffer, config: LogConfig, now_ms: int) -> Batch:
    """`append`'s look at a batch and its rewriting, for a thread."""
    data = single_batch(data)
    if fault := refusal(data, config, now_ms):
        raise fault
    return rewritten(Batch.read(data), config, now_ms)
