"""InitProducerId with a transactional id: a producer takes over the id, or continues after an error (KIP-360).

A request without producer id and epoch takes over the transactional id and fences the previous producer. A request with
them continues, unless another producer has taken over since. A producer that missed the reply repeats the request with
its previous epoch and gets the same reply. That epoch is kept in memory only, as in Kafka.
"""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.producer_epoch import is_exhausted, next_epoch
from pykbroker.core.txn.context import Renewal, TransactionContext, TransactionDecision
from pykbroker.core.txn.requests import InitProducer, TransactionAnswer
from pykbroker.core.txn.state import PREPARED, TransactionState
from pykbroker.core.txn.transaction import Transaction
from wire.error_codes import ErrorCode
from wire.sentinels import NO_PRODUCER_EPOCH


def init_producer(context: TransactionContext, request: InitProducer) -> TransactionDecision:
    """Return the producer's id and new epoch.

    An open transaction is aborted first. The reply is CONCURRENT_TRANSACTIONS until the abort is complete.
    """
    if not 0 < request.timeout_ms <= context.settings.timeout_ms_max:
        raise ApiError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    context.check_ended(request.transactional_id, request.producer_id, request.epoch)
    known = context.transactions.get(request.transactional_id)
    if known is None:
        known = Transaction(request.transactional_id, context.next_producer_id(), request.timeout_ms)
    elif request.epoch != NO_PRODUCER_EPOCH and not _may_continue(known, request):
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if known.state in PREPARED:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if known.state is TransactionState.ONGOING:
        return context.fenced(known), TransactionAnswer(ErrorCode.CONCURRENT_TRANSACTIONS)
    return _renew(context, request, known)


def _may_continue(known: Transaction, request: InitProducer) -> bool:
    """Whether the request has the current producer id, or the previous one with its last epoch used.

    In the second case, the producer missed the reply that had its new producer id.
    """
    return request.producer_id == known.producer_id or (
        request.producer_id == known.previous_producer_id and is_exhausted(request.epoch)
    )


def _renew(context: TransactionContext, request: InitProducer, known: Transaction) -> TransactionDecision:
    if known.epoch != NO_PRODUCER_EPOCH and request.epoch not in (NO_PRODUCER_EPOCH, known.epoch):
        renewal = Renewal(known.producer_id, known.epoch, request.epoch)
        if context.renewals.get(request.transactional_id) != renewal:
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        producer_id, epoch = known.producer_id, known.epoch
    elif is_exhausted(known.epoch):
        producer_id, epoch = context.next_producer_id(), 0
    else:
        producer_id, epoch = known.producer_id, next_epoch(known.epoch)
    if request.epoch in (NO_PRODUCER_EPOCH, known.epoch):
        context.renewals.pop(request.transactional_id, None)
    if request.epoch == known.epoch != NO_PRODUCER_EPOCH:
        context.renewals[request.transactional_id] = Renewal(producer_id, epoch, known.epoch)
    renewed = known.renewed(producer_id, epoch, request.timeout_ms, context.wall_ms)
    return renewed, TransactionAnswer(producer_id=producer_id, epoch=epoch)
