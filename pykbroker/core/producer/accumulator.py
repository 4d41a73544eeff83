"""The record accumulator: a queue of batches for each partition, and which of them may be sent to which broker.

1. The last batch of a queue accepts records. A second batch closes the first one.
2. A batch is due when it is full, after `linger.ms`, when callers wait for memory, or when the producer closes or ends
   a transaction. A flush closes the open batches, so that they are full.
3. A request takes one batch of each partition, so a queue is always sent from its front. A partition from which a batch
   was taken goes to the back, so that no partition starves.
4. A batch that is sent again returns to the front. With idempotence it returns to its place by sequence number.
5. The memory of a batch is returned once the outcome of all its records is known.
6. The rows of one call share batches of up to `large_batch_bytes`, each with memory of its own size. If a topic refuses
   a batch as too large, later batches for it have at most `batch.size`.
7. If a signal handler raises an error during an append, the record is appended completely or not at all, and no memory
   stays taken: a half-done append is undone (`_repair`) before the error is passed on.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from pykbroker.core.producer.batch import ProducerBatch, record_bytes_max
from pykbroker.core.producer.buffer_pool import BufferPool, MemoryTicket
from pykbroker.core.producer.columns import Columns
from pykbroker.core.producer.compression_ratio import CompressionRatio
from pykbroker.core.producer.incomplete import IncompleteBatches
from pykbroker.core.producer.record import SerializedRecord
from pykbroker.core.sequence_numbers import is_before
from pykbroker.core.topic_partition import TopicPartition
from wire.records.batch import HEADER_BYTES
from wire.records.compression import Codec

LARGE_BATCH_BYTES_MAX = 1_000_000
"""The maximum bytes of a batch for the rows of one call, before compression.

A topic accepts 1,048,588 bytes by default (`max.message.bytes`). A codec may add to data that it cannot compress.
"""
LARGE_BATCHES_MIN = 8
"""The number of such batches that `buffer.memory` has room for: five in flight to one broker, and some to fill."""


def large_batch_bytes(request_bytes_max: int, memory_bytes: int) -> int:
    """Return the maximum bytes of a batch for the rows of one call, by `max.request.size` and `buffer.memory`."""
    return min(request_bytes_max, LARGE_BATCH_BYTES_MAX, memory_bytes // LARGE_BATCHES_MIN)


class BatchSettings(msgspec.Struct, frozen=True):
    """The settings of batches, with Kafka's defaults. Sizes are in bytes, times in ms.

    The rows of one call share batches of up to `large_batch_bytes` if that is more than `batch_bytes`.
    """

    batch_bytes: int = 16_384
    linger_ms: float = 5
    delivery_timeout_ms: float = 120_000
    codec: Codec = Codec.NONE
    level: int | None = None
    large_batch_bytes: int = 0


class Leader(NamedTuple):
    """The leader of a partition and its epoch, as the cluster's metadata has them."""

    node: int
    epoch: int


LeaderOf = Callable[[TopicPartition], Leader | None]
"""A function that returns the leader of a partition, or None if the metadata has none."""


class Sequencer(Protocol):
    """The part of the producer that assigns producer ids and sequence numbers to batches."""

    def may_drain(self, batch: ProducerBatch) -> bool:
        """Whether the batch may be sent now."""

    def drained(self, batch: ProducerBatch) -> None:
        """Assign a sequence number to a batch that has none, and note that the batch is in flight."""

    def split(self, batch: ProducerBatch, parts: Iterable[ProducerBatch]) -> None:
        """Note that these batches are in flight instead of the batch that was split."""


class DueBatches(NamedTuple):
    """The partitions whose first batch is due, by the node of their leader, and the time of the next check in ms.

    `leaderless` are the topics that have batches for a partition without a known leader.
    """

    by_node: Mapping[int, list[TopicPartition]]
    next_check_ms: float
    leaderless: Collection[str]


