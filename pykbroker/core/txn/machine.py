"""The transaction coordinator of one partition of `__transaction_state`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from math import inf
from typing import Any

from pykbroker.core.coordinator.record import CoordinatorRecord, LogRecord, StoredRecord
from pykbroker.core.errors import ApiError
from pykbroker.core.now import Now
from pykbroker.core.outcome import Entry, Outcome, Token
from pykbroker.core.txn.context import Renewal, TransactionContext, TransactionDecision
from pykbroker.core.txn.end_waiters import EndWaiters
from pykbroker.core.txn.ending import end_transaction, markers_written
from pykbroker.core.txn.init_producer import init_producer
from pykbroker.core.txn.partitions import add_partitions, verify_partitions
from pykbroker.core.txn.requests import (
    AddPartitions,
    AnyTransactionRequest,
    AwaitEnd,
    AwaitMarkers,
    EndTransaction,
    FindTransaction,
    FindTransactions,
    FoundTransactions,
    InitProducer,
    Markers,
    MarkersWritten,
    ProducerIdSource,
    Reply,
    TransactionAnswer,
    VerifyPartitions,
)
from pykbroker.core.txn.settings import TransactionSettings
from pykbroker.core.txn.state import AT_REST, PREPARED, TransactionState
from pykbroker.core.txn.transaction import Transaction, from_record
from wire.error_codes import ErrorCode
from wire.stored.transaction_log import TransactionLogKey, TransactionLogValue

TransactionOutcome = Outcome[LogRecord, Reply]

RECORDS_MAX = 1000
"""The number of records that one tick writes. The next tick follows at once if there are more."""


def find_transaction(context: TransactionContext, request: FindTransaction) -> TransactionDecision:
    """Return one transaction. Raise ApiError TRANSACTIONAL_ID_NOT_FOUND if it does not exist."""
    known = context.transactions.get(request.transactional_id)
    if known is None:
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    return None, FoundTransactions((known,))


def list_transactions(context: TransactionContext, request: FindTransactions) -> TransactionDecision:
    """Return the transactions that pass the request's filter."""
    return None, FoundTransactions(tuple(filter(request.matches, context.transactions.values())))


DECIDE: Mapping[type, Callable[[TransactionContext, Any], TransactionDecision]] = {
    InitProducer: init_producer,
    AddPartitions: add_partitions,
    VerifyPartitions: verify_partitions,
    EndTransaction: end_transaction,
    MarkersWritten: markers_written,
    FindTransaction: find_transaction,
    FindTransactions: list_transactions,
}


