"""The idempotent producers of one log: sequences, duplicates, fencing (KIP-98, KIP-360, KIP-890).

1. The last five batches of each producer are remembered. A duplicate of one of them gets the reply of the original.
2. Sequences count records from 0 in each epoch and wrap after 2**31 - 1. An unknown producer may start at any sequence,
   since its state may have expired or its records may be deleted. The exception is a sequence above that of an earlier
   batch that was refused: the retry of the earlier batch would then be out of order forever. A batch that follows a
   refused one gets the error of the refused one, whether its producer is known or not (`refused_sequences`).
3. A new epoch starts with sequence 0. A batch with an older epoch is fenced, and so is a marker from an older
   coordinator epoch.
4. A batch that begins a transaction must present a verification: see `verification`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import msgspec

from pykbroker.core.errors import ApiError
from pykbroker.core.log.refused_sequences import RefusedSequences
from pykbroker.core.log.transactions import AbortedTransaction, OpenTransactions
from pykbroker.core.log.verification import Verification, Verifications
from pykbroker.core.producer_epoch import EPOCH_MAX
from pykbroker.core.sequence_numbers import SEQUENCE_MASK
from wire.error_codes import ErrorCode
from wire.sentinels import NO_OFFSET, NO_SEQUENCE

BATCHES_REMEMBERED = 5
"""An idempotent producer of Kafka has up to five requests in flight, and may send any of them again."""
TRANSACTION_VERSION_2 = 2
"""The first version in which every transaction has its own epoch, and its marker carries the next epoch (KIP-890)."""


class WrittenBatch(msgspec.Struct, frozen=True, gc=False):
    """A batch in the log. `timestamp` is its largest timestamp."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def base_offset(self) -> int:
        """Return the offset of the first record."""
        return self.last_offset - self.offset_delta


