"""A change of the ISR that a leader proposes, and the controller's answer (KIP-497, KIP-841, KIP-903)."""

from __future__ import annotations

import msgspec

from wire.error_codes import ErrorCode


class IsrChange(msgspec.Struct, frozen=True, gc=False):
    """The ISR that a leader proposes. `isr` has (broker id, broker epoch); the epoch is -1 if it is unknown."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]

    @property
    def members(self) -> tuple[int, ...]:
        """Return the broker ids of the proposed ISR."""
        return tuple(broker_id for broker_id, _ in self.isr)


class IsrAnswer(msgspec.Struct, frozen=True, gc=False):
    """The controller's answer about one partition. Without an error, it has the committed state."""

    error: ErrorCode = ErrorCode.NONE
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[int, ...] = ()


GIVEN_UP = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
"""The errors after which the committed ISR holds again."""
OUTDATED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""The errors after which a change stays pending until new metadata, since the leader's metadata is outdated."""
