"""What the coordinator is asked about a transactional id, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.core.txn.transaction import NO_EPOCH, NO_PRODUCER_ID, Transaction
from wire.error_codes import ErrorCode


class TransactionRequest(msgspec.Struct, frozen=True, gc=False):
    """About one transactional id; its hash says which partition of the log, and so which machine, is asked."""

    transactional_id: str


class InitProducer(TransactionRequest, frozen=True):
    """A producer begins, or goes on after an error: then with the id and epoch it had (KIP-360)."""

    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH


class AddPartitions(TransactionRequest, frozen=True):
    """Partitions that the transaction is about to write to."""

    producer_id: int
    epoch: int
    partitions: frozenset[TopicPartition]
    client_version: int = 0


class VerifyPartitions(TransactionRequest, frozen=True):
    """A partition's leader asks whether its partition takes part (KIP-890)."""

    producer_id: int
    epoch: int
    partitions: frozenset[TopicPartition]


class EndTransaction(TransactionRequest, frozen=True):
    """Commit or abort. `client_version` 2: the epoch rises with it."""

    producer_id: int
    epoch: int
    commit: bool
    client_version: int = 0


class FindTransaction(TransactionRequest, frozen=True):
    """Its state is to be described."""


class FindTransactions(msgspec.Struct, frozen=True, gc=False):
    """All that `wanted` is true for."""

    wanted: Callable[[Transaction], bool]


class AwaitMarkers(msgspec.Struct, frozen=True, gc=False):
    """Answered with `Markers` as soon as there are some that nobody was given yet."""


class AwaitEnd(TransactionRequest, frozen=True):
    """Answered when no markers of its last transaction are under way any more, or `patience_ms` from now."""

    patience_ms: int


class MarkersWritten(TransactionRequest, frozen=True):
    """Every marker of this decided transaction is in its partition, for good."""

    producer_id: int
    epoch: int


class TransactionAnswer(msgspec.Struct, frozen=True, gc=False):
    """`error_code`, or the producer's id and epoch where they were asked for."""

    error_code: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH


class Verified(msgspec.Struct, frozen=True, gc=False):
    """`refused`: the partitions that do not take part."""

    refused: frozenset[TopicPartition]


class FoundTransactions(msgspec.Struct, frozen=True, gc=False):
    """Transactions as they are."""

    transactions: tuple[Transaction, ...]


class Markers(msgspec.Struct, frozen=True, gc=False):
    """Decided transactions, whose partitions wait for a marker of their producer and epoch."""

    transactions: tuple[Transaction, ...]


Reply = TransactionAnswer | Verified | FoundTransactions | Markers
AnyTransactionRequest = TransactionRequest | FindTransactions | AwaitMarkers


class ProducerIdSource(Protocol):
    """New producer ids, which nobody else is given."""

    def next_nowait(self) -> int | None:
        """None: there is none in hand now."""