class RecordAccumulator:
    """The batches of a producer that are not sent yet, and the memory of all its batches.

    Methods are called under one lock of the owner. Without a sequencer, the producer is not idempotent.
    """

    def __init__(self, settings: BatchSettings, pool: BufferPool, sequencer: Sequencer | None = None) -> None:
        self.settings, self.pool, self._sequencer = settings, pool, sequencer
        self.ratios = CompressionRatio(settings.codec)
        self.muted: set[TopicPartition] = set()
        """The partitions of which nothing is sent, because one batch in flight at a time keeps their order."""
        self.loop: object = None
        """The `loop` of new batches."""
        self.is_closing = False
        self.is_completing = False
        """Whether a transaction is being committed or aborted."""
        self._queues: dict[TopicPartition, deque[ProducerBatch]] = {}
        self._small_topics: set[str] = set()
        """The topics that have refused a batch larger than `batch.size`."""
        self.incomplete = IncompleteBatches(pool)

    # ---- records

    def try_append(self, partition: TopicPartition, record: SerializedRecord) -> tuple[ProducerBatch, int] | None:
        """Append a record to the open batch of a partition. Return the batch and the record's index there.

        Return None if no batch is open or the open one has no room.
        """
        queue = self._queues.get(partition)
        if queue is None:
            return None
        # Only the last batch is open: one before it was closed by it, or waits to be sent again.
        batch = queue[-1]
        index = batch.try_append(record.key, record.value, record.headers, record.timestamp)
        return None if index is None else (batch, index)

    def append(
        self, partition: TopicPartition, record: SerializedRecord, now_ms: float, ticket: MemoryTicket | None = None
    ) -> tuple[ProducerBatch, int] | None:
        """Append a record to the open batch of a partition, or to a new one. Return None without memory for it.

        The caller then waits in line with a ticket for `memory_for` bytes, passes it when it is served, and lets it
        leave the line at the end in any case. Index 0 means that a batch was opened. Raise ProducerClosed if the pool
        is closed, and RecordTooLarge if the record can never be sent.
        """
        appended = self.try_append(partition, record)
        if appended is not None:
            return appended
        size = record_bytes_max(record.key, record.value, record.headers)
        try:
            if self._batch_with_room(partition, size, record.timestamp, now_ms, ticket) is None:
                return None
            appended = self.try_append(partition, record)
            assert appended is not None, "a batch with memory for a record has no room for it"
        except BaseException:
            # An interrupt between these calls leaves queue, pool and batch each right, and not right together.
            self._repair()
            raise
        return appended

    def append_columns(
        self,
        partition: TopicPartition,
        columns: Columns,
        start: int,
        now_ms: float,
        ticket: MemoryTicket | None = None,
        wanted: int = 0,
    ) -> tuple[ProducerBatch, int, int] | None:
        """Append rows from `start` on, as many as one batch takes. Return the batch, the index there, and the next row.

        A new batch has room for `wanted` bytes if these exceed `batch.size` and the first row. Return None if memory
        must be waited for. Errors and `ticket` are those of `append`.
        """
        queue = self._queues.get(partition)
        if queue is not None:
            batch = queue[-1]
            end = columns.append_to(batch, start)
            if end > start:
                return batch, batch.count - (end - start), end
        try:
            size, timestamp = columns.record_bytes_max(start), columns.timestamp_of(start)
            opened = self._batch_with_room(partition, size, timestamp, now_ms, ticket, wanted)
            if opened is None:
                return None
            end = columns.append_to(opened, start)
            assert end > start, "a batch with memory for a record has no room for it"
        except BaseException:
            self._repair()
            raise
        return opened, opened.count - (end - start), end

    def guarded(self, call: Callable[..., Any], *args: Any) -> None:
        """Call a method of the pool, and undo what was left half done if it raises."""
        try:
            call(*args)
        except BaseException:
            self._repair()
            raise

    def flush(self) -> list[ProducerBatch]:
        """Close all open batches, so that they are due, and return the batches whose outcome is unknown."""
        for queue in self._queues.values():
            queue[-1].close()
        return self.incomplete.batches()

    def _repair(self) -> None:
        """Forget batches that were opened for a record which was not appended, and count their memory as free."""
        for partition, queue in list(self._queues.items()):
            # A batch without records was opened in this very call: nothing else leaves an empty batch in a queue.
            for batch in [each for each in queue if not each.count]:
                queue.remove(batch)
                self.incomplete.discard(batch)
            if not queue:
                del self._queues[partition]
        self.pool.recount(self.incomplete.reserved())

    def memory_for(self, size: int) -> int:
        """Return the bytes that a batch takes from the pool, if it is opened for at most `size` bytes."""
        return max(self.settings.batch_bytes, size)

    def bytes_of_columns(self, topic: str) -> int:
        """Return the bytes up to which the rows of one call share a batch."""
        return self.memory_for(0 if topic in self._small_topics else self.settings.large_batch_bytes)

    def _batch_with_room(
        self,
        partition: TopicPartition,
        size: int,
        timestamp: int,
        now_ms: float,
        ticket: MemoryTicket | None,
        wanted: int = 0,
    ) -> ProducerBatch | None:
        """Return a batch with memory for a record of `size` bytes. Return None if the pool lacks the memory.

        `timestamp` is that of the record. `wanted` are the bytes of all records that the caller has for the batch.
        """
        if ticket is not None and ticket.is_served:
            taken = self.pool.redeem(ticket)
        else:
            taken = self.memory_for(max(size, wanted))
            if not self.pool.try_take(taken):
                return None
        is_large = taken > self.memory_for(size)
        queue = self._queues.get(partition)
        if queue is not None:
            batch, needed = queue[-1], taken if is_large else size
            if not batch.is_full and batch.size + needed <= batch.bytes_max and batch.takes_time(timestamp):
                # The batch had room for the record, and lacked only the memory.
                batch.reserved += taken
                return batch
            batch.close()
        else:
            queue = self._queues[partition] = deque()
        bytes_max = self._bytes_max(partition.topic)
        batch = ProducerBatch(partition, max(bytes_max, taken) if is_large else bytes_max, taken, now_ms)
        batch.loop = self.loop
        queue.append(batch)
        self.incomplete.add(batch)
        return batch

    def _bytes_max(self, topic: str) -> int:
        """Return the bytes before compression that are expected to fill a batch of `batch.size` bytes."""
        return int(self.settings.batch_bytes / self.ratios.of(topic))

    # ---- sending

    def due(self, leaders: LeaderOf, now_ms: float) -> DueBatches:
        """Return the partitions that have a batch to send."""
        by_node: dict[int, list[TopicPartition]] = {}
        next_check_ms, leaderless = math.inf, set()
        at_once = self.is_closing or self.is_completing or self.pool.waiting > 0
        for partition, queue in self._queues.items():
            leader = leaders(partition)
            if leader is None:
                leaderless.add(partition.topic)
            elif partition not in self.muted:
                due_ms = self._due_ms(queue, leader, at_once=at_once)
                if due_ms <= now_ms:
                    by_node.setdefault(leader.node, []).append(partition)
                else:
                    next_check_ms = min(next_check_ms, due_ms)
        return DueBatches(by_node, next_check_ms, leaderless)

    def _due_ms(self, queue: deque[ProducerBatch], leader: Leader, *, at_once: bool) -> float:
        batch = queue[0]
        if batch.attempts:
            return -math.inf if leader.epoch > batch.leader_epoch else batch.retry_at_ms
        if at_once or len(queue) > 1 or batch.is_full:
            return -math.inf
        return batch.created_ms + self.settings.linger_ms

    def drain(self, partitions: Iterable[TopicPartition], leaders: LeaderOf, bytes_max: int) -> list[ProducerBatch]:
        """Remove and return the first batches of these partitions, up to `bytes_max` bytes, but one at least.

        A partition whose batch may not be sent now is passed over. The batches are closed, and not encoded yet.
        """
        drained: list[ProducerBatch] = []
        size = 0
        for partition in partitions:
            queue, leader = self._queues.get(partition), leaders(partition)
            if queue is None or leader is None or partition in self.muted:
                continue
            batch = queue[0]
            expected = self._expected_bytes(batch)
            if drained and size + expected > bytes_max:
                break
            if self._sequencer is not None and not self._sequencer.may_drain(batch):
                continue
            self._take(queue, batch, leader)
            drained.append(batch)
            size += expected
        return drained

    def _take(self, queue: deque[ProducerBatch], batch: ProducerBatch, leader: Leader) -> None:
        partition = batch.partition
        batch.close()
        batch.leader_epoch = leader.epoch
        if len(queue) > 1:
            queue.popleft()
            del self._queues[partition]
            self._queues[partition] = queue
        else:  # no queue is ever empty, not even if a signal handler raises an error after a call of these lines
            del self._queues[partition]
        if self._sequencer is not None:
            self._sequencer.drained(batch)

    def _expected_bytes(self, batch: ProducerBatch) -> int:
        return batch.encoded_bytes if batch.attempts else int(batch.size * self.ratios.of(batch.partition.topic))

    def encode(self, batch: ProducerBatch) -> bytes:
        """Return the bytes of a drained batch, and note how well they were compressed. This needs no lock."""
        data = batch.encode(self.settings.codec, self.settings.level)
        self.ratios.observe(batch.partition.topic, (len(data) - HEADER_BYTES) / (batch.size - HEADER_BYTES))
        return data

    def requeue(self, batch: ProducerBatch, retry_at_ms: float) -> None:
        """Return a batch to its queue, from which it is sent again at `retry_at_ms`, or when the leader changes."""
        batch.attempts += 1
        batch.retry_at_ms = retry_at_ms
        self._insert(batch)

    def split(self, batch: ProducerBatch) -> list[ProducerBatch]:
        """Split a batch that the broker refused as too large, and queue the parts. Return them.

        A part has at most `batch.size` bytes, or half of the batch if that was no larger.
        """
        self.ratios.reset(batch.partition.topic)
        if batch.encoded_bytes > self.settings.batch_bytes:
            self._small_topics.add(batch.partition.topic)
        bytes_max = self.settings.batch_bytes if batch.size > self.settings.batch_bytes else batch.size // 2
        parts = batch.split(bytes_max)
        if self._sequencer is not None:
            self._sequencer.split(batch, parts)
        for part in reversed(parts):
            self._insert(part)
        return parts

    def _insert(self, batch: ProducerBatch) -> None:
        queue = self._queues.setdefault(batch.partition, deque())
        place = 0
        if batch.state.base_sequence >= 0:
            while place < len(queue) and precedes(queue[place], batch):
                place += 1
        queue.insert(place, batch)

    # ---- ends

    @property
    def has_undrained(self) -> bool:
        """Whether a batch waits in a queue."""
        return bool(self._queues)

    def waiting(self, partition: TopicPartition) -> int:
        """Return the number of batches that wait for a partition."""
        queue = self._queues.get(partition)
        return 0 if queue is None else len(queue)

    def expired(self, now_ms: float) -> list[ProducerBatch]:
        """Remove and return the queued batches that are older than `delivery.timeout.ms`."""
        limit_ms = now_ms - self.settings.delivery_timeout_ms
        return self._remove(lambda batch: batch.created_ms <= limit_ms)

    def next_expiry_ms(self) -> float:
        """Return the time at which the first queued batch expires. The first batch of a queue is the oldest."""
        first = min((queue[0].created_ms for queue in self._queues.values()), default=math.inf)
        return first + self.settings.delivery_timeout_ms

    def remove(self, *, sequenced: bool) -> list[ProducerBatch]:
        """Remove and return the queued batches without a sequence number, which were never sent, or all of them."""
        return self._remove(lambda batch: sequenced or batch.state.base_sequence < 0)

    def _remove(self, is_removed: Callable[[ProducerBatch], bool]) -> list[ProducerBatch]:
        removed: list[ProducerBatch] = []
        for partition, queue in list(self._queues.items()):
            found = [batch for batch in queue if is_removed(batch)]
            if found:
                kept = deque(batch for batch in queue if not is_removed(batch))
                if kept:
                    self._queues[partition] = kept
                else:
                    del self._queues[partition]
                removed += found
        return removed


def precedes(first: ProducerBatch, second: ProducerBatch) -> bool:
    """Whether the first batch has a sequence number before that of the second one. Sequence numbers wrap at 2^31."""
    start = first.state.base_sequence
    return start >= 0 and is_before(start, second.state.base_sequence)
