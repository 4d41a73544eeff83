"""The partitions of a transaction: added by its producer, or by a partition's leader before it writes (KIP-890)."""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.txn.context import TransactionContext, TransactionDecision
from pykbroker.core.txn.requests import AddPartitions, TransactionAnswer, Verified, VerifyPartitions
from pykbroker.core.txn.state import PREPARED, TransactionState
from pykbroker.core.txn.transaction import Transaction
from wire.error_codes import ErrorCode


def add_partitions(context: TransactionContext, request: AddPartitions) -> TransactionDecision:
    """Add partitions to the transaction. The first partitions begin it."""
    known = _open_to(context, request)
    if known.state is TransactionState.ONGOING and request.partitions <= known.partitions:
        return None, TransactionAnswer()
    return known.extended(request.partitions, request.client_version, context.wall_ms), TransactionAnswer()


def verify_partitions(context: TransactionContext, request: VerifyPartitions) -> TransactionDecision:
    """Return the partitions that were not added to the transaction. Nothing changes."""
    return None, Verified(request.partitions - _open_to(context, request).partitions)


def _open_to(context: TransactionContext, request: AddPartitions | VerifyPartitions) -> Transaction:
    """Return the transaction if this producer may now write in it. Raise ApiError otherwise."""
    context.check_ended(request.transactional_id, request.producer_id, request.epoch)
    known = context.of_producer(request.transactional_id, request.producer_id)
    if known.epoch != request.epoch:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if known.state in PREPARED:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return known