class TransactionsMachine:
    """The transactions of one partition by transactional id.

    The task that writes markers waits here with an `AwaitMarkers` request. The reply has every decided transaction
    whose decision is committed and that no earlier reply had. Which transactions were in a reply is not stored: after a
    load, the first reply has all of them again.
    """

    def __init__(self, settings: TransactionSettings, producer_ids: ProducerIdSource) -> None:
        self._settings, self._producer_ids = settings, producer_ids
        self._transactions: dict[str, Transaction] = {}
        self._ongoing: dict[str, None] = {}
        self._prepared: dict[str, None] = {}
        self._handed_out: set[str] = set()
        self._renewals: dict[str, Renewal] = {}
        self._writer: Token | None = None
        self._waiters = EndWaiters()
        self._abort_due_ms = self._expire_due_ms = inf

    @property
    def deadline_ms(self) -> float:
        """Return the time of the next `tick`, or -inf if the waiting marker writer has markers to write."""
        if self._has_markers:
            return -inf
        return min(self._abort_due_ms, self._expire_due_ms, self._waiters.deadline_ms)

    @property
    def _has_markers(self) -> bool:
        # All names in `_handed_out` are in `_prepared`, so that their numbers say enough.
        return self._writer is not None and len(self._handed_out) < len(self._prepared)

    def loaded(self, now: Now) -> TransactionOutcome:
        """Start the intervals of timeouts and expiration, after the log has been replayed."""
        self._abort_due_ms = now.monotonic_ms + self._settings.abort_interval_ms
        self._expire_due_ms = now.monotonic_ms + self._settings.expire_interval_ms
        return Outcome()

    def handle(self, request: AnyTransactionRequest, token: Token, now: Now) -> TransactionOutcome:
        """Decide a request. A refusal is a reply too, since it may depend on state that is not yet committed.

        Records must be committed within the timeout of their transaction, as in Kafka.
        """
        if isinstance(request, AwaitMarkers):
            return self._await_markers(token)
        if isinstance(request, AwaitEnd):
            return self._await_end(request, token, now.monotonic_ms)
        try:
            changed, reply = DECIDE[type(request)](self._context(now.wall_ms), request)
        except ApiError as error:
            return Outcome(replies=((token, TransactionAnswer(error.code)),))
        if changed is None:
            return Outcome(replies=((token, reply),))
        return Outcome(self._records((changed,)), ((token, reply),), commit_ms_max=changed.timeout_ms)

    def tick(self, now: Now) -> TransactionOutcome:
        """Reply to waiting requests, abort transactions that have timed out, and delete expired transactional ids."""
        # One kind of work at a time. If more is due, the deadline is over, and the next tick follows at once.
        if self._has_markers:
            return self._hand_over()
        if now.monotonic_ms >= self._waiters.deadline_ms:
            return Outcome(replies=((self._waiters.pop_due(now.monotonic_ms), TransactionAnswer()),))
        if now.monotonic_ms >= self._abort_due_ms:
            aborted = self._timed_out(now.wall_ms)
            if len(aborted) < RECORDS_MAX:
                self._abort_due_ms = now.monotonic_ms + self._settings.abort_interval_ms
            return Outcome(self._records(aborted))
        if now.monotonic_ms >= self._expire_due_ms:
            expired = self._expired(now.wall_ms)
            if len(expired) < RECORDS_MAX:
                self._expire_due_ms = now.monotonic_ms + self._settings.expire_interval_ms
            return Outcome(tuple(one.tombstone() for one in expired))
        return Outcome()

    def replay(self, entry: Entry[StoredRecord]) -> None:
        """Apply a record to the state. Raise DecodeError if the record has a state that is never stored."""
        record = entry.value
        if not isinstance(record, CoordinatorRecord) or not isinstance(record.key, TransactionLogKey):
            return
        name = record.key.transactional_id
        self._ongoing.pop(name, None)
        self._prepared.pop(name, None)
        if not isinstance(record.value, TransactionLogValue):
            self._transactions.pop(name, None)
            self._renewals.pop(name, None)
            return
        known = self._transactions[name] = from_record(record.key, record.value)
        if known.state in PREPARED:
            self._prepared[name] = None
        else:
            # The next transaction of this id needs markers of its own.
            self._handed_out.discard(name)
            self._waiters.end(name)
        if known.state is TransactionState.ONGOING:
            self._ongoing[name] = None

    def _await_markers(self, token: Token) -> TransactionOutcome:
        """Make the marker writer wait until `tick` has markers for it. If one already waits, it gets an empty reply."""
        relieved = () if self._writer is None else ((self._writer, Markers(())),)
        self._writer = token
        return Outcome(replies=relieved)

    def _await_end(self, request: AwaitEnd, token: Token, now_ms: float) -> TransactionOutcome:
        """Make the request wait while markers are being written.

        Reply at once if none are, or if too many requests wait.
        """
        name = request.transactional_id
        if name in self._prepared and self._waiters.begin(name, token, now_ms + request.patience_ms):
            return Outcome()
        return Outcome(replies=((token, TransactionAnswer()),))

    def _hand_over(self) -> TransactionOutcome:
        """Reply to the waiting marker writer with the decided transactions that it does not have yet."""
        due = tuple(self._transactions[name] for name in self._prepared if name not in self._handed_out)
        writer, self._writer = self._writer, None
        self._handed_out.update(one.transactional_id for one in due)
        return Outcome(replies=((writer, Markers(due)),))

    def _context(self, wall_ms: int) -> TransactionContext:
        return TransactionContext(self._transactions, self._renewals, self._settings, self._producer_ids, wall_ms)

    def _records(self, changed: Iterable[Transaction]) -> tuple[LogRecord, ...]:
        version = self._settings.transaction_version()
        return tuple(one.record(version) for one in changed)

    def _timed_out(self, wall_ms: int) -> list[Transaction]:
        """Return aborts of transactions whose time has passed."""
        ongoing = (self._transactions[name] for name in self._ongoing)
        late = (one for one in ongoing if one.started_ms + one.timeout_ms < wall_ms)
        aborted, context = list[Transaction](), self._context(wall_ms)
        for one in islice(late, RECORDS_MAX):
            try:
                aborted.append(context.fenced(one))
            except ApiError:
                continue  # it needs a new producer id, which the next tick finds
        return aborted

    def _expired(self, wall_ms: int) -> list[Transaction]:
        before = wall_ms - self._settings.expiration_ms
        silent = (one for one in self._transactions.values() if one.state in AT_REST and one.updated_ms <= before)
        return list(islice(silent, RECORDS_MAX))
