"""Requests to the transaction coordinator and their replies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.core.txn.transaction import Transaction
from wire.error_codes import ErrorCode
from wire.sentinels import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


class TransactionRequest(msgspec.Struct, frozen=True, gc=False):
    """A request about one transactional id. The hash of the id selects the partition of `__transaction_state`."""

    transactional_id: str


class InitProducer(TransactionRequest, frozen=True):
    """A producer's first request. After an error the producer repeats it, with its current id and epoch (KIP-360)."""

    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH


class AddPartitions(TransactionRequest, frozen=True):
    """Partitions that the transaction is about to write to."""

    producer_id: int
    epoch: int
    partitions: frozenset[TopicPartition]
    client_version: int = 0


class VerifyPartitions(TransactionRequest, frozen=True):
    """A partition leader's request whether its partition is part of the transaction (KIP-890)."""

    producer_id: int
    epoch: int
    partitions: frozenset[TopicPartition]


class EndTransaction(TransactionRequest, frozen=True):
    """A request to commit or abort. With `client_version` 2 it also bumps the epoch."""

    producer_id: int
    epoch: int
    commit: bool
    client_version: int = 0


class FindTransaction(TransactionRequest, frozen=True):
    """A request for the current state of one transaction."""


class FindTransactions(msgspec.Struct, frozen=True, gc=False):
    """A request for all transactions for which `matches` returns true."""

    matches: Callable[[Transaction], bool]


class AwaitMarkers(msgspec.Struct, frozen=True, gc=False):
    """The marker writer's request for decided transactions. The reply waits until there is a new one."""


class AwaitEnd(TransactionRequest, frozen=True):
    """A request that waits until the last transaction's markers are written, for `patience_ms` at most."""

    patience_ms: int


class MarkersWritten(TransactionRequest, frozen=True):
    """The report that every marker of a decided transaction is committed in its partition."""

    producer_id: int
    epoch: int


class TransactionAnswer(msgspec.Struct, frozen=True, gc=False):
    """A reply with an error code. Replies to InitProducer and EndTransaction also have the producer's id and epoch."""

    error_code: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH


class Verified(msgspec.Struct, frozen=True, gc=False):
    """The reply to VerifyPartitions. `refused` has the partitions that are not part of the transaction."""

    refused: frozenset[TopicPartition]


class FoundTransactions(msgspec.Struct, frozen=True, gc=False):
    """The reply to FindTransactions: transactions in their current state."""

    transactions: tuple[Transaction, ...]


class Markers(msgspec.Struct, frozen=True, gc=False):
    """The reply to AwaitMarkers: decided transactions whose partitions still need a marker."""

    transactions: tuple[Transaction, ...]


Reply = TransactionAnswer | Verified | FoundTransactions | Markers
AnyTransactionRequest = TransactionRequest | FindTransactions | AwaitMarkers


class ProducerIdSource(Protocol):
    """A source of producer ids that are unique in the cluster."""

    def next_nowait(self) -> int | None:
        """Return a new producer id, or None until the next block of ids, which is then on its way, has arrived."""
