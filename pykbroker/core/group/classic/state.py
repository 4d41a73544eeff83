"""The states of a classic group, as tables. "waits" means that the response is sent later.

              JoinGroup of a member        SyncGroup               Heartbeat  transitions
Empty         starts a rebalance           UNKNOWN_MEMBER_ID       same       PreparingRebalance: a member joins
Preparing     waits                        REBALANCE_IN_PROGRESS   same       Completing: all have joined, or timeout
                                                                              Empty: no member is left
Completing    new protocols: rebalances    waits; the leader's     NONE       Stable: the leader has assigned
              otherwise: answers again     stores the generation              Preparing: a member joins or is removed
Stable        new protocols, or leader:    its assignment          NONE       Preparing: as from Completing
              rebalances once all have
              synced, or SYNC_PATIENCE_MS
              have passed
              otherwise: answers again
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from wire.error_codes import ErrorCode


class ClassicGroupState(StrEnum):
    """A state of a classic group, under the name that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


DEAD = "Dead"
"""The state that responses give for a group that does not exist."""

MAY_FOLLOW: dict[ClassicGroupState, frozenset[ClassicGroupState]] = {
    ClassicGroupState.EMPTY: frozenset((ClassicGroupState.PREPARING_REBALANCE,)),
    ClassicGroupState.PREPARING_REBALANCE: frozenset(
        (ClassicGroupState.EMPTY, ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE)
    ),
    ClassicGroupState.COMPLETING_REBALANCE: frozenset((ClassicGroupState.PREPARING_REBALANCE,)),
    ClassicGroupState.STABLE: frozenset((ClassicGroupState.COMPLETING_REBALANCE,)),
}
"""The states that may precede each state."""


class StateAnswers(NamedTuple):
    """The error codes of a state: for requests of a member in the current generation, and for DeleteGroups."""

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
