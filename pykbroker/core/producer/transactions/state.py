"""The states of a transaction manager, their transitions, and the calls that are legal in each state."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class ManagerState(Enum):
    """A state of a transaction manager. The values complete the sentence "the producer ..."."""

    UNINITIALIZED = "has no producer id: call init_transactions first"
    INITIALIZING = "waits for its producer id: wait for the pending call"
    READY = "has no open transaction: call begin_transaction first"
    IN_TRANSACTION = "has an open transaction: commit or abort it first"
    COMMITTING_TRANSACTION = "is committing a transaction: wait for commit_transaction"
    ABORTING_TRANSACTION = "is aborting a transaction: wait for abort_transaction"
    ABORTABLE_ERROR = "has a transaction that can only be aborted: call abort_transaction"
    FATAL_ERROR = "has failed: close it, and open another one"


class TransactionCall(Enum):
    """A call of the application, by the name that error messages have."""

    INIT = "init_transactions"
    BEGIN = "begin_transaction"
    SEND = "send"
    SEND_OFFSETS = "send_offsets_to_transaction"
    COMMIT = "commit_transaction"
    ABORT = "abort_transaction"


S = ManagerState

PREDECESSORS: Mapping[ManagerState, frozenset[ManagerState]] = {
    S.UNINITIALIZED: frozenset({S.INITIALIZING}),
    S.INITIALIZING: frozenset({S.UNINITIALIZED, S.COMMITTING_TRANSACTION, S.ABORTING_TRANSACTION}),
    S.READY: frozenset({S.INITIALIZING, S.COMMITTING_TRANSACTION, S.ABORTING_TRANSACTION}),
    S.IN_TRANSACTION: frozenset({S.READY}),
    S.COMMITTING_TRANSACTION: frozenset({S.IN_TRANSACTION}),
    S.ABORTING_TRANSACTION: frozenset({S.IN_TRANSACTION, S.ABORTABLE_ERROR}),
    S.ABORTABLE_ERROR: frozenset({S.INITIALIZING, S.IN_TRANSACTION, S.COMMITTING_TRANSACTION}),
    S.FATAL_ERROR: frozenset(S) - {S.FATAL_ERROR},
}
"""The states that may precede each state."""

LEGAL: Mapping[TransactionCall, frozenset[ManagerState]] = {
    TransactionCall.INIT: frozenset({S.UNINITIALIZED}),
    TransactionCall.BEGIN: frozenset({S.READY}),
    TransactionCall.SEND: frozenset({S.IN_TRANSACTION}),
    TransactionCall.SEND_OFFSETS: frozenset({S.IN_TRANSACTION}),
    TransactionCall.COMMIT: frozenset({S.IN_TRANSACTION}),
    TransactionCall.ABORT: frozenset({S.IN_TRANSACTION, S.ABORTABLE_ERROR}),
}
"""The states in which each call is legal.

In an error state, the other calls raise the error of the transaction. In all other states, they raise IllegalCall.
"""

ERRORS = frozenset({S.ABORTABLE_ERROR, S.FATAL_ERROR})
COMPLETING = frozenset({S.COMMITTING_TRANSACTION, S.ABORTING_TRANSACTION})
