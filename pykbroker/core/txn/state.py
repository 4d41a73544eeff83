"""The states of a transaction and the transitions between them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class TransactionState(IntEnum):
    """A transaction's state, numbered as in the log.

    The last two are never written: an expired transactional id gets a tombstone, and a fenced transaction is aborted.
    """

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """Return Kafka's name of the state, such as `CompleteAbort`."""
        return "".join(word.capitalize() for word in self.name.split("_"))


TITLES: Mapping[str, TransactionState] = {state.title: state for state in TransactionState}
"""The states by the names that clients use in filters."""

AT_REST = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
"""States without an open or undecided transaction. In them the next transaction may begin, or the id may expire."""
PREPARED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""States of a decided transaction whose markers are being written."""

PREDECESSORS: Mapping[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: AT_REST,
    TransactionState.ONGOING: AT_REST | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: AT_REST | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
}
"""The states that may precede each state.

PREPARE_ABORT may follow a state at rest, since a client of transaction version 2 may abort without knowing the state.
"""
