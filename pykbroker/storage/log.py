"""One partition's log: appends go to its active segment, reads come from the tail in memory or from the files."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from struct import Struct, error

import msgspec
import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.replication.producers import Written
from pykbroker.core.replication.transactions import AbortedTransaction
from pykbroker.storage.config import LONG_MAX, LogConfig
from pykbroker.storage.recovery import LogState, recover
from pykbroker.storage.replay import remember
from pykbroker.storage.rewrite import is_long_work, rewrites, rewritten
from pykbroker.storage.segment import ActiveSegment, SealedSegment, Segment, file_name
from pykbroker.storage.tail import JOIN_BYTES_MAX, KEEP_BYTES_MAX, Tail
from pykbroker.storage.validate import REFUSED_ATTRIBUTES, refusal, single_batch
from pykbroker.world.disk import Buffer, Disk, FileSlice, NotCached
from pykbroker.world.off_loop import OffLoop
from wire.error_codes import ErrorCode
from wire.errors import DecodeError
from wire.records.batch import CRC_START, HEADER, LENGTH_OVERHEAD, MAGIC, TRANSACTIONAL, Batch, batches
from wire.records.compression import Codec
from wire.records.crc import crc32c

PLACE = Struct(">qii")
"""base offset, batch length, leader epoch: what a broker writes over, outside the CRC."""
AFTER_PLACE = PLACE.size
READ_TRIES = 8

CODEC_MAX = max(Codec)
UNEXPLAINED = AssertionError("a batch was refused that breaks no rule")

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


class Log:
    """Offsets are absolute, sizes in bytes, times in ms since 1970.

    1. An append that raises has changed nothing. One that returns is in the page cache; `flush` makes it durable.
    2. Plain methods end on the loop. `read` raises NotCached where `read_slowly` would wait for the disk.
    """

    def __init__(self, disk: Disk, directory: str, config: LogConfig, off_loop: OffLoop,
                 jitter: Callable[[int], int], state: LogState) -> None:
        self.directory = directory
        self._disk, self._off_loop, self._jitter = disk, off_loop, jitter
        self._active, self._sealed = state.active, state.sealed
        self._tail = Tail()
        self.epochs, self.producers, self.aborted = state.epochs, state.producers, state.aborted
        self.log_start_offset = state.log_start_offset
        self.log_end_offset = state.active.next_offset
        self.recovery_point = state.recovery_point
        self.failed: OSError | None = None
        self._syncing: trio.Event | None = None
        self._unsynced: list[SealedSegment] = []
        self.configure(config)

    @classmethod
    async def open(cls, disk: Disk, directory: str, config: LogConfig, *, off_loop: OffLoop,
                   recovery_point: int = 0, log_start_offset: int = 0, clean: bool = False,
                   jitter: Callable[[int], int] = no_jitter) -> Log:
        """Recover the log in `directory`, which exists; an empty one begins at `log_start_offset`.

        `recovery_point`: all below is known to be synced. `clean`: the last broker here closed it. `jitter` draws a
        number below its argument, or 0. CorruptLog: damage below the recovery point.
        """
        state = await recover(disk, directory, config, recovery_point=recovery_point,
                              log_start_offset=log_start_offset, clean=clean, jitter=jitter)
        return cls(disk, directory, config, off_loop, jitter, state)

    def configure(self, config: LogConfig) -> None:
        """Use these configs from now on."""
        self.config = config
        self._active.configure(config)
        self._rewrites = rewrites(config)
        self._batch_bytes_max = min(config.max_message_bytes, config.segment_bytes)
        self._ahead_ms_max = LONG_MAX if config.log_append_time else config.message_timestamp_after_max_ms

    @property
    def size_bytes(self) -> int:
        """Of all batches on disk."""
        return sum(segment.size for segment in self._sealed) + self._active.size

    # Appending

    def append(self, data: Buffer, leader_epoch: int, now_ms: int) -> Appended:
        """Validate a client's batch, give it offsets, write it. ApiError: it is refused. OSError: the disk refuses.

        Small batches are copied; a large one in a writable buffer is patched where it lies.
        """
        size = len(data)
        try:
            (base, length, _, magic, crc, attributes, delta, _, max_timestamp, producer_id, epoch, sequence,
             count) = unpack_header(data)
        except error:
            raise ApiError(ErrorCode.INVALID_RECORD, "the request holds no whole record batch") from None
        if length + LENGTH_OVERHEAD != size:
            return self.append(single_batch(data), leader_epoch, now_ms)
        if (magic != MAGIC or base or count <= 0 or delta + 1 != count or size > self._batch_bytes_max
                or attributes & REFUSED_ATTRIBUTES > CODEC_MAX or max_timestamp - now_ms > self._ahead_ms_max
                or (sequence < 0 <= producer_id) or crc32c(data, CRC_START) != crc):
            raise refusal(data, self.config, now_ms) or UNEXPLAINED
        if self._rewrites:
            return self._append_rewritten(rewritten(Batch.read(data), self.config, now_ms), leader_epoch)
        if producer_id >= 0:
            transactional = attributes & TRANSACTIONAL != 0
            written = self.producers.check(producer_id, epoch, sequence, delta, transactional)
            if written is not None:
                return duplicate(written)
            base = self._write(data, size, length, delta, max_timestamp, leader_epoch)
            self.producers.remember(producer_id, epoch, sequence, base, delta, max_timestamp, transactional)
        else:
            base = self._write(data, size, length, delta, max_timestamp, leader_epoch)
        return Appended(base, base + delta)

    def _append_rewritten(self, batch: Batch, leader_epoch: int) -> Appended:
        if batch.producer_id >= 0:
            written = self.producers.check(batch.producer_id, batch.producer_epoch, batch.base_sequence,
                                           batch.last_offset_delta, batch.is_transactional)
            if written is not None:
                return duplicate(written)
        return self._append_trusted(batch, leader_epoch)

    def _append_trusted(self, batch: Batch, leader_epoch: int) -> Appended:
        base = self._write(batch.buffer, batch.size, batch.batch_length, batch.last_offset_delta, batch.max_timestamp,
                           leader_epoch)
        placed = msgspec.structs.replace(batch, base_offset=base, leader_epoch=leader_epoch)
        self._note_decided(remember(self.producers, placed))
        return Appended(base, base + batch.last_offset_delta,
                        batch.max_timestamp if batch.is_log_append_time else -1)

    def _write(self, data: Buffer, size: int, length: int, delta: int, max_timestamp: int, leader_epoch: int) -> int:
        """Put one batch at the end, under the next offset; answers that offset."""
        base = self.log_end_offset
        last = base + delta
        segment = self._active
        if (segment.size + size > segment.size_max or max_timestamp > segment.timestamp_max
                or last > segment.offset_max) and segment.size:
            segment = self._roll()
        chunk: bytes | None = None
        if size <= KEEP_BYTES_MAX or isinstance(data, bytes) or (isinstance(data, memoryview) and data.readonly):
            data = chunk = PLACE.pack(base, length, leader_epoch) + data[AFTER_PLACE:]
            if size > KEEP_BYTES_MAX:
                chunk = None
        else:
            PLACE.pack_into(data, 0, base, length, leader_epoch)
        segment.file.append(data)
        self._tail.add(base, segment.size, chunk)
        segment.note(size, last, max_timestamp)
        self.log_end_offset = last + 1
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(leader_epoch, base)
        return base

    def needs_off_loop(self, data: Buffer) -> bool:
        """Whether `append` would open so large a batch that it belongs off the loop: then use `append_off_loop`."""
        return self._rewrites and is_long_work(data, self.config)

    async def append_off_loop(self, data: Buffer, leader_epoch: int, now_ms: int) -> Appended:
        """As `append`, with the records opened in a thread. `data` must not change meanwhile."""
        batch = await self._off_loop(checked_and_rewritten, data, self.config, now_ms)
        return self._append_rewritten(batch, leader_epoch)

    def append_as_leader(self, data: Buffer, leader_epoch: int, now_ms: int) -> Appended:
        """Append a batch that this broker made: control, coordinator or metadata records. ApiError: fenced producer."""
        batch = Batch.read(data)
        producer = self.producers.get(batch.producer_id)
        if producer is not None and not batch.is_control:
            producer.check_epoch(batch.producer_epoch)
        return self._append_trusted(batch, leader_epoch)

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
        if (segment.size + batch.size > segment.size_max or batch.max_timestamp > segment.timestamp_max
                or batch.last_offset > segment.offset_max) and segment.size:
            segment = self._roll()
        segment.file.append(batch.buffer)
        self._tail.add(batch.base_offset, segment.size,
                       bytes(batch.buffer) if batch.size <= KEEP_BYTES_MAX else None)
        segment.note_batch(batch)
        self.log_end_offset = batch.last_offset + 1
        if batch.leader_epoch != self.epochs.latest:
            self.epochs.assign(batch.leader_epoch, batch.base_offset)
        self._note_decided(remember(self.producers, batch))

    def _note_decided(self, aborted: AbortedTransaction | None) -> None:
        if aborted is not None:
            self.aborted.append(aborted)

    def become_leader(self, leader_epoch: int) -> None:
        """An epoch in which this broker leads begins here, also if nothing will be appended in it."""
        self.epochs.assign(leader_epoch, self.log_end_offset)

    def _roll(self) -> ActiveSegment:
        """Seal the active segment and begin another one at the log end offset."""
        base = self.log_end_offset
        file = self._disk.open(file_name(self.directory, base, ".log"), create=True)
        sealed = self._active.seal()
        self._sealed.append(sealed)
        self._unsynced.append(sealed)
        self._active = ActiveSegment(base, file, self.config, self._jitter(self.config.segment_jitter_ms))
        self._tail.clear()
        return self._active

    # Flushing

    @property
    def flush_due(self) -> bool:
        """Whether `flush.messages` asks for a flush before what was appended is acknowledged."""
        return self.log_end_offset - self.recovery_point >= self.config.flush_messages

    async def flush(self) -> None:
        """Make all that was appended before this call durable. Callers that come together share one fsync.

        OSError is final: what was written may be lost though a later fsync succeeds, so every later call fails, too.
        """
        target = self.log_end_offset
        while self.recovery_point < target:
            if self.failed:
                raise self.failed
            if self._syncing:
                await self._syncing.wait()
            else:
                await self._sync()

    async def _sync(self) -> None:
        self._syncing = trio.Event()
        target, active, sealed = self.log_end_offset, self._active, self._unsynced
        self._unsynced = []
        try:
            for segment in (*sealed, active):
                await segment.file.sync()
            if sealed or not self.recovery_point:
                await self._disk.sync_directory(self.directory)
            self.recovery_point = max(self.recovery_point, target)
        except OSError as failure:
            self.failed = failure
            raise
        finally:
            self._syncing.set()
            self._syncing = None

    # Reading

    def read(self, offset: int, bytes_max: int, upper_offset: int, *, at_least_one: bool) -> Buffer | FileSlice:
        """Whole batches from the one that holds `offset`, all below `upper_offset`; empty when there is none.

        At most `bytes_max` bytes, or the first batch if `at_least_one` (KIP-74). OFFSET_OUT_OF_RANGE below the log's
        start and above its end. NotCached: `read_slowly` waits for the disk.
        """
        end = self.log_end_offset
        if not self.log_start_offset <= offset <= end:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is not in {self.log_start_offset}..{end}")
        if offset >= upper_offset or offset == end:
            return b""
        tail = self._tail
        if offset >= tail.first_offset:
            segment: Segment = self._active
            position, size, data = tail.find(offset, bytes_max, upper_offset, end, segment.size, at_least_one)
            if data is not None:
                return data
        else:
            segment, position, size = self._extent(offset, bytes_max, upper_offset, at_least_one)
        if size <= JOIN_BYTES_MAX:
            return segment.file.read_nowait(position, size) if size else b""
        return FileSlice(segment.file, position, size)

    def _extent(self, offset: int, bytes_max: int, upper_offset: int, at_least_one: bool) -> tuple[Segment, int, int]:
        """Where to read. A segment may hold nothing at or above `offset`, after compaction: then the next one does."""
        segments: list[Segment] = [*self._sealed, self._active]
        first = max(0, bisect_right(segments, offset, key=lambda one: one.base_offset) - 1)
        for segment in segments[first:]:
            position, size = segment.extent(offset, bytes_max, upper_offset, at_least_one)
            if position < segment.size:
                return segment, position, size
        return self._active, self._active.size, 0

    async def read_slowly(self, offset: int, bytes_max: int, upper_offset: int, *,
                          at_least_one: bool) -> Buffer | FileSlice:
        """As `read`, waiting for the disk where needed."""
        for _ in range(READ_TRIES):
            try:
                return self.read(offset, bytes_max, upper_offset, at_least_one=at_least_one)
            except NotCached as missing:
                await missing.file.read(missing.offset, missing.size)
        raise OSError(f"{self.directory}: what was just read is not in the page cache, {READ_TRIES} times in a row")

    # Transactions

    def last_stable_offset(self, high_watermark: int) -> int:
        """Below it every transaction is decided, by a marker that `high_watermark` has passed."""
        return max(self.log_start_offset, self.producers.transactions.last_stable_offset(high_watermark))

    async def close(self) -> None:
        """Make all durable and give the files back."""
        if self.failed is None:
            await self.flush()
        for segment in (*self._sealed, self._active):
            segment.file.close()


def duplicate(written: Written) -> Appended:
    """The answer to a batch that came again: where it stands since the first time, and its time."""
    return Appended(written.base_offset, written.last_offset, written.timestamp, True)


def checked_and_rewritten(data: Buffer, config: LogConfig, now_ms: int) -> Batch:
    """`append`'s look at a batch and its rewriting, for a thread."""
    data = single_batch(data)
    if fault := refusal(data, config, now_ms):
        raise fault
    return rewritten(Batch.read(data), config, now_ms)
