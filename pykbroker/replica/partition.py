"""One partition on this broker: its log, who leads it, and how far it is committed.

With one replica the high watermark is the log end offset; with `pykbroker.flush.before.ack` it is what was flushed, so
that nobody reads what a power loss takes back. Source: KIP-101, KIP-320 for the epochs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from pykbroker.core.errors import ApiError
from pykbroker.core.log.producers import Marker
from pykbroker.core.log.verification import Verification
from pykbroker.replica.throttle import Throttle
from pykbroker.replica.watch import Watch
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.storage.files.errors import CorruptLog, patiently
from pykbroker.storage.log.appender import Appended
from pykbroker.storage.log.log import Log
from pykbroker.storage.log.rewrite import LongWork
from pykbroker.storage.segments.scrub import Paced
from pykbroker.world.disk import Buffer, FileSlice, NotCached, Shortened
from wire.error_codes import ErrorCode

logger = logging.getLogger(__name__)

T = TypeVar("T")
NO_EPOCH = -1


class Partition:
    """`log` is None while it cannot be served. Offsets are the log's.

    `throttle` is set while a copy of the log in another directory catches up, and holds back what clients append.
    """

    __slots__ = (
        "_said",
        "directory",
        "high_watermark",
        "index",
        "is_leader",
        "leader_epoch",
        "log",
        "throttle",
        "topic",
        "watches",
    )

    def __init__(self, topic: str, index: int, log: Log | None, directory: LogDirectory) -> None:
        self.topic, self.index, self.log, self.directory = topic, index, log, directory
        self.is_leader = False
        self._said: int | None = None
        self.throttle: Throttle | None = None
        self.leader_epoch = NO_EPOCH
        self.high_watermark = 0
        self.watches: set[Watch] = set()

    def lead(self, leader_epoch: int) -> None:
        """Become, or stay, the leader in this epoch; alone in the ISR, all that is in the log is committed."""
        if self.log is None or (self.is_leader and leader_epoch == self.leader_epoch):
            return
        self.log.become_leader(leader_epoch)
        self.is_leader, self.leader_epoch = True, leader_epoch
        self._advance(self.log.committable_offset)

    def resign(self, leader_epoch: int) -> None:
        """Lead no longer: whoever waits here is woken to find out."""
        self.is_leader, self.leader_epoch = False, leader_epoch
        self._wake()

    @property
    def is_online(self) -> bool:
        """Whether the log can be served: it holds, no flush of it failed, and its directory has not."""
        return self.log is not None and self.log.failed is None and self.directory.failed is None

    def require_leader(self, current_leader_epoch: int = NO_EPOCH) -> Log:
        """The log, for a client that believes in `current_leader_epoch` (-1: in none)."""
        if not self.is_online:
            raise self._offline()
        if current_leader_epoch not in (NO_EPOCH, self.leader_epoch):
            older = current_leader_epoch < self.leader_epoch
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)
        if not self.is_leader:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert self.log is not None
        return self.log

    def append(self, data: Buffer, now_ms: int, shown: Verification | None = None) -> Appended | None:
        """Append a client's batch; None: it must wait, or be opened and is too large for that: `append_off_loop` can.

        ApiError says what is wrong with the batch, or that the disk refused it.
        """
        log = self.log
        if log is None or not self.is_leader or self.directory.failed is not None or log.flusher.failed is not None:
            log = self.require_leader()
        if log.appender.needs_off_loop(data) or (self.throttle is not None and not self.throttle.admits(len(data))):
            return None
        try:
            appended = log.appender.append(data, self.leader_epoch, now_ms, shown)
        except LongWork:
            return None
        except OSError as error:
            raise self._refused(error) from error
        self._advance(log.committable_offset)
        return appended

    async def append_off_loop(self, data: Buffer, now_ms: int, shown: Verification | None = None) -> Appended:
        """As `append`, for a batch that must wait, or be opened and is too large to open on the loop."""
        while self.throttle is not None and not self.throttle.admits(len(data)):
            await self.throttle.wait()
        batch = await self.require_leader().open_off_loop(data, now_ms)
        log = self.require_leader()
        return self._append(log, log.append_opened, batch, self.leader_epoch, shown)

    def append_own(self, data: Buffer, shown: Verification | None = None) -> Appended:
        """Append a batch that this broker made itself. ApiError: its producer may not write, or the disk refused it."""
        log = self.require_leader()
        return self._append(log, log.append_as_leader, data, self.leader_epoch, shown)

    def append_marker(self, marker: Marker, now_ms: int) -> Appended:
        """Append the end of a transaction. ApiError: its producer or coordinator is fenced, or the disk refused it."""
        log = self.require_leader()
        return self._append(log, log.append_marker, marker, self.leader_epoch, now_ms)

    def _append(self, log: Log, append: Callable[..., Appended], *args: object) -> Appended:
        try:
            appended = append(*args)
        except OSError as error:
            raise self._refused(error) from error
        self._advance(log.committable_offset)
        return appended

    async def flush(self) -> None:
        """Make all that was appended durable; a failure is final for its log."""
        while self.throttle is not None and self.throttle.is_paused:
            await self.throttle.wait()
        log = self.require_leader()
        try:
            with self._guarded():
                await log.flush()
        except ApiError:
            if log is self.log:
                raise
        if log is not self.log:  # a copy in another directory has taken over meanwhile
            await self.flush()
        elif self.is_leader:
            self._advance(log.committable_offset)

    async def commit(self) -> None:
        """Commit what those who appended it no longer wait to see durable, as when their connection ended."""
        if self.is_online and self.is_leader and self.log is not None and self.high_watermark < self.log.log_end_offset:
            await self.flush()

    async def retain(self, now_ms: int) -> None:
        """Let go of what the log's retention does not keep. ApiError: what its disk refused."""
        log = self.log
        if self.is_online and log is not None:
            try:
                with self._guarded():
                    await log.retain(now_ms, self.high_watermark)
            except ApiError:
                if log is self.log:  # else a copy in another directory has taken over meanwhile
                    raise

    async def scrub(self, pace: Paced) -> None:
        """See that all that is stored holds. ApiError: it does not, and the partition is offline; or the disk's."""
        if self.is_online and self.log is not None:
            with self._guarded():
                await self.log.scrub(pace)

    def upper_offset(self, *, committed_only: bool) -> int:
        """Where a consumer's view ends: the high watermark, or with read_committed the last stable offset."""
        if committed_only and self.log is not None:
            return self.log.reader.last_stable_offset(self.high_watermark)
        return self.high_watermark

    def read(self, offset: int, bytes_max: int, upper_offset: int, *, at_least_one: bool) -> Buffer | FileSlice:
        """Whole batches from the one that holds `offset`, below `upper_offset`. NotCached: `wait_cached`."""
        assert self.log is not None
        try:
            return self.log.reader.read(offset, bytes_max, upper_offset, at_least_one=at_least_one)
        except OSError as error:
            raise self._refused(error) from error

    async def wait_cached(self, missing: NotCached) -> None:
        """Wait for what a plain read misses."""
        with self._guarded():
            await missing.fetch()

    def look_up(self, timestamp: int, upper_offset: int) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record at or after this time. NotCached: `patiently`."""
        log = self.require_leader()
        with self._guarded():
            return log.offset_for_timestamp(timestamp, upper_offset)

    def max_timestamp(self) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the record with the largest time. NotCached: `patiently`."""
        log = self.require_leader()
        with self._guarded():
            return log.max_timestamp()

    async def patiently(self, call: Callable[[], T]) -> T:
        """The result of a plain call that asks this partition, after waiting for whatever it misses."""
        with self._guarded():
            return await patiently(call)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """What a disk refuses is told as an ApiError. A log that turns out to be damaged goes offline, it alone.

        What is refused, or damaged, where the partition was before it moved is no matter any more.
        """
        log = self.log
        try:
            yield
        except (CorruptLog, OSError) as error:
            if log is not self.log:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER) from error
            raise self._fallen(error) from error

    def _fallen(self, error: CorruptLog | OSError) -> ApiError:
        if not isinstance(error, (CorruptLog, Shortened)):
            return self._refused(error)
        logger.error("%s-%d: going offline: %s", self.topic, self.index, error)
        self.log = None
        self.directory.set_offline(self.topic, self.index)
        self.resign(self.leader_epoch)
        return self._offline()

    async def wait_committed(self, offset: int) -> None:
        """Until the high watermark has reached `offset`; NOT_LEADER_OR_FOLLOWER when leadership goes first."""
        watch = Watch((self,))
        self._advance(self.require_leader().committable_offset)
        try:
            while self.high_watermark < offset:
                await watch.wait()
                self.require_leader()
        finally:
            watch.close()

    def _offline(self) -> ApiError:
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {self.topic}-{self.index} is offline")

    def _refused(self, error: OSError) -> ApiError:
        """What a client is told when the disk refuses; the directory decides whether it goes on."""
        self.directory.fail(error)
        if error.errno != self._said:
            logger.warning(
                "%s-%d: the log directory %s refused a request: %s", self.topic, self.index, self.directory.path, error
            )
            self._said = error.errno
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory refused: {error.strerror}")

    def _advance(self, high_watermark: int) -> None:
        if high_watermark > self.high_watermark:
            self.high_watermark = high_watermark
            if self.watches:
                self._wake()

    def _wake(self) -> None:
        for watch in self.watches:
            watch.wake()
