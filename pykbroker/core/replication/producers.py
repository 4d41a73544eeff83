"""Idempotent producers of one log: sequences, duplicates, fencing (KIP-98, KIP-360, KIP-890).

1. Of each producer the last five batches are remembered; one that comes again is answered as the first time.
2. Sequences count records from 0 for each epoch and wrap after 2**31 - 1. An unknown producer may begin anywhere: its
   state may have expired, or its records may be gone.
3. A new epoch begins at 0. An older epoch is fenced, as is an older coordinator's marker.
"""

from __future__ import annotations

from collections import deque

import msgspec

from pykbroker.core.errors import ApiError
from pykbroker.core.replication.transactions import AbortedTransaction, Transactions
from wire.error_codes import ErrorCode

SEQUENCE_MASK = 0x7FFFFFFF
BATCHES_REMEMBERED = 5
TRANSACTION_VERSION_2 = 2
"""From here on every transaction has an epoch of its own, and its marker bears the next one (KIP-890)."""


class Written(msgspec.Struct, frozen=True, gc=False):
    """A batch in the log. `timestamp` is its largest."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def base_offset(self) -> int:
        """Offset of the first record."""
        return self.last_offset - self.offset_delta


class Producer:
    """What a log knows of one producer id. `txn_first_offset` and `coordinator_epoch` are -1 where there is none."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "next_sequence", "producer_id",
                 "txn_first_offset")

    def __init__(self, producer_id: int, epoch: int, *, last: Written | None = None, last_timestamp: int = -1,
                 coordinator_epoch: int = -1, txn_first_offset: int = -1) -> None:
        self.producer_id, self.epoch = producer_id, epoch
        self.batches: deque[Written] = deque((last,) if last else (), BATCHES_REMEMBERED)
        self.next_sequence = (last.last_sequence + 1) & SEQUENCE_MASK if last else 0
        self.last_timestamp, self.coordinator_epoch = last_timestamp, coordinator_epoch
        self.txn_first_offset = txn_first_offset

    @property
    def last_sequence(self) -> int:
        """Of the newest record of this epoch, -1 when there is none."""
        return self.batches[-1].last_sequence if self.batches else -1

    def check_epoch(self, epoch: int) -> None:
        """INVALID_PRODUCER_EPOCH: a newer instance of the producer has taken over."""
        if epoch < self.epoch:
            raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH,
                           f"producer {self.producer_id} writes with epoch {epoch}, the current one is {self.epoch}")

    def check(self, epoch: int, sequence: int, last_sequence: int, transactional: bool) -> Written | None:
        """Whether this batch may follow: None, or the first answer if it is a duplicate; ApiError if it may not."""
        if epoch == self.epoch:
            for written in self.batches:
                if written.first_sequence == sequence and written.last_sequence == last_sequence:
                    return written
        self.check_epoch(epoch)
        expected = self.next_sequence if epoch == self.epoch else 0
        if sequence != expected:
            raise ApiError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, f"producer {self.producer_id} in epoch {epoch}: "
                           f"sequence {sequence} came where {expected} was expected")
        if self.txn_first_offset >= 0 and not transactional:
            raise ApiError(ErrorCode.INVALID_TXN_STATE,
                           f"producer {self.producer_id} has an open transaction and writes outside of it")
        return None

    def remember(self, epoch: int, written: Written) -> None:
        """A data batch was written; it is the newest of its epoch."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
        self.batches.append(written)
        self.next_sequence = (written.last_sequence + 1) & SEQUENCE_MASK
        self.last_timestamp = written.timestamp


class Producers:
    """All producers of one log, with their transactions. Recovery gives it the batches in log order by `remember`."""

    __slots__ = ("_producers", "transactions")

    def __init__(self, producers: tuple[Producer, ...] = ()) -> None:
        self._producers = {producer.producer_id: producer for producer in producers}
        self.transactions = Transactions((one.producer_id, one.txn_first_offset) for one in producers
                                         if one.txn_first_offset >= 0)

    def __len__(self) -> int:
        return len(self._producers)

    def get(self, producer_id: int) -> Producer | None:
        """What is known of one producer."""
        return self._producers.get(producer_id)

    def entries(self) -> tuple[Producer, ...]:
        """Every producer, in the order in which it first wrote."""
        return tuple(self._producers.values())

    def check(self, producer_id: int, epoch: int, sequence: int, last_offset_delta: int,
              transactional: bool) -> Written | None:
        """Before a client's batch: None if it may be written, the first answer of a duplicate, or ApiError."""
        producer = self._producers.get(producer_id)
        if producer is None:
            return None
        if epoch == producer.epoch and sequence == producer.next_sequence and (
                transactional or producer.txn_first_offset < 0):
            return None  # no duplicate either: five batches do not span all sequences
        return producer.check(epoch, sequence, (sequence + last_offset_delta) & SEQUENCE_MASK, transactional)

    def remember(self, producer_id: int, epoch: int, sequence: int, base_offset: int, last_offset_delta: int,
                 timestamp: int, transactional: bool) -> None:
        """A data batch of this producer stands in the log."""
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = Producer(producer_id, epoch)
        producer.remember(epoch, Written(sequence, (sequence + last_offset_delta) & SEQUENCE_MASK,
                                         base_offset + last_offset_delta, last_offset_delta, timestamp))
        if transactional and producer.txn_first_offset < 0:
            producer.txn_first_offset = base_offset
            self.transactions.begin(producer_id, base_offset)

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, transaction_version: int = 0) -> None:
        """Before a transaction's end is written: ApiError if the producer or the coordinator was fenced."""
        producer = self._producers.get(producer_id)
        if producer is None:
            return
        own_epoch = epoch == producer.epoch and producer.txn_first_offset >= 0
        if own_epoch and transaction_version >= TRANSACTION_VERSION_2:
            raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH, f"the marker of producer {producer_id} bears epoch "
                           f"{epoch} of the transaction itself, not the next one")
        producer.check_epoch(epoch)
        if coordinator_epoch < producer.coordinator_epoch:
            raise ApiError(ErrorCode.TRANSACTION_COORDINATOR_FENCED, f"marker of producer {producer_id} from "
                           f"coordinator epoch {coordinator_epoch}, the current one is {producer.coordinator_epoch}")

    def remember_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, offset: int, timestamp: int,
                        aborted: bool) -> AbortedTransaction | None:
        """A transaction's end stands in the log. Answers what readers must skip, if anything."""
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = Producer(producer_id, epoch)
        if epoch != producer.epoch:
            producer.epoch, producer.next_sequence = epoch, 0
            producer.batches.clear()
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp = timestamp
        producer.txn_first_offset = -1
        return self.transactions.decide(producer_id, offset, aborted)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget who has written nothing for `producer.id.expiration.ms` and has no open transaction."""
        self._producers = {producer_id: one for producer_id, one in self._producers.items()
                           if one.txn_first_offset >= 0 or now_ms - one.last_timestamp < expiration_ms}
