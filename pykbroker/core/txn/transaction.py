"""What the coordinator knows of one transactional id: its producer, and its newest transaction.

Frozen: each method answers the transaction as it will be, and the record of that is what makes it so.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pykbroker.core.coordinator.record import CoordinatorRecord
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.core.txn.state import PREDECESSORS, TransactionState
from wire.errors import DecodeError
from wire.stored.transaction_log import PartitionsSchema, TransactionLogKey, TransactionLogValue

NO_PRODUCER_ID = NO_EPOCH = NO_TIME = -1
EPOCH_MAX = 2**15 - 1
EPOCH_BUMP_VERSION = 2
"""From this transaction version on the epoch rises with the end of every transaction (KIP-890)."""


def exhausted(epoch: int) -> bool:
    """Whether a producer must not have an epoch after this one: the last is kept to fence it with."""
    return epoch >= EPOCH_MAX - 1


class Transaction(msgspec.Struct, frozen=True):
    """Times in ms since 1970; -1 for no producer, epoch or time. `epoch` is -1 before the first is given out."""

    transactional_id: str
    producer_id: int
    timeout_ms: int
    epoch: int = NO_EPOCH
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NO_TIME
    updated_ms: int = NO_TIME
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0

    @property
    def bumps_epoch(self) -> bool:
        """Whether the client that began or ended it speaks transaction version 2."""
        return self.client_version >= EPOCH_BUMP_VERSION

    @property
    def successor(self) -> tuple[int, int]:
        """The producer id and epoch of the next transaction, which whoever ended this one was told."""
        moved = self.bumps_epoch and self.next_producer_id != NO_PRODUCER_ID
        return (self.next_producer_id, 0) if moved else (self.producer_id, self.epoch)

    def renewed(self, producer_id: int, epoch: int, timeout_ms: int, wall_ms: int) -> Transaction:
        """Its producer begins anew, with this id and epoch."""
        return self._become(
            TransactionState.EMPTY,
            wall_ms,
            producer_id=producer_id,
            epoch=epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            started_ms=NO_TIME,
        )

    def extended(self, partitions: frozenset[TopicPartition], client_version: int, wall_ms: int) -> Transaction:
        """More partitions take part; the first begin it."""
        started_ms = self.started_ms if self.state is TransactionState.ONGOING else wall_ms
        return self._become(
            TransactionState.ONGOING,
            wall_ms,
            partitions=self.partitions | partitions,
            started_ms=started_ms,
            client_version=client_version,
        )

    def ended(self, *, commit: bool, client_version: int, next_producer_id: int, wall_ms: int) -> Transaction:
        """Decided by its producer. `next_producer_id` follows when the epochs of this one are used up."""
        bump = client_version >= EPOCH_BUMP_VERSION
        return self._become(
            TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
            wall_ms,
            epoch=self.epoch + bump,
            client_version=client_version,
            next_producer_id=next_producer_id,
            started_ms=self.started_ms if self.state is TransactionState.ONGOING else wall_ms,
        )

    def fenced(self, transaction_version: int, wall_ms: int) -> Transaction:
        """Aborted by the coordinator, with an epoch that shuts its producer out."""
        client_version = transaction_version if transaction_version >= EPOCH_BUMP_VERSION else 0
        return self._become(
            TransactionState.PREPARE_ABORT,
            wall_ms,
            epoch=min(self.epoch + 1, EPOCH_MAX),
            client_version=client_version,
            next_producer_id=NO_PRODUCER_ID,
        )

    def completed(self, wall_ms: int) -> Transaction:
        """All markers are written."""
        state = (
            TransactionState.COMPLETE_COMMIT
            if self.state is TransactionState.PREPARE_COMMIT
            else TransactionState.COMPLETE_ABORT
        )
        producer_id, epoch = self.successor
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
        return msgspec.structs.replace(
            self, state=state, updated_ms=wall_ms, previous_producer_id=self.producer_id, **changes
        )

    def record(self, transaction_version: int) -> CoordinatorRecord:
        """As the log keeps it; an Empty one has no list of partitions at all.

        Transaction version 0 has records that are not flexible: what is tagged is not kept.
        """
        topics: dict[str, list[int]] = {}
        for topic, index in self.partitions:
            topics.setdefault(topic, []).append(index)
        value = TransactionLogValue(
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.state,
            transaction_partitions=None
            if self.state is TransactionState.EMPTY
            else [PartitionsSchema(topic, sorted(indexes)) for topic, indexes in sorted(topics.items())],
            transaction_last_update_timestamp_ms=self.updated_ms,
            transaction_start_timestamp_ms=self.started_ms,
        )
        if transaction_version > 0:
            value.previous_producer_id, value.next_producer_id = self.previous_producer_id, self.next_producer_id
            value.client_transaction_version = self.client_version
        return CoordinatorRecord(TransactionLogKey(self.transactional_id), value, min(transaction_version, 1))

    def tombstone(self) -> CoordinatorRecord:
        """The transactional id has expired."""
        return CoordinatorRecord(TransactionLogKey(self.transactional_id), None)


def from_record(key: TransactionLogKey, value: TransactionLogValue) -> Transaction:
    """DecodeError: a state that no transaction is ever stored in."""
    if value.transaction_status not in tuple(PREDECESSORS):
        raise DecodeError(f"transactional id {key.transactional_id}: state {value.transaction_status}")
    return Transaction(
        key.transactional_id,
        value.producer_id,
        value.transaction_timeout_ms,
        value.producer_epoch,
        TransactionState(value.transaction_status),
        frozenset((part.topic, index) for part in value.transaction_partitions or () for index in part.partition_ids),
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        value.previous_producer_id,
        value.next_producer_id,
        value.client_transaction_version,
    )