class Marker(msgspec.Struct, frozen=True, gc=False):
    """A transaction marker: the coordinator's decision to commit or abort a producer's transaction."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: int = 0


def ends_earlier(epoch: int, transaction_version: int) -> bool:
    """Whether a marker with this producer epoch ends a transaction of an earlier epoch, as from version 2 on.

    A transaction in EPOCH_MAX, which no coordinator lets begin but a log may have, ends in the same epoch.
    """
    return transaction_version >= TRANSACTION_VERSION_2 and epoch < EPOCH_MAX


class ProducerState:
    """A log's state of one producer id. `txn_first_offset` and `coordinator_epoch` are -1 if there is none."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "next_sequence",
        "producer_id",
        "txn_first_offset",
    )

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id, self.epoch = producer_id, epoch
        self.batches: deque[WrittenBatch] = deque(maxlen=BATCHES_REMEMBERED)
        self.next_sequence = 0
        self.last_timestamp = self.coordinator_epoch = self.txn_first_offset = -1

    @property
    def last_sequence(self) -> int:
        """Return the sequence of the newest record of this epoch, or -1 if there is none."""
        return self.batches[-1].last_sequence if self.batches else -1

    def is_open_in(self, epoch: int) -> bool:
        """Whether a transaction of this epoch is open. A batch of it then needs no verification."""
        return self.txn_first_offset >= 0 and self.epoch == epoch

    def check_epoch(self, epoch: int) -> None:
        """Raise ApiError INVALID_PRODUCER_EPOCH if a newer instance of the producer has written."""
        if epoch < self.epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {self.producer_id} writes with epoch {epoch}, the current one is {self.epoch}",
            )

    def duplicate(self, epoch: int, sequence: int, last_sequence: int) -> WrittenBatch | None:
        """Return the original if this batch repeats one of the last five batches, otherwise None."""
        if epoch == self.epoch:
            for written in self.batches:
                if written.first_sequence == sequence and written.last_sequence == last_sequence:
                    return written
        return None

    def expected(self, epoch: int) -> int:
        """Return the sequence that the next batch of this epoch, which is not fenced, must have."""
        return self.next_sequence if epoch == self.epoch else 0

    def check(self, epoch: int, sequence: int, transactional: bool) -> None:
        """Raise ApiError if this batch, which is neither fenced nor a duplicate, may not be written next."""
        expected = self.expected(epoch)
        if sequence != expected:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {self.producer_id} in epoch {epoch}: sequence {sequence} came where {expected} was expected",
            )
        if self.txn_first_offset >= 0 and not transactional:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {self.producer_id} has an open transaction and writes outside of it",
            )

    def remember(self, epoch: int, written: WrittenBatch) -> None:
        """Record a written data batch as the newest of its epoch."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
        self.batches.append(written)
        self.next_sequence = (written.last_sequence + 1) & SEQUENCE_MASK
        self.last_timestamp = written.timestamp


class Producers:
    """All producers of one log, with their transactions. Recovery passes each batch to `remember` in log order.

    `refused` has the batches that the partition of the log has refused. It is None before the first one.
    """

    __slots__ = ("_producers", "refused", "transactions", "verifications")

    def __init__(self, producers: tuple[ProducerState, ...] = ()) -> None:
        self._producers = {producer.producer_id: producer for producer in producers}
        self.transactions = OpenTransactions(
            (one.producer_id, one.txn_first_offset) for one in producers if one.txn_first_offset >= 0
        )
        self.verifications = Verifications()
        self.refused: RefusedSequences | None = None

    def __len__(self) -> int:
        return len(self._producers)

    def get(self, producer_id: int) -> ProducerState | None:
        return self._producers.get(producer_id)

    def entries(self) -> tuple[ProducerState, ...]:
        """Return every producer, in the order of their first batches."""
        return tuple(self._producers.values())

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, from_zero: bool = False
    ) -> Verification | None:
        """Return the verification that a transactional batch needs, or None if its transaction is already open.

        With `from_zero`, a producer that is unknown in this log must start with sequence 0 (transaction version 2).
        """
        producer = self._producers.get(producer_id)
        if producer is not None and producer.is_open_in(epoch):
            return None
        return self.verifications.begin(producer_id, epoch, sequence, now_ms, from_zero=from_zero)

    def check(
        self,
        producer_id: int,
        epoch: int,
        sequence: int,
        last_offset_delta: int,
        transactional: bool,
        verification: Verification | None = None,
    ) -> WrittenBatch | None:
        """Check a client's batch before it is written. Return the original batch if it is a duplicate, otherwise None.

        Raise ApiError if the batch is fenced, out of order, or not part of an ongoing transaction.
        """
        producer = self._producers.get(producer_id)
        if producer is not None:
            if (
                epoch == producer.epoch
                and sequence == producer.next_sequence
                and transactional == (producer.txn_first_offset >= 0)
            ):
                return None  # cannot be a duplicate: five batches never span all sequences
            written = producer.duplicate(epoch, sequence, (sequence + last_offset_delta) & SEQUENCE_MASK)
            if written is not None:
                return written
            producer.check_epoch(epoch)
        if self.refused is not None:
            expected = None if producer is None else producer.expected(epoch)
            self.refused.check(producer_id, epoch, sequence, expected)
        if transactional:
            self.check_verified(producer_id, epoch, verification, sequence)
        if producer is not None:
            producer.check(epoch, sequence, transactional)
        return None

    def expected(self, producer_id: int, epoch: int) -> int | None:
        """Return the sequence that the next batch of this producer epoch must have, or None if any is accepted."""
        producer = self._producers.get(producer_id)
        return None if producer is None else producer.expected(epoch)

    def removed_since(self, earlier: Producers) -> Iterator[tuple[ProducerState, int]]:
        """Yield each producer of which a truncation removed batches, and the lowest sequence that it removed.

        `earlier` is the state before the truncation, and this one the state after it.
        """
        for one in earlier.entries():
            known = self._producers.get(one.producer_id)
            if known is not None:
                sequence = known.expected(one.epoch)
                if sequence != one.next_sequence:
                    yield one, sequence
            elif one.batches:
                yield one, one.batches[0].first_sequence

    def check_verified(
        self, producer_id: int, epoch: int, verification: Verification | None, sequence: int = NO_SEQUENCE
    ) -> None:
        """Check that a transactional batch continues a transaction, or begins one that the coordinator has verified.

        Raise ApiError INVALID_TXN_STATE if it does not, and OUT_OF_ORDER_SEQUENCE_NUMBER if a batch with a lower
        sequence was refused meanwhile.
        """
        producer = self._producers.get(producer_id)
        if producer is not None:
            producer.check_epoch(epoch)
            if producer.is_open_in(epoch):
                return
        if verification is None or self.verifications.get(producer_id) is not verification:
            raise ApiError(ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")
        lowest = 0 if producer is None and verification.from_zero else verification.lowest_sequence
        if sequence > lowest:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} begins a transaction with sequence {sequence}, not {lowest}",
            )

    def remember(
        self,
        producer_id: int,
        epoch: int,
        sequence: int,
        base_offset: int,
        last_offset_delta: int,
        timestamp: int,
        transactional: bool,
    ) -> None:
        """Record a data batch that has been written."""
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = ProducerState(producer_id, epoch)
        producer.remember(
            epoch,
            WrittenBatch(
                sequence,
                (sequence + last_offset_delta) & SEQUENCE_MASK,
                base_offset + last_offset_delta,
                last_offset_delta,
                timestamp,
            ),
        )
        if transactional and producer.txn_first_offset < 0:
            producer.txn_first_offset = base_offset
            self.transactions.begin(producer_id, base_offset)
            self.verifications.end(producer_id, epoch)

    def check_marker(self, marker: Marker) -> None:
        """Check a marker before it is written. Raise ApiError if its producer epoch or coordinator epoch is fenced."""
        producer = self._producers.get(marker.producer_id)
        if producer is None:
            return
        if ends_earlier(marker.producer_epoch, marker.transaction_version) and producer.is_open_in(
            marker.producer_epoch
        ):
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"the marker of producer {marker.producer_id} has epoch "
                f"{marker.producer_epoch}, which the transaction has; the next epoch is required",
            )
        producer.check_epoch(marker.producer_epoch)
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise ApiError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"marker of producer {marker.producer_id} from "
                f"coordinator epoch {marker.coordinator_epoch}, the current one is "
                f"{producer.coordinator_epoch}",
            )

    def remember_marker(
        self,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int,
        offset: int,
        timestamp: int,
        aborted: bool,
        transaction_version: int = 0,
    ) -> AbortedTransaction | None:
        """Record a marker that has been written. Return the aborted transaction that consumers must skip, or None.

        A marker that was read from a log has transaction version 0, since logs do not store the version.
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = ProducerState(producer_id, epoch)
        if epoch != producer.epoch:
            # From version 2 on, a marker has the epoch of the next transaction, whose sequences begin at 0 (KIP-890).
            producer.epoch, producer.next_sequence = epoch, 0
            producer.batches.clear()
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp = timestamp
        producer.txn_first_offset = NO_OFFSET
        # A verification that waits for the transaction of epoch e must not survive the end of that transaction: its
        # batch would open a transaction that no marker ends. From version 2 on that end has a later epoch than e, and a
        # marker of epoch e ends the previous transaction, whose client has begun the next one meanwhile. Up to version
        # 1 the ends of both transactions have epoch e, so every marker ends the verification.
        self.verifications.end(producer_id, epoch - 1 if ends_earlier(epoch, transaction_version) else EPOCH_MAX)
        return self.transactions.decide(producer_id, offset, aborted)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Remove producers without an open transaction that have written nothing for `producer.id.expiration.ms`."""
        before = self._producers
        self._producers = {
            producer_id: one
            for producer_id, one in before.items()
            if one.txn_first_offset >= 0 or now_ms - one.last_timestamp < expiration_ms
        }
        if self.refused is not None:
            self.refused.expire(now_ms, expiration_ms, before.keys() - self._producers.keys())
        self.verifications.expire(now_ms, expiration_ms)
