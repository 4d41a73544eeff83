"""The requests of the transaction protocol that wait or are in flight, and what follows from their answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from pykbroker.core.errors import ApiError
from pykbroker.core.producer.errors import TransactionError, abortable_error, fatal_error, hint
from pykbroker.core.producer.sequences import ProducerIdentity
from pykbroker.core.producer.transactions.calls import (
    AddOffsetsCall,
    AddPartitionsCall,
    CoordinatorCall,
    EndTxnCall,
    InitProducerIdCall,
    TxnOffsetCommitCall,
)
from pykbroker.core.producer.transactions.reactions import FIND_COORDINATOR, Reaction, reaction
from pykbroker.core.producer.transactions.result import CallResult
from pykbroker.core.producer.transactions.sequences import TransactionalSequences
from pykbroker.core.producer.transactions.state import ManagerState
from pykbroker.core.producer.transactions.status import TransactionStatus
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode
from wire.messages.end_txn import EndTxnResponse
from wire.messages.init_producer_id import InitProducerIdResponse

RETRY_SOON_MS = 20.0
"""The delay before a new transaction is tried again while the previous one is still being completed."""


class CoordinatorRequests:
    """The requests of a transaction manager, of which one is in flight at a time."""

    def __init__(
        self, status: TransactionStatus, sequences: TransactionalSequences, timeout_ms: int, retry_ms: float
    ) -> None:
        self._status, self._sequences, self._timeout_ms, self._retry_ms = status, sequences, timeout_ms, retry_ms
        self._queue: list[CoordinatorCall] = []
        self._in_flight: CoordinatorCall | None = None
        self.new_partitions: set[TopicPartition] = set()
        """The partitions that a request must add to the transaction before their batches are sent."""
        self._completed: Mapping[type[CoordinatorCall], Callable[[Any, Any], None]] = {
            InitProducerIdCall: self._identity_assigned,
            AddPartitionsCall: self._partitions_added,
            AddOffsetsCall: self._offsets_added,
            TxnOffsetCommitCall: self._offsets_committed,
            EndTxnCall: self._transaction_ended,
        }
        status.failed = self._fail_waiting

    # ---- requests

    def add(self, call: CoordinatorCall) -> None:
        """Send a request when its turn comes."""
        self._queue.append(call)

    def request_identity(self, result: CallResult, current: ProducerIdentity) -> None:
        """Send InitProducerId, which assigns a producer id, or bumps the epoch of the current one."""
        self.add(InitProducerIdCall(self._status.transactional_id, result, self._timeout_ms, current))

    def next_check_ms(self, *, has_incomplete: bool) -> float:
        """Return the time at which the next request is due, -inf for now, or inf if none can be sent."""
        first = None if self._in_flight is not None else self._first()
        # A batch that arrives after EndTxn is no part of the transaction.
        if first is None or (has_incomplete and isinstance(first, EndTxnCall)):
            return math.inf
        return first.due_ms

    def next_call(self, now_ms: float, *, has_incomplete: bool) -> CoordinatorCall | None:
        """Return the request to send now, or None. It stays in flight until its outcome is reported.

        `has_incomplete` is true while the outcome of a batch is unknown, or while a request with a batch is in flight.
        """
        if self.next_check_ms(has_incomplete=has_incomplete) > now_ms:
            return None
        call = self._first()
        assert call is not None, "a due request exists"
        self._queue.remove(call)
        if isinstance(call, EndTxnCall) and not self._status.is_started:
            self._end(call)
            return self.next_call(now_ms, has_incomplete=has_incomplete)
        self._in_flight = call
        return call

    def _first(self) -> CoordinatorCall | None:
        """Return the waiting request that is sent next."""
        if self.new_partitions:
            call = next((each for each in self._queue if isinstance(each, AddPartitionsCall)), None)
            if call is None:
                call = AddPartitionsCall(self._status.transactional_id, self._sequences.identity)
                self.add(call)
            call.partitions |= self.new_partitions
            self.new_partitions.clear()
        return min(self._queue, key=lambda each: each.priority, default=None)

    # ---- outcomes

    def disconnected(self, call: CoordinatorCall, now_ms: float) -> None:
        """Repeat a request that was lost with its connection."""
        self._in_flight = None
        call.may_be_handled = True
        self._retry(call, now_ms + self._retry_ms)

    def refused(self, call: CoordinatorCall, error: ApiError) -> None:
        """Handle a request that was not sent: its coordinator's look-up was refused, or no common version exists."""
        self._in_flight = None
        is_abortable = reaction(FIND_COORDINATOR, error.code) is Reaction.ABORTABLE
        text = f"{call.api} was not sent ({error.code.name}: {error})"
        self._fail(call, Reaction.ABORTABLE if is_abortable else Reaction.FATAL, error.code, text)

    def received(self, call: CoordinatorCall, response: Any, now_ms: float) -> bool:
        """Handle a response. Return true if the coordinator must be looked up again."""
        self._in_flight = None
        if self._status.state is ManagerState.FATAL_ERROR:
            return False
        codes = call.codes(response)
        reactions = {subject: reaction(call.reactions, code) for subject, code in codes.items()}
        found = max(reactions.values())
        if found is Reaction.DONE:
            self._completed[type(call)](call, response)
        elif found <= Reaction.LOOK_UP:
            # Only the first partitions of a transaction may wait for the end of the previous one.
            is_first = found is Reaction.RETRY_SOON and not self._sequences.added
            self._retry(call, now_ms + (min(RETRY_SOON_MS, self._retry_ms) if is_first else self._retry_ms))
        else:
            failures = {subject: codes[subject] for subject, each in reactions.items() if each is found}
            names = ", ".join(f"{subject} {code.name}" for subject, code in sorted(failures.items()))
            code = next(iter(failures.values()))
            self._fail(call, found, code, f"{call.api} was refused: {names}{hint(code)}")
        return found is Reaction.LOOK_UP

    def _retry(self, call: CoordinatorCall, due_ms: float) -> None:
        error = self._status.error
        if error is not None:
            call.complete(error)
        if error is None or self._survives(call, error):
            call.due_ms = due_ms
            self.add(call)

    def _survives(self, call: CoordinatorCall, error: TransactionError) -> bool:
        """Whether a request is repeated even after an error.

        A lost request may have begun the transaction. Only its repetition shows whether EndTxn must be sent. Without
        EndTxn, a later InitProducerId would abort that transaction, and fence this producer. Kafka's producer drops it.
        """
        return call.begins_transaction and call.may_be_handled and not error.is_fatal

    def _fail(self, call: CoordinatorCall, found: Reaction, code: ErrorCode, text: str) -> None:
        """Fail a call after an error that no retry removes."""
        if found is Reaction.REINITIALIZE:
            self._status.move(ManagerState.UNINITIALIZED)
            call.complete(fatal_error(code, text))
            return
        error = abortable_error(code, text)
        if found is Reaction.FENCED:
            self._status.fenced()
        elif found is Reaction.FATAL:
            self._status.fatal(fatal_error(code, text))
        else:
            self._status.abortable(error, needs_bump=found is Reaction.ABORTABLE_WITH_BUMP)
        call.complete(self._status.error or error)

    def _fail_waiting(self, error: TransactionError) -> None:
        """Fail the calls that wait to be sent. After a fatal error, also fail the call in flight."""
        waiting = self._queue
        self._queue = [call for call in waiting if self._survives(call, error)]
        for call in waiting:
            call.complete(error)
        if error.is_fatal:
            if self._in_flight is not None:
                self._in_flight.complete(error)
            if self._status.pending is not None:
                self._status.pending.complete(error)

    # ---- successes

    def _identity_assigned(self, call: InitProducerIdCall, response: InitProducerIdResponse) -> None:
        self._sequences.set_identity(ProducerIdentity(response.producer_id, response.producer_epoch))
        self._status.is_version_2 = self._status.level >= 2
        self._status.move(ManagerState.READY)
        call.complete()

    def _partitions_added(self, call: AddPartitionsCall, _: object) -> None:
        self._sequences.added |= call.partitions
        self._status.is_started = True

    def _offsets_added(self, call: AddOffsetsCall, _: object) -> None:
        self._status.is_started = True
        if not call.result.is_done:
            self._retry(call.then, -math.inf)

    def _offsets_committed(self, call: TxnOffsetCommitCall, _: object) -> None:
        call.complete()

    def _transaction_ended(self, call: EndTxnCall, response: EndTxnResponse) -> None:
        # From transaction version 2 on, EndTxn bumps the epoch (KIP-890).
        if response.producer_id >= 0:
            self._sequences.set_identity(ProducerIdentity(response.producer_id, response.producer_epoch))
        self._end(call)

    def _end(self, call: EndTxnCall) -> None:
        """Prepare the next transaction, with a bumped epoch if a gap or the upgrade to version 2 needs one.

        A producer whose InitProducerId failed with an abortable error has no producer id yet.
        """
        status = self._status
        is_upgrade = status.level >= 2 and not status.is_version_2
        needs_identity = status.needs_bump or is_upgrade or not self._sequences.identity.is_valid
        status.is_version_2, status.needs_bump, status.is_started = status.level >= 2, False, False
        self.new_partitions.clear()
        self._sequences.added.clear()
        if needs_identity:
            status.move(ManagerState.INITIALIZING)
            assert call.result is not None, "EndTxn is a call of the application"
            self.request_identity(call.result, self._sequences.identity)
        else:
            status.move(ManagerState.READY)
            call.complete()
