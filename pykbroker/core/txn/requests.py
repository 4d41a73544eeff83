"""Requests to the transaction coordinator and their replies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.core.txn.transaction import NO_EPOCH, NO_PRODUCER_ID, Transaction
from wire.error_codes import ErrorCode


class TransactionRequest(msgspec.Struct, frozen=True, gc=False):
    """A request about one transactional id. The hash of the id selects the partition of the log, and so the machine."""

    transactional_id: str


class InitProducer(TransactionRequest, frozen=True):
    """A producer's first request, or its request after an error, then with its current id and epoch (KIP-360)."""

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
    """A partition leader's question whether its partition is part of the transaction (KIP-890)."""

    producer_id: int
    epoch: int
    partitions: frozenset[TopicPartition]


class EndTransaction(TransactionRequest, frozen=True):
    """A commit or an abort. With `client_version` 2 it also raises the epoch."""

    producer_id: int
    epoch: int
    commit: bool
    client_version: int = 0


class FindTransaction(TransactionRequest, frozen=True):
    """A request for the current state of one transaction."""


class FindTransactions(msgspec.Struct, frozen=True, gc=False):
    """A request for all transactions for which `matches` is true."""

    matches: Callable[[Transaction], bool]


class AwaitMarkers(msgspec.Struct, frozen=True, gc=False):
    """A request for decided transactions; the reply waits until there is one that was not handed out yet."""


class AwaitEnd(TransactionRequest, frozen=True):
    """A request to wait until the last transaction's markers are written, for `patience_ms` at most."""

    patience_ms: int


class MarkersWritten(TransactionRequest, frozen=True):
    """The report that every marker of a decided transaction is committed in its partition."""

    producer_id: int
    epoch: int


class TransactionAnswer(msgspec.Struct, frozen=True, gc=False):
    """An error code, and the producer's id and epoch in replies to InitProducer and EndTransaction."""

    error_code: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH


class Verified(msgspec.Struct, frozen=True, gc=False):
    """The reply to VerifyPartitions. `refused` has the partitions that are not part of the transaction."""

    refused: frozenset[TopicPartition]


class FoundTransactions(msgspec.Struct, frozen=True, gc=False):
    """The transactions in their current state."""

    transactions: tuple[Transaction, ...]


class Markers(msgspec.Struct, frozen=True, gc=False):
    """Decided transactions: each of their partitions still needs a marker with the producer's id and epoch."""

    transactions: tuple[Transaction, ...]


Reply = TransactionAnswer | Verified | FoundTransactions | Markers
AnyTransactionRequest = TransactionRequest | FindTransactions | AwaitMarkers


class ProducerIdSource(Protocol):
    """A source of producer ids that are unique in the cluster."""

    def next_nowait(self) -> int | None:
        """Return a new producer id; None while the next block of ids has not arrived."""
