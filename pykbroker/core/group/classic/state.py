"""The states of a classic group, as tables.

              JoinGroup of a member     SyncGroup                Heartbeat    goes on to
Empty         a stranger's starts one   UNKNOWN_MEMBER_ID        likewise     PreparingRebalance: someone joins
Preparing     parks                     REBALANCE_IN_PROGRESS    likewise     Completing: all have joined, or time is up
                                                                              Empty: nobody is left
Completing    news: prepares again      parks; the leader's      NONE         Stable: the leader has assigned
              same: answers again       writes the generation                 Preparing: one came, went or was silent
Stable        news, leader: prepares,   its assignment           NONE         Preparing: likewise
              once all have synced or
              SYNC_PATIENCE_MS are over
              same: answers again
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from wire.error_codes import ErrorCode


class State(StrEnum):
    """Named as clients are told."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


DEAD = "Dead"
"""What a group is called that does not exist."""

MAY_FOLLOW: dict[State, frozenset[State]] = {
    State.EMPTY: frozenset((State.PREPARING_REBALANCE,)),
    State.PREPARING_REBALANCE: frozenset((State.EMPTY, State.COMPLETING_REBALANCE, State.STABLE)),
    State.COMPLETING_REBALANCE: frozenset((State.PREPARING_REBALANCE,)),
    State.STABLE: frozenset((State.COMPLETING_REBALANCE,)),
}
"""After which states a state may come."""


class Answers(NamedTuple):
    """What a state says to a member of the right generation, and to who wants to delete the group."""

    heartbeat: ErrorCode
    sync: ErrorCode
    commit: ErrorCode
    delete: ErrorCode


ANSWERS: dict[State, Answers] = {
    State.EMPTY: Answers(ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE, ErrorCode.NONE),
    State.PREPARING_REBALANCE: Answers(
        ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NONE, ErrorCode.NON_EMPTY_GROUP
    ),
    State.COMPLETING_REBALANCE: Answers(
        ErrorCode.NONE, ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NON_EMPTY_GROUP
    ),
    State.STABLE: Answers(ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NON_EMPTY_GROUP),
}
