"""The producer id, its epoch, and the sequence numbers of batches, so that retries write each record once (KIP-98).

1. Batches of a partition carry consecutive sequence numbers, which wrap at 2^31. A batch keeps its number for retries.
2. While a batch is sent again, no later batch of its partition is sent: retries leave one by one, in order. The first
   batch of a partition is alone in flight, since a broker accepts any sequence number of a producer that it does not
   know. Kafka's producer sends later batches at once, and they may be written before the first one.
3. At most five batches of a partition have a sequence number and no outcome, on however many connections they are after
   a change of the leader: a broker recognizes a repeated batch among the last five only. Kafka's producer limits the
   requests of each connection. If the old leader's answers are lost, it may write their batches twice.
4. A gap that no retry can close is left by a bump of the epoch (KIP-360): the batches of the partition that are still
   wanted are numbered from 0 again. The partition waits until no batch of it is on its way to a broker or may
   have been written, since the broker knows such a batch by its old number only. Until then it is sent again under that
   number. Kafka's producer does not wait.
5. Other partitions keep the old epoch until their batches in flight are done.
6. An epoch that cannot be raised any more is replaced by a new producer id.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pykbroker.core.errors import ApiError
from pykbroker.core.producer.batch import BatchState, ProducerBatch
from pykbroker.core.producer_epoch import EPOCH_MAX, next_epoch
from pykbroker.core.sequence_numbers import HALF_OF_SEQUENCES, SEQUENCE_MASK, is_before
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode, error_code
from wire.messages.produce import PartitionProduceResponse
from wire.sentinels import NO_OFFSET, NO_PRODUCER_EPOCH, NO_PRODUCER_ID

NOT_WRITTEN = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
"""The errors after which neither a batch nor any later one of its partition is in the log, whatever came before."""
IN_FLIGHT_BATCHES_MAX = 5
"""The number of batches of a producer that a log remembers."""


class ProducerIdentity(NamedTuple):
    """A producer id and its epoch. Both are -1 before a broker has assigned them."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH

    @property
    def is_valid(self) -> bool:
        """Whether a broker has assigned the producer id."""
        return self.producer_id >= 0


class PartitionSequences:
    """The sequence numbers of one partition under one producer id and epoch."""

    __slots__ = ("identity", "in_flight", "is_known", "last_offset", "last_written", "next", "on_wire", "unresolved")

    def __init__(self) -> None:
        self.identity = ProducerIdentity()
        self.next = 0
        """The sequence number of the next new batch."""
        self.last_written = SEQUENCE_MASK
        """The sequence number of the last record that was acknowledged. 0 follows its first value."""
        self.last_offset = NO_OFFSET
        """The highest offset that was acknowledged."""
        self.is_known = False
        """Whether a broker has acknowledged a batch with this producer id."""
        self.in_flight: list[ProducerBatch] = []
        """The batches with a sequence number and without an outcome, in the order of their numbers."""
        self.on_wire: set[ProducerBatch] = set()
        """The batches that were sent and not answered yet, also expired ones."""
        self.unresolved: int | None = None
        """The sequence number after an expired batch that may or may not have been written."""

    def restart(self, identity: ProducerIdentity) -> None:
        """Number all batches in flight from 0, under this identity."""
        self.is_known = self.is_known and identity.producer_id == self.identity.producer_id
        self.identity, self.next, self.last_written, self.unresolved = identity, 0, SEQUENCE_MASK, None
        for batch in self.in_flight:
            self.number(batch, transactional=batch.state.transactional)

    def number(self, batch: ProducerBatch, *, transactional: bool) -> None:
        """Assign the next sequence numbers to a batch."""
        batch.set_state(BatchState(*self.identity, self.next, transactional))
        self.next = (self.next + batch.count) & SEQUENCE_MASK

    @property
    def may_be_written(self) -> bool:
        """Whether a batch in flight may be in the log under its number."""
        return any(batch.may_be_written for batch in self.in_flight)

    def follows_written(self, sequence: int) -> bool:
        """Whether a sequence number is the next one after the last that was acknowledged."""
        return sequence == (self.last_written + 1) & SEQUENCE_MASK

    def written(self, batch: ProducerBatch, base_offset: int) -> None:
        """Note that a batch was acknowledged."""
        if batch.state[:2] == self.identity:
            self.is_known = True
            last = (batch.state.base_sequence + batch.count - 1) & SEQUENCE_MASK
            # After a change of the leader, answers may come on two connections, and not in the order of their batches.
            if (last - self.last_written) & SEQUENCE_MASK < HALF_OF_SEQUENCES:
                self.last_written = last
        if base_offset != NO_OFFSET:
            self.last_offset = max(self.last_offset, base_offset + batch.count - 1)


