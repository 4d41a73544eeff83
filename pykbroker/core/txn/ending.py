"""EndTxn, and the completion of a transaction once its markers are written.

Up to transaction version 1 the transaction's state distinguishes a retry from an error. From version 2 on the epoch
does, since it rises when a transaction ends. A retry therefore has the previous epoch. A request with the new epoch
gets CONCURRENT_TRANSACTIONS until the previous transaction is complete. Combinations that are missing in both tables
raise INVALID_TXN_STATE.
"""

from __future__ import annotations

from collections.abc import Mapping

from pykbroker.core.errors import ApiError
from pykbroker.core.producer_epoch import EPOCH_MAX, next_epoch
from pykbroker.core.txn.context import TransactionContext, TransactionDecision
from pykbroker.core.txn.requests import EndTransaction, MarkersWritten, TransactionAnswer
from pykbroker.core.txn.state import AT_REST, PREPARED, TransactionState
from pykbroker.core.txn.transaction import EPOCH_BUMP_VERSION, Transaction
from wire.error_codes import ErrorCode

COMMIT, ABORT = True, False
RETRY, FIRST = True, False

VERSION_1: Mapping[tuple[TransactionState, bool], ErrorCode | None] = {
    (TransactionState.ONGOING, COMMIT): None,
    (TransactionState.ONGOING, ABORT): None,
    (TransactionState.PREPARE_COMMIT, COMMIT): ErrorCode.CONCURRENT_TRANSACTIONS,
    (TransactionState.PREPARE_ABORT, ABORT): ErrorCode.CONCURRENT_TRANSACTIONS,
    (TransactionState.COMPLETE_COMMIT, COMMIT): ErrorCode.NONE,
    (TransactionState.COMPLETE_ABORT, ABORT): ErrorCode.NONE,
}
"""The reply for (state, commit) up to transaction version 1. None ends the transaction now."""

VERSION_2: Mapping[tuple[TransactionState, bool, bool], ErrorCode | None] = {
    (TransactionState.ONGOING, COMMIT, FIRST): None,
    (TransactionState.ONGOING, ABORT, FIRST): None,
    (TransactionState.EMPTY, ABORT, FIRST): None,
    (TransactionState.COMPLETE_COMMIT, ABORT, FIRST): None,
    (TransactionState.COMPLETE_ABORT, ABORT, FIRST): None,
    (TransactionState.COMPLETE_COMMIT, COMMIT, RETRY): ErrorCode.NONE,
    (TransactionState.COMPLETE_ABORT, ABORT, RETRY): ErrorCode.NONE,
    (TransactionState.PREPARE_COMMIT, COMMIT, RETRY): ErrorCode.CONCURRENT_TRANSACTIONS,
    (TransactionState.PREPARE_ABORT, ABORT, RETRY): ErrorCode.CONCURRENT_TRANSACTIONS,
}
"""The reply for (state, commit, whether it is a retry) from transaction version 2 on. None ends the transaction now.

An abort is accepted without an open transaction, since the client may not know whether it has begun one.
"""


def end_transaction(context: TransactionContext, request: EndTransaction) -> TransactionDecision:
    """End the transaction with a commit or an abort, or return the reply to a retry."""
    if request.client_version >= EPOCH_BUMP_VERSION:
        return _end_version_2(context, request)
    known = context.of_producer(request.transactional_id, request.producer_id)
    if known.epoch != request.epoch:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    code = VERSION_1.get((known.state, request.commit), ErrorCode.INVALID_TXN_STATE)
    if code is not None:
        return None, TransactionAnswer(code)
    ended = context.ended(known, commit=request.commit, client_version=request.client_version)
    return ended, TransactionAnswer()


def _end_version_2(context: TransactionContext, request: EndTransaction) -> TransactionDecision:
    context.check_ended(request.transactional_id, request.producer_id, request.epoch)
    known = context.transactions.get(request.transactional_id)
    used_last_epoch = known is not None and _used_last_epoch(known, request)
    if known is None or (known.producer_id != request.producer_id and not used_last_epoch):
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_retry = used_last_epoch or request.epoch < known.epoch == next_epoch(request.epoch)
    if not _has_valid_epoch(known, request, is_retry, used_last_epoch):
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    code = VERSION_2.get((known.state, request.commit, is_retry), ErrorCode.INVALID_TXN_STATE)
    if code is None:
        ended = context.ended(known, commit=request.commit, client_version=request.client_version)
        return ended, TransactionAnswer(ErrorCode.NONE, *ended.next_producer)
    return None, TransactionAnswer(
        code, known.producer_id, known.epoch
    ) if code is ErrorCode.NONE else TransactionAnswer(code)


def _used_last_epoch(known: Transaction, request: EndTransaction) -> bool:
    """Whether the request repeats an EndTxn that used the previous producer id's last epoch."""
    return (
        known.previous_producer_id == request.producer_id != known.producer_id
        # EPOCH_MAX is the epoch of the markers alone: no producer has it (KIP-890).
        and request.epoch == EPOCH_MAX - 1
        and known.epoch == 0
    )


def _has_valid_epoch(known: Transaction, request: EndTransaction, is_retry: bool, used_last_epoch: bool) -> bool:
    if known.state in PREPARED:
        return is_retry and not used_last_epoch
    return known.epoch == request.epoch or (
        is_retry and known.state in AT_REST and known.state is not TransactionState.EMPTY
    )


def markers_written(context: TransactionContext, request: MarkersWritten) -> TransactionDecision:
    """Complete the transaction. Raise ApiError INVALID_TXN_STATE if it has changed since the decision."""
    known = context.transactions.get(request.transactional_id)
    if (
        known is None
        or known.state not in PREPARED
        or (known.producer_id, known.epoch) != (request.producer_id, request.epoch)
    ):
        raise ApiError(ErrorCode.INVALID_TXN_STATE)
    return known.completed(context.wall_ms), TransactionAnswer()
