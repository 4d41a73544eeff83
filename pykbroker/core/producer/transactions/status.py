"""The state of a transaction manager, which its sequence numbers and its requests share."""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.core.producer.errors import (
    IllegalCall,
    ProducerFenced,
    TransactionError,
    abortable_error,
    fatal_error,
    hint,
)
from pykbroker.core.producer.transactions.reactions import PRODUCE, Reaction
from pykbroker.core.producer.transactions.result import CallResult
from pykbroker.core.producer.transactions.state import ERRORS, LEGAL, PREDECESSORS, ManagerState, TransactionCall
from wire.error_codes import ErrorCode
from wire.sentinels import NO_FEATURES_EPOCH

TOO_OLD = "its coordinator is older than Kafka 2.5, and cannot bump the epoch after this error"


class TransactionStatus:
    """The state, the error behind it, and whether the next transaction needs another epoch."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.failed: Callable[[TransactionError], None] = lambda _: None
        """A function that is called with the error after each transition to an error state."""
        self.state = ManagerState.UNINITIALIZED
        self.error: TransactionError | None = None
        self.features_epoch, self.level = NO_FEATURES_EPOCH, 0
        """The epoch of the newest finalized features, and the level of their feature `transaction.version`."""
        self.is_version_2 = False
        """Whether the transaction follows version 2 of the protocol (KIP-890)."""
        self.can_bump_epoch = True
        """Whether the coordinator bumps the epoch at InitProducerId, as Kafka 2.5 and later do (KIP-360)."""
        self.needs_bump = False
        """Whether InitProducerId must bump the epoch after this transaction."""
        self.is_started = False
        """Whether the coordinator may know the transaction, so that EndTxn must be sent."""
        self.pending: CallResult | None = None
        """The last call that waits for requests. The application must get its result before it calls another one."""

    # ---- calls of the application

    def repeated(self, call: TransactionCall) -> CallResult | None:
        """Return the result of the same call, if the application has not got it yet. Forget an acknowledged result.

        Raise IllegalCall if the application has not got the result of another call.
        """
        if self.pending is not None and self.pending.is_acknowledged:
            self.pending = None
        if self.pending is None or self.pending.call is call:
            return self.pending
        raise IllegalCall(
            f"{call.value} must wait: the previous call of {self.pending.call.value} ended without a result; repeat it "
            "to get its result"
        )

    def check(self, call: TransactionCall) -> None:
        """Raise the error of a call that is not legal now."""
        if self.state in LEGAL[call]:
            return
        if self.state in ERRORS:
            assert self.error is not None, "an error state has an error"
            raise self._of_call(call, self.error)
        raise IllegalCall(f"{call.value} is not possible: producer '{self.transactional_id}' {self.state.value}")

    def _of_call(self, call: TransactionCall, error: TransactionError) -> TransactionError:
        """Return a new error with the same code, since an error that is raised twice would collect two tracebacks."""
        if isinstance(error, ProducerFenced):
            return ProducerFenced(error.code, error.message or "", error.category)
        found = type(error)(error.code, f"{call.value} is not possible ({error.message})", error.category)
        found.__cause__ = error
        return found

    # ---- transitions

    def move(self, target: ManagerState) -> None:
        """Change to a state without an error."""
        assert self.state in PREDECESSORS[target], f"{self.state.name} cannot become {target.name}"
        self.state, self.error = target, None

    def abortable(self, error: TransactionError, *, needs_bump: bool = False) -> None:
        """Allow nothing but an abort. This has no effect while a transaction is being aborted, or if none is open.

        With `needs_bump`, the error is fatal if no other epoch can be had.
        """
        if needs_bump and not self.is_version_2 and not self.can_bump_epoch:
            self.fatal(fatal_error(error.code, f"{error.message}; {TOO_OLD}", error))
            return
        if ManagerState.FATAL_ERROR is not self.state:
            self.needs_bump = self.needs_bump or (needs_bump and not self.is_version_2)
        if self.state in PREDECESSORS[ManagerState.ABORTABLE_ERROR]:
            self.state, self.error = ManagerState.ABORTABLE_ERROR, error
            self.failed(error)

    def fatal(self, error: TransactionError) -> None:
        """Allow nothing any more. The first fatal error stays."""
        if self.state is not ManagerState.FATAL_ERROR:
            self.state, self.error = ManagerState.FATAL_ERROR, error
            self.failed(error)

    def fenced(self) -> None:
        """Refuse all further calls, since another producer has taken over the transactional id."""
        self.fatal(
            fatal_error(
                ErrorCode.PRODUCER_FENCED,
                f"producer '{self.transactional_id}' has been fenced by another producer with the same "
                "transactional_id",
            )
        )

    def fail_records(self, code: ErrorCode, error: Exception, *, has_sequence: bool) -> None:
        """React to the final error of records. Their sequence numbers, if they have any, leave a gap."""
        if PRODUCE[code] is Reaction.FATAL:
            self.fatal(fatal_error(code, str(error), error))
            return
        text = f"{error}{hint(code)}"
        if code.retriable or code is ErrorCode.INVALID_TXN_STATE:
            code = ErrorCode.TRANSACTION_ABORTABLE
        self.abortable(abortable_error(code, text, error), needs_bump=has_sequence or self.can_bump_epoch)
