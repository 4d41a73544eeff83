"""EndTxn, and what follows it: the markers are written, the transaction is complete.

Up to version 1 the state alone tells a retry from a mistake. From version 2 on the epoch does: it rises with the end,
so a retry bears the one before, and whoever bears the new one while the last transaction is not complete is early.
What is in neither table is INVALID_TXN_STATE.
"""

from __future__ import annotations

from collections.abc import Mapping

from pykbroker.core.errors import ApiError
from pykbroker.core.txn.context import Context, Decision, Renewal
from pykbroker.core.txn.requests import Answer, EndTransaction, MarkersWritten
from pykbroker.core.txn.state import AT_REST, PREPARED, State
from pykbroker.core.txn.transaction import EPOCH_BUMP_VERSION, EPOCH_MAX, NO_PRODUCER_ID, Transaction, exhausted
from wire.error_codes import ErrorCode

COMMIT, ABORT = True, False
AGAIN, FIRST = True, False

VERSION_1: Mapping[tuple[State, bool], ErrorCode | None] = {
    (State.ONGOING, COMMIT): None,
    (State.ONGOING, ABORT): None,
    (State.PREPARE_COMMIT, COMMIT): ErrorCode.CONCURRENT_TRANSACTIONS,
    (State.PREPARE_ABORT, ABORT): ErrorCode.CONCURRENT_TRANSACTIONS,
    (State.COMPLETE_COMMIT, COMMIT): ErrorCode.NONE,
    (State.COMPLETE_ABORT, ABORT): ErrorCode.NONE,
}
"""(state, wish): None is to end it now, the others are answers."""

VERSION_2: Mapping[tuple[State, bool, bool], ErrorCode | None] = {
    (State.ONGOING, COMMIT, FIRST): None,
    (State.ONGOING, ABORT, FIRST): None,
    (State.EMPTY, ABORT, FIRST): None,
    (State.COMPLETE_COMMIT, ABORT, FIRST): None,
    (State.COMPLETE_ABORT, ABORT, FIRST): None,
    (State.COMPLETE_COMMIT, COMMIT, AGAIN): ErrorCode.NONE,
    (State.COMPLETE_ABORT, ABORT, AGAIN): ErrorCode.NONE,
    (State.PREPARE_COMMIT, COMMIT, AGAIN): ErrorCode.CONCURRENT_TRANSACTIONS,
    (State.PREPARE_ABORT, ABORT, AGAIN): ErrorCode.CONCURRENT_TRANSACTIONS,
}
"""(state, wish, whether it is a retry). An abort at rest is legal: the client may not know that nothing was begun."""


def end_transaction(context: Context, request: EndTransaction) -> Decision:
    """Decide it, once."""
    if request.client_version >= EPOCH_BUMP_VERSION:
        return _end_version_2(context, request)
    known = context.of_producer(request.transactional_id, request.producer_id)
    if known.epoch != request.epoch:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    code = VERSION_1.get((known.state, request.commit), ErrorCode.INVALID_TXN_STATE)
    if code is not None:
        return None, Answer(code)
    return known.ended(
        commit=request.commit,
        client_version=request.client_version,
        next_producer_id=NO_PRODUCER_ID,
        wall_ms=context.wall_ms,
    ), Answer()


def _end_version_2(context: Context, request: EndTransaction) -> Decision:
    context.check_ended(request.transactional_id, request.producer_id, request.epoch)
    known = context.transactions.get(request.transactional_id)
    moved = known is not None and _moved_on(known, request)
    if known is None or (known.producer_id != request.producer_id and not moved):
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    again = moved or known.epoch == request.epoch + 1
    if not _in_time(known, request, again, moved):
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    code = VERSION_2.get((known.state, request.commit, again), ErrorCode.INVALID_TXN_STATE)
    if code is None:
        return _bump(context, request, known)
    return None, Answer(code, known.producer_id, known.epoch) if code is ErrorCode.NONE else Answer(code)


def _moved_on(known: Transaction, request: EndTransaction) -> bool:
    """A retry of the end that used up the epochs of the producer id of before."""
    return (
        known.previous_producer_id == request.producer_id != known.producer_id
        and request.epoch == EPOCH_MAX - 1
        and known.epoch == 0
    )


def _in_time(known: Transaction, request: EndTransaction, again: bool, moved: bool) -> bool:
    if known.state in PREPARED:
        return again and not moved
    return known.epoch == request.epoch or (again and known.state in AT_REST and known.state is not State.EMPTY)


def _bump(context: Context, request: EndTransaction, known: Transaction) -> Decision:
    """The answer has the epoch of the next transaction, which may be the first of another producer id."""
    next_id = context.next_producer_id() if exhausted(known.epoch) else NO_PRODUCER_ID
    ended = known.ended(
        commit=request.commit, client_version=request.client_version, next_producer_id=next_id, wall_ms=context.wall_ms
    )
    after = ended.completed(context.wall_ms)
    context.renewals[request.transactional_id] = Renewal(after.producer_id, after.epoch, known.epoch)
    return ended, Answer(producer_id=after.producer_id, epoch=after.epoch)


def markers_written(context: Context, request: MarkersWritten) -> Decision:
    """Complete, unless that is no longer the transaction that was decided."""
    known = context.transactions.get(request.transactional_id)
    if (
        known is None
        or known.state not in PREPARED
        or (known.producer_id, known.epoch) != (request.producer_id, request.epoch)
    ):
        raise ApiError(ErrorCode.INVALID_TXN_STATE)
    return known.completed(context.wall_ms), Answer()