class Sequences:
    """The sequence numbers of an idempotent producer. It matches `sender.DeliverySequencer`.

    `advance` is called before batches are drained. If `needs_identity` is true then, the owner asks a broker for a
    producer id and calls `set_identity`.
    """

    is_transactional = False

    def __init__(self) -> None:
        self.identity = ProducerIdentity()
        self._partitions: dict[TopicPartition, PartitionSequences] = {}
        self._bumping: set[TopicPartition] = set()
        """The partitions whose batches are numbered from 0 with the next epoch."""

    # ---- the identity

    @property
    def needs_identity(self) -> bool:
        """Whether a producer id must be requested before anything can be sent."""
        return not self.identity.is_valid

    def set_identity(self, identity: ProducerIdentity) -> None:
        """Use a producer id and epoch that a broker has assigned."""
        self.identity = identity
        self._restart_bumping()

    def advance(self) -> None:
        """Resolve partitions whose batches have all been answered, and bump the epoch if a partition needs it."""
        for name, partition in self._partitions.items():
            if partition.unresolved is not None and not partition.in_flight and not partition.on_wire:
                partition.unresolved = None
                if not partition.follows_written(partition.next):
                    self._request_bump(name)
        if self.identity.is_valid and not all(map(self._is_open, self._bumping)):
            producer_id, epoch = self.identity
            exhausted = epoch == EPOCH_MAX  # an idempotent producer, which nobody fences, uses the last epoch, too
            self.identity = ProducerIdentity() if exhausted else ProducerIdentity(producer_id, next_epoch(epoch))
            self._restart_bumping()

    def _request_bump(self, partition: TopicPartition) -> None:
        self._bumping.add(partition)

    def _restart_bumping(self) -> None:
        """Number the batches of partitions anew that need it. Batches that wait for an answer keep their old epoch."""
        if self.identity.is_valid:
            for partition in [each for each in self._bumping if not self._is_open(each)]:
                self._of(partition).restart(self.identity)
                self._bumping.remove(partition)

    def _is_open(self, partition: TopicPartition) -> bool:
        found = self._of(partition)
        return bool(found.on_wire) or found.may_be_written

    def _of(self, partition: TopicPartition) -> PartitionSequences:
        found = self._partitions.get(partition)
        if found is None:
            found = self._partitions[partition] = PartitionSequences()
        return found

    # ---- batches on their way

    def may_drain(self, batch: ProducerBatch) -> bool:
        """Whether the batch may be sent now without breaking the order of sequence numbers."""
        if not self.identity.is_valid:
            return False
        partition, is_bumping = self._of(batch.partition), batch.partition in self._bumping
        if batch.state.base_sequence >= 0:
            # This batch is sent again: see 2, and 4 for a partition that waits for an epoch.
            is_first = not partition.in_flight or partition.in_flight[0] is batch
            return is_first and (not is_bumping or partition.may_be_written)
        if is_bumping or len(partition.in_flight) >= IN_FLIGHT_BATCHES_MAX:
            return False
        # The first batch of a partition is alone in flight: see 2.
        is_alone = not partition.in_flight and not partition.on_wire
        return partition.unresolved is None and (
            is_alone or (partition.is_known and partition.identity == self.identity)
        )

    def drained(self, batch: ProducerBatch) -> None:
        """Assign sequence numbers to a batch that has none, and note that it is being sent."""
        partition = self._of(batch.partition)
        if batch.state.base_sequence < 0:
            if partition.identity != self.identity:
                partition.restart(self.identity)
            partition.number(batch, transactional=self.is_transactional)
            partition.in_flight.append(batch)
        partition.on_wire.add(batch)

    def split(self, batch: ProducerBatch, parts: Iterable[ProducerBatch]) -> None:
        """Note that these batches are in flight instead of the batch that was split."""
        in_flight = self._of(batch.partition).in_flight
        place = in_flight.index(batch)
        in_flight[place : place + 1] = parts

    # ---- answers

    def answered(self, batch: ProducerBatch, code: ErrorCode) -> None:
        """Note that the request of a batch has ended with this code, that of an answer or of a failed request."""
        partition = self._of(batch.partition)
        partition.on_wire.discard(batch)
        if code in NOT_WRITTEN and batch in partition.in_flight:
            for each in partition.in_flight[partition.in_flight.index(batch) :]:
                each.may_be_written = False

    def may_retry(self, batch: ProducerBatch, answer: PartitionProduceResponse) -> bool:
        """Whether the batch may be sent again after this error. A gap in the sequence requests a bump of the epoch."""
        code = error_code(answer.error_code)
        if code not in (ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
            return code.retriable
        partition, sequence = self._of(batch.partition), batch.state.base_sequence
        if code is ErrorCode.UNKNOWN_PRODUCER_ID:
            is_gap = answer.log_start_offset != NO_OFFSET  # a broker that is no leader any more does not know it
        elif partition.unresolved is None:
            is_gap = partition.follows_written(sequence)
        else:
            is_gap = sequence == partition.unresolved
        if is_gap:
            self._request_bump(batch.partition)
        return True

    def succeeded(self, batch: ProducerBatch, answer: PartitionProduceResponse) -> None:
        """Note that the batch was written."""
        partition = self._of(batch.partition)
        partition.written(batch, answer.base_offset)
        self._remove(partition, batch)

    def failed(self, batch: ProducerBatch, error: ApiError, *, adjust: bool) -> None:
        """Note that the batch failed for good. With `adjust`, it certainly was not written, and the gap is closed."""
        self._remove(self._of(batch.partition), batch)
        if adjust:
            self._request_bump(batch.partition)

    def left(self, batch: ProducerBatch) -> None:
        """Note that a batch may have been written although it has failed. New batches wait until that is known."""
        partition = self._of(batch.partition)
        self._remove(partition, batch)
        end = (batch.state.base_sequence + batch.count) & SEQUENCE_MASK
        if partition.unresolved is None or is_before(partition.unresolved, end):
            partition.unresolved = end

    def _remove(self, partition: PartitionSequences, batch: ProducerBatch) -> None:
        if batch in partition.in_flight:
            partition.in_flight.remove(batch)
