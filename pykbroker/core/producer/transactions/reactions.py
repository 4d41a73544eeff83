"""The reactions of a transactional producer to error codes, as tables (KIP-98, KIP-360, KIP-890)."""

from __future__ import annotations

from enum import IntEnum

from wire.error_codes import ErrorCode


class Reaction(IntEnum):
    """The consequence of an error code. If the partitions of a request have several, the greatest one counts.

    The abortable ones become fatal if the coordinator is too old to bump the epoch, and the transaction needs that.
    """

    DONE = 0
    RETRY = 1
    RETRY_SOON = 2
    """Repeat the request after 20 ms, if it is the first one of a transaction."""
    LOOK_UP = 3
    """Repeat the request, after a look-up of the coordinator."""
    ABORTABLE = 4
    ABORTABLE_WITH_BUMP = 5
    """An abortable error, after which the next transaction needs another epoch."""
    REINITIALIZE = 6
    """Fail the call. The application may call init_transactions again, for example after an ACL was added."""
    FATAL = 7
    FENCED = 8
    """A fatal error because of another producer. Coordinators before Kafka 2.7 answer INVALID_PRODUCER_EPOCH for it."""


Reactions = dict[ErrorCode, Reaction]

COORDINATOR: Reactions = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction.LOOK_UP,
    ErrorCode.NOT_COORDINATOR: Reaction.LOOK_UP,
    ErrorCode.INVALID_PRODUCER_EPOCH: Reaction.FENCED,
    ErrorCode.PRODUCER_FENCED: Reaction.FENCED,
    ErrorCode.TRANSACTION_ABORTABLE: Reaction.ABORTABLE,
}
"""The reactions that all requests share. Retriable codes are repeated, and all codes without a reaction are fatal."""

INIT_PRODUCER_ID: Reactions = COORDINATOR | {
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Reaction.REINITIALIZE,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: Reaction.REINITIALIZE,
}
ADD_PARTITIONS: Reactions = {code: Reaction.ABORTABLE for code in ErrorCode if not code.retriable} | {
    ErrorCode.NONE: Reaction.DONE,
    **COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS: Reaction.RETRY_SOON,
    ErrorCode.UNKNOWN_PRODUCER_ID: Reaction.ABORTABLE_WITH_BUMP,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Reaction.FATAL,
    ErrorCode.INVALID_TXN_STATE: Reaction.FATAL,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: Reaction.FATAL,
}
ADD_OFFSETS: Reactions = COORDINATOR | {
    ErrorCode.UNKNOWN_PRODUCER_ID: Reaction.ABORTABLE_WITH_BUMP,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: Reaction.ABORTABLE,
}
TXN_OFFSET_COMMIT: Reactions = COORDINATOR | {
    ErrorCode.REQUEST_TIMED_OUT: Reaction.LOOK_UP,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: Reaction.ABORTABLE,
    ErrorCode.FENCED_INSTANCE_ID: Reaction.ABORTABLE,
    ErrorCode.UNKNOWN_MEMBER_ID: Reaction.ABORTABLE,
    ErrorCode.ILLEGAL_GENERATION: Reaction.ABORTABLE,
}
COMMIT: Reactions = COORDINATOR | {ErrorCode.UNKNOWN_PRODUCER_ID: Reaction.ABORTABLE_WITH_BUMP}
ABORT: Reactions = COMMIT | {ErrorCode.TRANSACTION_ABORTABLE: Reaction.FATAL}
"""An abort that could only be aborted would never end."""
FIND_COORDINATOR: Reactions = {
    ErrorCode.GROUP_AUTHORIZATION_FAILED: Reaction.ABORTABLE,
    ErrorCode.TRANSACTION_ABORTABLE: Reaction.ABORTABLE,
}

PRODUCE: Reactions = dict.fromkeys(ErrorCode, Reaction.ABORTABLE) | {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: Reaction.FATAL,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Reaction.FATAL,
    ErrorCode.PRODUCER_FENCED: Reaction.FATAL,
    ErrorCode.UNSUPPORTED_VERSION: Reaction.FATAL,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: Reaction.FATAL,
}
"""The reactions to the final error of a batch."""


def reaction(reactions: Reactions, code: ErrorCode) -> Reaction:
    """Return the reaction to an error code. One that is not in the table is fatal, unless it is retriable."""
    found = reactions.get(code)
    if found is not None:
        return found
    if not code:
        return Reaction.DONE
    return Reaction.RETRY if code.retriable else Reaction.FATAL
