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


class ClassicGroupState(StrEnum):
    """Named as clients are told."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


DEAD = "Dead"
"""What a group is called that does not exist."""

MAY_FOLLOW: dict[ClassicGroupState, frozenset[ClassicGroupState]] = {
    ClassicGroupState.EMPTY: frozenset((ClassicGroupState.PREPARING_REBALANCE,)),
    ClassicGroupState.PREPARING_REBALANCE: frozenset(
        (ClassicGroupState.EMPTY, ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE)
    ),
    ClassicGroupState.COMPLETING_REBALANCE: frozenset((ClassicGroupState.PREPARING_REBALANCE,)),
    ClassicGroupState.STABLE: frozenset((ClassicGroupState.COMPLETING_REBALANCE,)),
}
"""After which states a state may come."""


class StateAnswers(NamedTuple):
    """What a state says to a member of the right generation, and to who wants to delete the group."""

    heartbeat: ErrorCode
    sync: ErrorCode
    commit: ErrorCode
    delete: ErrorCode


ANSWERS: dict[ClassicGroupState, StateAnswers] = {
    ClassicGroupState.EMPTY: StateAnswers(
        ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE, ErrorCode.NONE
    ),
    ClassicGroupState.PREPARING_REBALANCE: StateAnswers(
        ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NONE, ErrorCode.NON_EMPTY_GROUP
    ),
    ClassicGroupState.COMPLETING_REBALANCE: StateAnswers(
        ErrorCode.NONE, ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NON_EMPTY_GROUP
    ),
    ClassicGroupState.STABLE: StateAnswers(ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NON_EMPTY_GROUP),
}
