"""A partition on this broker: its log, its health, its role, its high watermark, and the requests that wait for it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from pykbroker.core.errors import ApiError
from pykbroker.core.log.producers import Marker
from pykbroker.core.log.verification import Verification
from pykbroker.core.metadata.image import PartitionImage
from pykbroker.core.replication.following import Following
from pykbroker.core.replication.leading import Leading
from pykbroker.core.replication.repair import Repair
from pykbroker.core.replication.role import Role, require_epoch, require_leading, require_led_in
from pykbroker.core.replication.unwritable import Unwritable
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.partition.own_broker import OwnBroker
from pykbroker.replica.partition.refused_batches import RefusedBatches
from pykbroker.replica.partition.throttle import Throttle
from pykbroker.replica.partition.topic_traffic import TopicTraffic
from pykbroker.replica.partition.watch import Watch
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.storage.files.errors import CorruptLog
from pykbroker.storage.files.refusals import NO_ROOM, VANISHED
from pykbroker.storage.log.appender import Appended
from pykbroker.storage.log.log import Log
from pykbroker.storage.log.rewrite import LongWork
from pykbroker.storage.segments.config import LONG_MAX, LogConfig
from pykbroker.storage.segments.scrub import Paced
from pykbroker.world.disk import Buffer, FileSlice, Shortened
from wire.declare import NIL
from wire.error_codes import ErrorCode
from wire.records.control import MARKER_BYTES
from wire.sentinels import NO_LEADER_EPOCH

logger = logging.getLogger(__name__)


class Follower(Protocol):
    """The fetch session of a follower, which looks only at partitions that have changed since its last fetch."""

    def note_append(self, partition: Partition, /) -> None:
        """Wake the follower: the partition has new records, or this broker leads it no longer."""

    def note_change(self, partition: Partition, /) -> None:
        """Let the next fetch look at the partition, such as after a change of its high watermark."""

    def __contains__(self, partition: Partition, /) -> bool:
        """Whether the follower fetches the partition in this session."""

    def yield_to(self, broker_id: int, broker_epoch: int, partition: Partition, /) -> None:
        """Forget the partition if this is a session of the same broker, which fetches it in another session now."""

    def lose(self, partition: Partition, /) -> None:
        """Tell the follower that this broker no longer has the partition."""


class Partition:
    """A partition of this broker. It is offline while `log` is None.

    `role` is what this broker does in the current leader epoch: it leads, or it follows. All records below
    `high_watermark` are committed. `unflushed_max` is how many of the newest offsets may be unflushed when a record is
    acknowledged. `topic_id` is NIL until `Replicas` sets it. All partitions of a broker share `broker`. `followers` are
    the sessions that fetch this partition. `repair` is the repair of a replica that cannot be served, or that replaces
    such a replica and may lack committed records, and None otherwise. `unwritable` has the refused appends of a replica
    that takes no records, and is None otherwise. `fetched_epoch` is the last leader epoch in which this broker may have
    fetched the partition since its start, -1 if none. `throttle` limits clients' appends while the log is copied to
    another directory, and is None otherwise. `traffic` has the counters of the topic, which all partitions of the topic
    share. `refused` has the refused batches that their producers repeat.
    """

    __slots__ = (
        "_reported_errno",
        "broker",
        "directory",
        "fetched_epoch",
        "followers",
        "high_watermark",
        "index",
        "key",
        "log",
        "refused",
        "repair",
        "role",
        "throttle",
        "topic",
        "topic_id",
        "traffic",
        "unflushed_max",
        "unwritable",
        "watches",
    )

    def __init__(
        self, key: TopicPartition, log: Log | None, directory: LogDirectory, broker: OwnBroker | None = None
    ) -> None:
        self.key, self.log, self.directory = key, log, directory
        self.topic, self.index = key
        self.topic_id = NIL
        self.broker = broker or OwnBroker()
        self.role: Role = Following()
        self.high_watermark, self.unflushed_max = 0, LONG_MAX
        self.refused = RefusedBatches(self.broker.refused_sequences_limit)
        self.repair: Repair | None = None
        self.unwritable: Unwritable | None = None
        self.fetched_epoch = NO_LEADER_EPOCH
        self.throttle: Throttle | None = None
        self.traffic = TopicTraffic()
        self.watches: set[Watch] = set()
        self.followers: tuple[Follower, ...] = ()
        self._reported_errno: int | None = None

    # ---- the role

    @property
    def is_leader(self) -> bool:
        return isinstance(self.role, Leading)

    @property
    def leading(self) -> Leading | None:
        """Return the role of a leader, or None if this broker does not lead."""
        role = self.role
        return role if isinstance(role, Leading) else None

    @property
    def leader_epoch(self) -> int:
        """Return the leader epoch of the partition, -1 before the first leader."""
        return self.role.epoch

    def lead(self, placed: PartitionImage) -> None:
        """Become or remain the leader, with the replicas and the ISR of this metadata."""
        log, role = self.log, self.role
        if log is None:
            return
        if isinstance(role, Leading) and role.epoch == placed.leader_epoch:
            before = role.isr
            if role.apply(placed):
                self.broker.count_isr_change(before, role.isr)
            self.refresh()
            self.note_change()
        else:
            log.become_leader(placed.leader_epoch)
            self.refused.join(log)
            # Only the states of followers have a time.
            now_ms = self.broker.now_ms if len(placed.replicas) > 1 else 0
            self.role = Leading(self.broker.node_id, placed, log.state.log_end_offset, now_ms)
            self.configure(log.config)

    def resign(self, role: Following) -> None:
        """End the leadership of this broker, and wake all waiting requests."""
        self.role = role
        self.wake()
        for follower in self.followers:
            follower.note_append(self)

    def configure(self, config: LogConfig) -> None:
        """Apply changed configs of the topic."""
        if self.log is not None:
            self.log.configure(config)
            self.unflushed_max = config.unflushed_max
            if isinstance(self.role, Leading):
                self.role.configure(config.min_insync_replicas, flush_before_ack=config.flush_before_ack)
            self.refresh()

    # ---- the health

    @property
    def is_online(self) -> bool:
        """Whether the log can be served: it is open, and neither its last flush nor its directory has failed."""
        return self.log is not None and self.log.failed is None and self.directory.failed is None

    def require_leader(self, current_leader_epoch: int = NO_LEADER_EPOCH) -> Log:
        """Return the log for a client whose metadata has this leader epoch, -1 if the client does not send one.

        Raise ApiError if the log is offline, if the client's epoch is fenced or unknown, or if this broker is not the
        leader.
        """
        log = self.log
        if log is None or log.flusher.failed is not None or self.directory.failed is not None:
            raise self._offline()
        role = self.role
        if isinstance(role, Following) or NO_LEADER_EPOCH != current_leader_epoch != role.epoch:
            require_leading(role, current_leader_epoch)
        return log

    def require_log(self, current_leader_epoch: int) -> Log:
        """Return the log, whether this broker leads the partition or not.

        Raise ApiError if the log is offline, or if the client's leader epoch is fenced or unknown.
        """
        log = self.log
        if log is None or not self.is_online:
            raise self._offline()
        require_epoch(self.role, current_leader_epoch)
        return log

    def require_replica(self, current_leader_epoch: int) -> Log:
        """Return the log of a followed partition for a consumer, which may read up to the high watermark (KIP-392).

        Raise ApiError if the log is offline, if the consumer's leader epoch is fenced or unknown, if no broker leads,
        or if the partition was deleted.
        """
        log, role = self.require_log(current_leader_epoch), self.role
        if isinstance(role, Following) and not role.has_leader:
            raise ApiError(role.absence)
        return log

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Convert an OSError of the block into an ApiError, and take the partition offline if its log is damaged.

        After a move to another log directory, and after the deletion of the partition, errors of the old log have no
        effect on the partition.
        """
        log = self.log
        try:
            yield
        except (CorruptLog, OSError) as error:
            if log is not self.log:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER) from error
            role = self.role
            if log is not None and log.state.is_deleted and isinstance(role, Following):
                raise ApiError(role.absence) from error  # the files were deleted while the block waited for the disk
            if isinstance(error, (CorruptLog, Shortened)):
                raise self._go_offline(error) from error
            raise self.fail(error) from error

    def fail(self, error: OSError) -> ApiError:
        """Return the error for clients after an OSError of the disk, which is logged once.

        The error may take the log directory offline. The partition goes offline if its directory has vanished: its open
        files would take records that the next start does not find.
        """
        directory, log = self.directory, self.log
        directory.fail(error)
        if error.errno in VANISHED and log is not None and not directory.exists(log.directory):
            return self._go_offline(error)
        # A replica that takes no records for 3 s is reported as lost: see `core/replication/unwritable`.
        if error.errno in NO_ROOM:
            self.note_refused_append()
        if error.errno != self._reported_errno:
            logger.warning("%s: an operation on the log directory %s failed: %s", self.key, directory.path, error)
            self._reported_errno = error.errno
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"an operation on the log directory failed: {error.strerror}")

    def note_refused_append(self) -> None:
        """Note that this replica has refused an append for lack of room, or that its log could not be opened."""
        now_ms, written_offset = self.broker.now_ms, self.written_offset
        if self.unwritable is None:
            self.unwritable = Unwritable(now_ms, written_offset)
        else:
            self.unwritable.note_refused_append(now_ms, written_offset)
        self.broker.refusal.set()

    def _go_offline(self, error: CorruptLog | OSError) -> ApiError:
        logger.error("%s: going offline: %s", self.key, error)
        self.log, self.repair = None, Repair()
        self.directory.set_offline(self.key)
        self.resign(Following(self.leader_epoch))
        self.broker.damage.set()
        return self._offline()

    def _offline(self) -> ApiError:
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {self.key} is offline")

    # ---- appends

    def append(
        self, data: Buffer, now_ms: int, verification: Verification | None = None, acks_all: bool = False
    ) -> Appended | None:
        """Append a client's batch without waiting.

        Return None if the append would take too long. The caller then awaits `append_off_loop`. Raise ApiError if the
        batch is invalid, if this broker cannot append to the partition, or if the write fails.
        """
        log, role = self.log, self.role
        try:
            # Written out, since each call counts here. The two calls raise the error of the condition that holds.
            if (
                log is None
                or not isinstance(role, Leading)
                or self.directory.failed is not None
                or log.flusher.failed is not None
            ):
                log, role = self.require_leader(), require_leading(role)
            if acks_all and role.is_under_min_isr:
                role.require_min_isr()
            if self.throttle is not None and not self.throttle.admits(len(data)):
                return None
            appended = log.appender.append(data, role.epoch, now_ms, verification)
        except LongWork:
            # `append_off_loop` asks the throttle again.
            if self.throttle is not None:
                self.throttle.take_back(len(data))
            return None
        except ApiError as error:
            self.refused.note(log, data, error.code, now_ms)
            raise
        except OSError as error:
            self.refused.note(log, data, ErrorCode.KAFKA_STORAGE_ERROR, now_ms)
            raise self.fail(error) from error
        self.traffic.count_append(appended.last_offset - appended.base_offset + 1, len(data))
        # This is `advance`, written out as well.
        committed = role.committed(log.state.log_end_offset, log.flusher.recovery_point)
        if committed > self.high_watermark:
            self.high_watermark = committed
            for watch in self.watches:
                watch.wake()
        for follower in self.followers:
            follower.note_append(self)
        return appended

    async def append_off_loop(
        self, data: Buffer, now_ms: int, verification: Verification | None = None, acks_all: bool = False
    ) -> Appended:
        """Append a client's batch that is throttled, or whose records are too large to read on the event loop."""
        while self.throttle is not None and not self.throttle.admits(len(data)):
            await self.throttle.wait()
        try:
            batch = await self.require_leader().appender.open_off_loop(data, now_ms)
            # The leadership may have ended, and a move may have replaced the log, while a thread read the records.
            log = self.require_leader()
            if acks_all:
                require_leading(self.role).require_min_isr()
            return self._append(log, batch.size, log.appender.append_opened, batch, self.leader_epoch, verification)
        except ApiError as error:
            self.refused.note(self.log, data, error.code, now_ms)
            raise

    def append_own(self, data: Buffer, verification: Verification | None = None) -> Appended:
        """Append a batch that this broker created.

        Raise ApiError if its producer is fenced or the write fails.
        """
        log = self.require_leader()
        require_leading(self.role).require_min_isr()
        return self._append(log, len(data), log.appender.append_as_leader, data, self.leader_epoch, verification)

    def append_marker(self, marker: Marker, now_ms: int) -> Appended:
        """Append a transaction marker.

        Raise ApiError if the producer or coordinator of the marker is fenced, or if the write fails.
        """
        log = self.require_leader()
        require_leading(self.role).require_min_isr()
        return self._append(log, MARKER_BYTES, log.appender.append_marker, marker, self.leader_epoch, now_ms)

    def _append(self, log: Log, size: int, append: Callable[..., Appended], *args: object) -> Appended:
        try:
            appended = append(*args)
        except OSError as error:
            raise self.fail(error) from error
        self.traffic.count_append(appended.last_offset - appended.base_offset + 1, size)
        self.advance(log)
        for follower in self.followers:
            follower.note_append(self)
        return appended

    # ---- acknowledgement and upkeep

    def may_acknowledge(self, end_offset: int, acks_all: bool) -> bool:
        """Whether a batch that ends at `end_offset` may be acknowledged now, without a flush or a wait."""
        log = self.log
        assert log is not None
        return (not acks_all or self.high_watermark >= end_offset) and (
            log.state.log_end_offset - log.flusher.recovery_point <= self.unflushed_max
        )

    @property
    def flush_due(self) -> bool:
        """Whether the log must be flushed before its newest records are acknowledged."""
        log = self.log
        return log is not None and log.state.log_end_offset - log.flusher.recovery_point > self.unflushed_max

    async def flush_if_due(self) -> None:
        """Flush the log if its newest records must be durable before they are acknowledged.

        Raise ApiError as `flush` does.
        """
        self.require_leader()
        if self.flush_due:
            await self.flush()

    async def flush(self) -> None:
        """Make all appended records durable. Raise ApiError if the fsync fails. The log then goes offline."""
        # A copy replaces the log once it is as durable (`Move.is_level`). A flush of the log would delay that.
        while self.throttle is not None and self.throttle.is_paused:
            await self.throttle.wait()
        log = self.require_leader()
        try:
            with self.errors():
                await log.flush()
        except ApiError:
            if log is self.log:
                raise
        if log is not self.log:  # a move replaced the log during the fsync
            await self.flush()
        elif self.is_leader:
            self.advance(log)

    async def commit(self) -> None:
        """Commit records that no request waits for, for example after their producer disconnected."""
        if self.is_online and self.is_leader and self.log is not None and self.high_watermark < self.log.log_end_offset:
            await self.flush()

    async def retain(self, now_ms: int) -> None:
        """Delete the segments that retention allows to delete. Raise ApiError if a deletion fails."""
        log = self.log
        if self.is_online and log is not None:
            try:
                with self.errors():
                    await log.retain(now_ms, self.high_watermark)
                for follower in self.followers:
                    follower.note_change(self)  # followers learn the log start offset
            except ApiError:
                if log is self.log:  # otherwise a move has replaced the log
                    raise

    async def scrub(self, pace: Paced) -> None:
        """Verify all stored batches.

        Raise ApiError if a read fails, or if a batch is damaged, which takes the partition offline.
        """
        if self.is_online and self.log is not None:
            with self.errors():
                await self.log.reader.scrub(pace)

    async def wait_committed(self, offset: int, leader_epoch: int = NO_LEADER_EPOCH) -> None:
        """Wait until the high watermark has reached `offset`, as a Produce request with acks=all does.

        `leader_epoch` is the epoch in which the records were appended, the current one by default. Raise
        NOT_LEADER_OR_FOLLOWER if it ends first, since the records may be lost then, or
        NOT_ENOUGH_REPLICAS_AFTER_APPEND.
        """
        epoch = self.leader_epoch if leader_epoch == NO_LEADER_EPOCH else leader_epoch
        watch = Watch([self.watches])
        try:
            self.advance(self.require_leader())
            while not require_led_in(self.role, epoch).is_committed(offset, self.high_watermark):
                await watch.wait()
                self.require_leader()
        finally:
            watch.close()

    # ---- the high watermark

    def refresh(self) -> None:
        """Compute how far followers let the high watermark of a leader rise, and raise it."""
        log, role, broker = self.log, self.role, self.broker
        if log is not None and isinstance(role, Leading):
            now_ms = broker.now_ms if role.followers else 0
            role.refresh(log.state.log_end_offset, broker.active, now_ms, broker.lag_ms_max)
            self.advance(log)

    def advance(self, log: Log) -> None:
        """Raise the high watermark of a leader as far as log and followers allow."""
        role = self.role
        if isinstance(role, Leading):
            self.raise_high_watermark(role.committed(log.state.log_end_offset, log.flusher.recovery_point))

    def raise_high_watermark(self, offset: int) -> None:
        """Raise the high watermark, unless it is higher, and wake the requests that wait for it."""
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.note_change()

    def lower_high_watermark(self, offset: int) -> None:
        """Lower the high watermark to the end of a truncated log."""
        self.high_watermark = min(self.high_watermark, offset)

    @property
    def written_offset(self) -> int | None:
        """Return the offset below which this replica could acknowledge all records, None while its log is not open."""
        log = self.log
        if log is None:
            return None
        return log.flusher.recovery_point if log.config.flush_before_ack else log.state.log_end_offset

    # ---- reads

    def upper_offset(self, *, committed_only: bool) -> int:
        """Return the first offset that consumers may not read.

        It is the last stable offset if `committed_only` (read_committed) is true, and the high watermark otherwise.
        """
        log, high_watermark = self.log, self.high_watermark
        return log.reader.last_stable_offset(high_watermark) if committed_only and log is not None else high_watermark

    def read(self, offset: int, bytes_max: int, upper_offset: int, *, at_least_one: bool) -> Buffer | FileSlice:
        """Return whole batches below `upper_offset`, starting with the batch that holds `offset`.

        Raise NotCached if the batches are not in the page cache. The caller then awaits its `fetch`, within `errors`,
        and repeats the call. Raise ApiError if the disk fails.
        """
        log = self.log
        assert log is not None
        try:
            return log.reader.read(offset, bytes_max, upper_offset, at_least_one=at_least_one)
        except OSError as error:
            raise self.fail(error) from error

    # ---- who waits

    def note_change(self) -> None:
        """Tell waiting requests and the sessions of followers that the high watermark or the ISR has changed."""
        for follower in self.followers:
            follower.note_change(self)
        self.wake()

    def wake(self) -> None:
        """Wake all requests that wait for a change of this partition."""
        for watch in self.watches:
            watch.wake()
