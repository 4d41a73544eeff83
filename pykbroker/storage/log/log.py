"""The log of one partition: an appender, a reader, a flusher and a shrinker over one state."""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.core.log.producers import Producers
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.storage.files.errors import CorruptLog
from pykbroker.storage.files.small_files import warned, write_all
from pykbroker.storage.files.traffic import Traffic
from pykbroker.storage.log.appender import Appended, LogAppender
from pykbroker.storage.log.flusher import Flusher
from pykbroker.storage.log.reader import LogReader
from pykbroker.storage.log.shrinker import LogShrinker
from pykbroker.storage.log.state import LogState
from pykbroker.storage.recovery.recovery import RecoveredLog, begin, needs_snapshot, recover
from pykbroker.storage.segments.config import LONG_MAX, LogConfig
from pykbroker.storage.segments.opening import NO_PARTITION, DueLogs, Loaded, Opening
from pykbroker.storage.segments.sealed import SealedSegment
from pykbroker.storage.segments.segment import no_clock
from pykbroker.world.disk import Buffer, Disk, FileSlice
from pykbroker.world.off_loop import OffLoop
from wire.sentinels import NO_OFFSET


def no_jitter(_below: int) -> int:
    """Return 0, so that segments roll exactly after `segment.ms`."""
    return 0


