"""A partition on this broker: its log, its leadership (`core/replication`), and the requests that wait for it."""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.core.errors import ApiError
from pykbroker.core.log.producers import Marker
from pykbroker.core.log.verification import Verification
from pykbroker.core.metadata.image import PartitionImage
from pykbroker.core.replication.leadership import NO_EPOCH, Leadership
from pykbroker.core.replication.repair import Repair
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.follower_session import FollowerSession
from pykbroker.replica.isr_keeper import IsrKeeper
from pykbroker.replica.partition_guard import PartitionGuard
from pykbroker.replica.partition_reader import PartitionReader
from pykbroker.replica.refused_batches import RefusedBatches
from pykbroker.replica.throttle import Throttle
from pykbroker.replica.topic_traffic import TopicTraffic
from pykbroker.replica.watch import Watch
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.storage.log.appender import Appended
from pykbroker.storage.log.log import Log
from pykbroker.storage.log.rewrite import LongWork
from pykbroker.storage.segments.config import LogConfig
from pykbroker.storage.segments.scrub import Paced
from pykbroker.world.disk import Buffer
from wire.declare import NIL
from wire.error_codes import ErrorCode
from wire.records.control import MARKER_BYTES


class Partition:
    """A partition of this broker. It is offline while `log` is None.

    `topic_id` is NIL until `Replicas` sets it. The partitions of a broker share its `keeper` of ISRs. `fetchers` are
    the fetch sessions of followers that fetch this partition. `repair` is the repair of a replica that cannot be
    served, or that replaces such a replica and may lack committed records, and None otherwise. `fetched_epoch` is the
    last leader epoch in which this broker may have fetched the partition since its start, -1 if none. `throttle` limits
    clients' appends while the log is copied to another directory, and is None otherwise. `traffic` has the counters of
    the topic, which all partitions of the topic share. `refused` has the refused batches that their producers repeat.
    """

    __slots__ = (
        "directory",
        "fetched_epoch",
        "fetchers",
        "guard",
        "index",
        "keeper",
        "key",
        "leadership",
        "log",
        "reader",
        "refused",
        "repair",
        "throttle",
        "topic",
        "topic_id",
        "traffic",
        "watches",
    )

    def __init__(
        self, key: TopicPartition, log: Log | None, directory: LogDirectory, keeper: IsrKeeper | None = None
    ) -> None:
        self.key, self.log, self.directory = key, log, directory
        self.topic, self.index = key
        self.topic_id = NIL
        self.keeper = keeper or IsrKeeper()
        self.leadership = Leadership()
        self.guard = PartitionGuard(self)
        self.reader = PartitionReader(self)
        self.refused = RefusedBatches(self)
        self.repair: Repair | None = None
        self.fetched_epoch = NO_EPOCH
        self.throttle: Throttle | None = None
        self.traffic = TopicTraffic()
        self.watches: set[Watch] = set()
        self.fetchers: tuple[FollowerSession, ...] = ()

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the partition."""
        return self.leadership.is_leader

    @property
    def leader_epoch(self) -> int:
        """Return the leader epoch of the partition, -1 before the first leader."""
        return self.leadership.epoch

    @property
    def high_watermark(self) -> int:
        """Return the offset below which all records are committed."""
        return self.leadership.high_watermark

    def lead(self, placed: PartitionImage) -> None:
        """Become or remain the leader, with the replicas and the ISR of this metadata."""
        log, leadership = self.log, self.leadership
        if log is None:
            return
        now_ms = self.keeper.now_ms if len(placed.replicas) > 1 else 0
        begins = not leadership.is_leader or placed.leader_epoch != leadership.epoch
        if begins:
            log.become_leader(placed.leader_epoch)
            self.refused.join(log)
        if not begins:
            self.keeper.count_early(leadership, placed)
        leadership.lead(self.keeper.node_id, placed, log.state.log_end_offset, now_ms)
        if begins:
            self.configure(log.config)
        else:
            self.keeper.refresh(self)
            self.note_isr()

    def resign(self, leader_epoch: int, *, has_leader: bool = False, is_deleted: bool = False) -> None:
        """End the leadership of this broker, and wake all waiting requests."""
        self.leadership.resign(leader_epoch, has_leader=has_leader, is_deleted=is_deleted)
        self.wake()
        for fetcher in self.fetchers:
            fetcher.note_append(self)

    def configure(self, config: LogConfig) -> None:
        """Apply changed configs of the topic."""
        if self.log is not None:
            self.log.configure(config)
            self.leadership.configure(
                config.min_insync_replicas, config.flush_messages, flush_before_ack=config.flush_before_ack
            )
            self.keeper.refresh(self)

    @property
    def is_online(self) -> bool:
        """Whether the log can be served: it is open, and neither its last flush nor its directory has failed."""
        return self.log is not None and self.log.failed is None and self.directory.failed is None

    def require_leader(self, current_leader_epoch: int = NO_EPOCH) -> Log:
        """Return the log for a client whose metadata has this leader epoch, -1 if the client does not send one.

        Raise ApiError if the log is offline, if the client's epoch is fenced or unknown, or if this broker is not the
        leader.
        """
        log = self.log
        if log is None or log.flusher.failed is not None or self.directory.failed is not None:
            raise self.guard.offline()
        self.leadership.require_leader(current_leader_epoch)
        return log

    def append(
        self, data: Buffer, now_ms: int, verification: Verification | None = None, acks_all: bool = False
    ) -> Appended | None:
        """Append a client's batch without waiting.

        Return None if the append would take too long. The caller then awaits `append_off_loop`. Raise ApiError if the
        batch is invalid, if this broker cannot append to the partition, or if the write fails.
        """
        log, leadership = self.log, self.leadership
        try:
            if (
                log is None
                or not leadership.is_leader
                or self.directory.failed is not None
                or log.flusher.failed is not None
            ):
                log = self.require_leader()
            if acks_all and leadership.is_under_min_isr:
                leadership.require_min_isr()
            if log.appender.needs_off_loop(data) or (self.throttle is not None and not self.throttle.admits(len(data))):
                return None
            appended = log.appender.append(data, leadership.epoch, now_ms, verification)
        except LongWork:
            return None
        except ApiError as error:
            self.refused.note(data, error.code, now_ms)
            raise
        except OSError as error:
            self.refused.note(data, ErrorCode.KAFKA_STORAGE_ERROR, now_ms)
            raise self.guard.refused(error) from error
        traffic = self.traffic
        traffic.appends += 1
        traffic.messages_in += appended.last_offset - appended.base_offset + 1
        traffic.bytes_in += len(data)
        if leadership.advance(log.state.log_end_offset, log.flusher.recovery_point) and self.watches:
            self.wake()
        for fetcher in self.fetchers:
            fetcher.note_append(self)
        return appended

    async def append_off_loop(
        self, data: Buffer, now_ms: int, verification: Verification | None = None, acks_all: bool = False
    ) -> Appended:
        """Append a client's batch that is throttled, or whose records are too large to read on the event loop."""
        while self.throttle is not None and not self.throttle.admits(len(data)):
            await self.throttle.wait()
        try:
            batch = await self.require_leader().open_off_loop(data, now_ms)
            log = self.require_leader()
            if acks_all:
                self.leadership.require_min_isr()
            return self._append(log, batch.size, log.appender.append_opened, batch, self.leader_epoch, verification)
        except ApiError as error:
            self.refused.note(data, error.code, now_ms)
            raise

    def append_own(self, data: Buffer, verification: Verification | None = None) -> Appended:
        """Append a batch that this broker created.

        Raise ApiError if its producer is fenced or the write fails.
        """
        log = self.require_leader()
        self.leadership.require_min_isr()
        return self._append(log, len(data), log.appender.append_as_leader, data, self.leader_epoch, verification)

    def append_marker(self, marker: Marker, now_ms: int) -> Appended:
        """Append a transaction marker.

        Raise ApiError if the producer or coordinator of the marker is fenced, or if the write fails.
        """
        log = self.require_leader()
        self.leadership.require_min_isr()
        return self._append(log, MARKER_BYTES, log.appender.append_marker, marker, self.leader_epoch, now_ms)

    def _append(self, log: Log, size: int, append: Callable[..., Appended], *args: object) -> Appended:
        try:
            appended = append(*args)
        except OSError as error:
            raise self.guard.refused(error) from error
        traffic = self.traffic
        traffic.appends += 1
        traffic.messages_in += appended.last_offset - appended.base_offset + 1
        traffic.bytes_in += size
        self.advance(log)
        for fetcher in self.fetchers:
            fetcher.note_append(self)
        return appended

    def may_acknowledge(self, end_offset: int, acks_all: bool) -> bool:
        """Whether a batch that ends at `end_offset` may be acknowledged now, without a flush or a wait."""
        log, leadership = self.log, self.leadership
        assert log is not None
        return (not acks_all or leadership.high_watermark >= end_offset) and not leadership.flush_due(
            log.state.log_end_offset, log.flusher.recovery_point
        )

    @property
    def flush_due(self) -> bool:
        """Whether the log must be flushed before its newest records are acknowledged."""
        log = self.log
        return log is not None and self.leadership.flush_due(log.state.log_end_offset, log.flusher.recovery_point)

    async def flush_if_due(self) -> None:
        """Flush the log if its newest records must be durable before they are acknowledged.

        Raise ApiError as `flush` does.
        """
        self.require_leader()
        if self.flush_due:
            await self.flush()

    async def flush(self) -> None:
        """Make all appended records durable. Raise ApiError if the fsync fails. The log then goes offline."""
        while self.throttle is not None and self.throttle.is_paused:
            await self.throttle.wait()
        log = self.require_leader()
        try:
            with self.guard.errors():
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
                with self.guard.errors():
                    await log.retain(now_ms, self.high_watermark)
                for fetcher in self.fetchers:
                    fetcher.note_change(self)  # followers learn the log start offset
            except ApiError:
                if log is self.log:  # otherwise a move has replaced the log
                    raise

    async def scrub(self, pace: Paced) -> None:
        """Verify all stored batches.

        Raise ApiError if a read fails, or if a batch is damaged, which takes the partition offline.
        """
        if self.is_online and self.log is not None:
            with self.guard.errors():
                await self.log.scrub(pace)

    async def wait_committed(self, offset: int, leader_epoch: int = NO_EPOCH) -> None:
        """Wait until the high watermark has reached `offset`, as a Produce request with acks=all does.

        `leader_epoch` is the epoch in which the records were appended, the current one by default. Raise
        NOT_LEADER_OR_FOLLOWER if it ends first, since the records may be lost then, or
        NOT_ENOUGH_REPLICAS_AFTER_APPEND.
        """
        leadership = self.leadership
        epoch = leadership.epoch if leader_epoch == NO_EPOCH else leader_epoch
        watch = Watch((self,))
        try:
            self.advance(self.require_leader())
            leadership.require_led_in(epoch)
            while not leadership.is_committed(offset):
                await watch.wait()
                self.require_leader()
                leadership.require_led_in(epoch)
        finally:
            watch.close()

    def advance(self, log: Log) -> None:
        """Raise the high watermark as far as log and followers allow, and wake the requests that wait for it."""
        if self.leadership.advance(log.state.log_end_offset, log.flusher.recovery_point):
            for fetcher in self.fetchers:
                fetcher.note_change(self)
            self.wake()

    def note_isr(self) -> None:
        """Tell waiting requests and the sessions of followers that the ISR has changed."""
        for fetcher in self.fetchers:
            fetcher.note_change(self)
        self.wake()

    def wake(self) -> None:
        """Wake all requests that wait for a change of this partition."""
        for watch in self.watches:
            watch.wake()
