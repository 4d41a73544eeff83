"""The coordinator's state of one transactional id: its producer and its newest transaction.

A `Transaction` is frozen. Each method returns the changed transaction, as it will be once its record is replayed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from pykbroker.core.coordinator.record import CoordinatorRecord
from pykbroker.core.producer_epoch import next_epoch
from pykbroker.core.topic_partition import TopicPartition, indexes_by_topic
from pykbroker.core.txn.state import PREDECESSORS, TransactionState
from wire.errors import DecodeError
from wire.sentinels import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP
from wire.stored.transaction_log import PartitionsSchema, TransactionLogKey, TransactionLogValue

EPOCH_BUMP_VERSION = 2
"""The first transaction version in which the end of every transaction bumps the epoch (KIP-890)."""


class ProducerIdAndEpoch(NamedTuple):
    """The identity of a transactional producer. A producer that has an older epoch of the id is fenced."""

    producer_id: int
    epoch: int


class Transaction(msgspec.Struct, frozen=True):
    """The state of one transactional id. Times are ms since 1970. A missing producer, epoch or time is -1."""

    transactional_id: str
    producer_id: int
    timeout_ms: int
    epoch: int = NO_PRODUCER_EPOCH
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NO_TIMESTAMP
    updated_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0

    @property
    def bumps_epoch(self) -> bool:
        """Whether the client that began or ended the transaction uses transaction version 2."""
        return self.client_version >= EPOCH_BUMP_VERSION

    @property
    def next_producer(self) -> ProducerIdAndEpoch:
        """Return the producer id and epoch of the next transaction, as in the reply to EndTxn."""
        if self.bumps_epoch and self.next_producer_id != NO_PRODUCER_ID:
            return ProducerIdAndEpoch(self.next_producer_id, 0)
        return ProducerIdAndEpoch(self.producer_id, self.epoch)

    def renewed(self, producer_id: int, epoch: int, timeout_ms: int, wall_ms: int) -> Transaction:
        """Return the transaction with a new producer id and epoch, after InitProducerId."""
        return self._become(
            TransactionState.EMPTY,
            wall_ms,
            producer_id=producer_id,
            epoch=epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            started_ms=NO_TIMESTAMP,
        )

    def extended(self, partitions: frozenset[TopicPartition], client_version: int, wall_ms: int) -> Transaction:
        """Return the transaction with more partitions. The first partitions begin it."""
        started_ms = self.started_ms if self.state is TransactionState.ONGOING else wall_ms
        return self._become(
            TransactionState.ONGOING,
            wall_ms,
            partitions=self.partitions | partitions,
            started_ms=started_ms,
            client_version=client_version,
        )

    def ended(self, *, commit: bool, client_version: int, next_producer_id: int, wall_ms: int) -> Transaction:
        """Return the transaction as its producer decides it.

        `next_producer_id` replaces a producer id that has no epochs left.
        """
        bumps = client_version >= EPOCH_BUMP_VERSION
        return self._become(
            TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
            wall_ms,
            # The markers have this epoch, so that they fence late batches of this transaction (KIP-890).
            epoch=next_epoch(self.epoch) if bumps else self.epoch,
            client_version=client_version,
            next_producer_id=next_producer_id,
            started_ms=self.started_ms if self.state is TransactionState.ONGOING else wall_ms,
        )

    def fenced(self, *, client_version: int, next_producer_id: int, wall_ms: int) -> Transaction:
        """Return the transaction as aborted by the coordinator, with an epoch that fences its producer."""
        aborted = self.ended(
            commit=False, client_version=client_version, next_producer_id=next_producer_id, wall_ms=wall_ms
        )
        # Below version 2 `ended` keeps the epoch, with which the producer could go on.
        return msgspec.structs.replace(aborted, epoch=next_epoch(self.epoch))

    def completed(self, wall_ms: int) -> Transaction:
        """Return the transaction after all its markers were written."""
        state = (
            TransactionState.COMPLETE_COMMIT
            if self.state is TransactionState.PREPARE_COMMIT
            else TransactionState.COMPLETE_ABORT
        )
        producer_id, epoch = self.next_producer
        return self._become(
            state,
            wall_ms,
            partitions=frozenset(),
            next_producer_id=NO_PRODUCER_ID,
            producer_id=producer_id,
            epoch=epoch,
        )

    def _become(self, state: TransactionState, wall_ms: int, **changes: Any) -> Transaction:
        assert self.state in PREDECESSORS[state], f"{self.transactional_id}: from {self.state.title} to {state.title}"
        # The id before tells a repeated EndTxn that used the last epoch of an id (`ending._used_last_epoch`).
        return msgspec.structs.replace(
            self, state=state, updated_ms=wall_ms, previous_producer_id=self.producer_id, **changes
        )

    def record(self, transaction_version: int) -> CoordinatorRecord:
        """Return the transaction's record. In state Empty its list of partitions is null.

        Records of transaction version 0 are not flexible and have no tagged fields.
        """
        value = TransactionLogValue(
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.state,
            transaction_partitions=None
            if self.state is TransactionState.EMPTY
            else [PartitionsSchema(*each) for each in indexes_by_topic(sorted(self.partitions)).items()],
            transaction_last_update_timestamp_ms=self.updated_ms,
            transaction_start_timestamp_ms=self.started_ms,
        )
        if transaction_version > 0:
            value.previous_producer_id, value.next_producer_id = self.previous_producer_id, self.next_producer_id
            value.client_transaction_version = self.client_version
        return CoordinatorRecord(TransactionLogKey(self.transactional_id), value, min(transaction_version, 1))

    def tombstone(self) -> CoordinatorRecord:
        """Return the record that deletes the expired transactional id."""
        return CoordinatorRecord(TransactionLogKey(self.transactional_id), None)


def from_record(key: TransactionLogKey, value: TransactionLogValue) -> Transaction:
    """Return the transaction in a record. Raise DecodeError if the record has a state that is never stored."""
    if value.transaction_status not in tuple(PREDECESSORS):
        raise DecodeError(f"transactional id {key.transactional_id}: state {value.transaction_status} is never stored")
    return Transaction(
        key.transactional_id,
        value.producer_id,
        value.transaction_timeout_ms,
        value.producer_epoch,
        TransactionState(value.transaction_status),
        frozenset(
            TopicPartition(part.topic, index)
            for part in value.transaction_partitions or ()
            for index in part.partition_ids
        ),
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        value.previous_producer_id,
        value.next_producer_id,
        value.client_transaction_version,
    )