class Log:
    """The log of one partition. Offsets are absolute, sizes in bytes, times in ms since 1970.

    1. An append that raises an error has changed nothing. After an append returns, the batch is in the page cache;
       `flush` makes it durable.
    2. After a failed fsync, `failed` is set and no flush succeeds: written records may be lost even if a later fsync
       succeeds.
    3. Callers use the parts: they append by `appender` and read by `reader`. A method of a part is repeated here if the
       Protocol of the metadata log has it, since that log is passed on as a whole.
    """

    def __init__(self, opening: Opening, off_loop: OffLoop, recovered: RecoveredLog) -> None:
        self.state = state = LogState(opening, recovered)
        self.config, self.segments, self.epochs = opening.config, state.segments, state.epochs
        self.flusher = Flusher(state, recovered)
        self.appender = LogAppender(state, self.flusher, off_loop)
        self.reader = LogReader(state, off_loop)
        self.shrinker = LogShrinker(state, self.flusher)
        self._off_loop = off_loop
        if recovered.unsynced or opening.config.flush_ms < LONG_MAX:
            opening.note_work()

    @classmethod
    async def open(
        cls,
        disk: Disk,
        directory: str,
        config: LogConfig,
        *,
        off_loop: OffLoop,
        now_ms: int = 0,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        cleaned_offset: int = 0,
        high_watermark: int = 0,
        clean: bool = False,
        jitter: Callable[[int], int] = no_jitter,
        loaded: Loaded | None = None,
        traffic: Traffic | None = None,
        wall_ms: Callable[[], int] = no_clock,
        key: TopicPartition = NO_PARTITION,
        due: DueLogs | None = None,
    ) -> Log:
        """Recover the log in the existing `directory`. An empty log begins at `log_start_offset`.

        All records below `recovery_point` are durable, and all records below `high_watermark` have existed. `clean` is
        true if the previous broker closed the log. `jitter` returns a random number below its argument. The logs of a
        log directory share `loaded`, `traffic` and `due`. Raise CorruptLog if a batch below the recovery point is
        damaged.
        """
        opening = Opening(
            disk,
            directory,
            config,
            loaded or Loaded(),
            jitter,
            traffic or Traffic(),
            recovery_point,
            log_start_offset,
            cleaned_offset,
            high_watermark,
            wall_ms,
            key,
            {} if due is None else due,
        )
        recovered = await recover(opening, clean=clean)
        recovered.producers.expire(now_ms, config.producer_id_expiration_ms)
        return cls(opening, off_loop, recovered)

    @classmethod
    def create(
        cls,
        disk: Disk,
        directory: str,
        config: LogConfig,
        *,
        off_loop: OffLoop,
        jitter: Callable[[int], int] = no_jitter,
        loaded: Loaded | None = None,
        traffic: Traffic | None = None,
        wall_ms: Callable[[], int] = no_clock,
        key: TopicPartition = NO_PARTITION,
        due: DueLogs | None = None,
    ) -> Log:
        """Create an empty log at offset 0, with one file, in a directory without segments.

        If OSError is raised, the file was not created.
        """
        opening = Opening(
            disk,
            directory,
            config,
            loaded or Loaded(),
            jitter,
            traffic or Traffic(),
            wall_ms=wall_ms,
            key=key,
            due={} if due is None else due,
        )
        return cls(opening, off_loop, begin(opening))

    def configure(self, config: LogConfig) -> None:
        """Apply these topic configs."""
        self.config = self.state.opening.config = config
        self.segments.active.configure(config)
        self.appender.configure(config)
        if config.flush_ms < LONG_MAX:
            self.state.opening.note_work()

    @property
    def directory(self) -> str:
        """Return the path of the log's directory, relative to its log directory."""
        return self.state.opening.directory

    @property
    def size_bytes(self) -> int:
        """Return the size of all batches on disk."""
        return self.segments.size_bytes

    @property
    def log_start_offset(self) -> int:
        """Return the first offset that may be read."""
        return self.state.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """Return the offset that the next appended record gets."""
        return self.state.log_end_offset

    @property
    def producers(self) -> Producers:
        """Return the state of the idempotent and transactional producers at the log end offset."""
        return self.state.producers

    @property
    def recovery_point(self) -> int:
        """Return the offset below which all records are durable."""
        return self.flusher.recovery_point

    @property
    def failed(self) -> OSError | CorruptLog | None:
        """Return the error after which no flush can succeed, or None. Records above the recovery point may be lost."""
        return self.flusher.failed

    @property
    def is_deleted(self) -> bool:
        """Whether the log was deleted.

        Its files must not be touched afterwards, since another log may have the same name.
        """
        return self.state.is_deleted

    @property
    def cleaned_offset(self) -> int:
        """Return the offset below which the log was compacted. The next compaction begins there."""
        return self.state.opening.cleaned_offset

    @cleaned_offset.setter
    def cleaned_offset(self, offset: int) -> None:
        self.state.opening.cleaned_offset = offset

    def become_leader(self, leader_epoch: int) -> None:
        """Begin a leader epoch of this broker at the log end offset. The epoch is recorded even if no record follows.

        If the log never held a record, only the first flush writes the epochs, since recovery would find them in the
        batches.
        """
        if self.state.log_end_offset:
            self.flusher.begin_epoch(leader_epoch, self.state.log_end_offset)
        else:
            self.epochs.assign(leader_epoch, 0)

    def append_as_leader(self, data: Buffer, leader_epoch: int) -> Appended:
        """Append a batch that this broker created, as `LogAppender.append_as_leader` does."""
        return self.appender.append_as_leader(data, leader_epoch)

    def append_stored(self, data: Buffer) -> Appended:
        """Append batches of a leader, as `LogAppender.append_stored` does."""
        return self.appender.append_stored(data)

    async def read_patiently(
        self, offset: int, bytes_max: int, upper_offset: int, *, at_least_one: bool
    ) -> Buffer | FileSlice:
        """Return batches, as `LogReader.read_patiently` does."""
        return await self.reader.read_patiently(offset, bytes_max, upper_offset, at_least_one=at_least_one)

    async def flush(self) -> None:
        """Make all records appended before this call durable. Concurrent callers share one fsync.

        Raise ApiError if the log was deleted meanwhile. Raise OSError if a disk operation fails. The caller may retry
        unless `failed` is set. Raise CorruptLog if a sealed segment is damaged.
        """
        await self.flusher.flush()

    async def retain(self, now_ms: int, high_watermark: int) -> None:
        """Delete the segments below `high_watermark` that retention or the log start offset allows to delete."""
        await self.shrinker.retain(now_ms, high_watermark)

    def delete_records(self, offset: int) -> int:
        """Raise the log start offset, as `LogShrinker.delete_records` does."""
        return self.shrinker.delete_records(offset)

    def take_deleted(self) -> list[str]:
        """Return the files of segments that were dropped since the last call, as `LogShrinker.take_deleted` does."""
        return self.shrinker.take_deleted()

    async def truncate(self, offset: int) -> None:
        """Drop the batch that holds `offset` and all later ones, as `LogShrinker.truncate` does."""
        await self.shrinker.truncate(offset)

    async def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Drop all records, as `LogShrinker.truncate_fully_and_start_at` does."""
        await self.shrinker.truncate_fully_and_start_at(offset, log_start_offset)

    async def rename(self, directory: str) -> None:
        """Rename the log's directory and continue under the new name. If OSError is raised, nothing changed."""
        async with self.shrinker.lock:
            await self.flusher.wait_idle()
            before = self.directory
            self.state.disk.rename(before, directory)
            self.state.opening.directory = directory
            self.segments.deleted_files = [path.replace(before, directory, 1) for path in self.segments.deleted_files]

    def take_over(self, log: Log) -> None:
        """Copy the start offset, the producers and the latest leader epoch from `log`, which this future log replaces.

        The cleaned offset is not copied, since this log may hold records that compaction has removed from `log`.
        """
        self.delete_records(min(log.log_start_offset, self.log_end_offset))
        self.state.log_start_offset = log.log_start_offset  # which may be inside the batch to be appended next
        self.state.producers = log.producers
        # From the copied batches, a start could not find the producers whose records are deleted.
        self.state.take_snapshot()
        for epoch, start_offset in log.epochs.entries[-1:]:
            self.flusher.begin_epoch(epoch, start_offset)

    def retire(self, directory: str) -> None:
        """Rename the directory after a future log has replaced this log. Running reads continue under the new name."""
        self.state.disk.rename(self.directory, directory)
        self.state.opening.directory = directory
        self.state.is_deleted = True
        self.segments.forget()

    def abandon(self) -> None:
        """Close the files of a deleted partition without writing anything."""
        self.state.is_deleted = True
        self.segments.close()

    async def close(self, *, complete: bool = False) -> None:
        """Flush the log, write the files that the next start needs to open it without a scan, and close all files.

        With `complete`, Kafka needs no scan either: it recovers a segment without an index file, whatever its size.
        """
        if self.failed is None:
            await self.flush()
            active = SealedSegment.of(self.segments.active, self.state.opening)
            await self.flusher.settle([active], indexes=False)
            if files := self._last_files(active, complete):
                with warned(", ".join(files)):
                    await self._off_loop(write_all, self.state.disk, files)
        self.segments.close()

    def _last_files(self, active: SealedSegment, complete: bool) -> dict[str, bytes]:
        """Return the files that a close writes, by path.

        Kafka rebuilds producers and leader epochs only from segments that it recovers. A log whose index files are
        written needs the snapshot and the leader epochs, too: Kafka would accept duplicates, and expose records of an
        open transaction.
        """
        state, files, segment = self.state, dict[str, bytes](), self.segments.active
        lacks_snapshot = complete and state.snapshot_offset == NO_OFFSET and len(state.producers) > 0
        if lacks_snapshot or needs_snapshot(segment, state.snapshot_offset):
            files |= state.snapshot_file()
        if complete:
            files |= self.flusher.unwritten_epochs()
        if segment.lacks_index or (complete and segment.indexed_bytes != segment.size):
            files |= active.index_files()
        return files
