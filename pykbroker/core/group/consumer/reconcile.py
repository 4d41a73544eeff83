"""What a member has, on its way to what it shall have: it gives back first, and takes what others have given back.

State         is left when                                                        for
STABLE        the target has another epoch                                        whichever of the three fits
UNREVOKED     the member no longer says that it owns what it is to give back      likewise, in the next epoch
UNRELEASED    others give back what it is to have                                 likewise

Source: CurrentAssignmentBuilder of Kafka's group coordinator.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

import msgspec

from pykbroker.core.group.consumer.assignment import NOTHING, Assignment, common, each, joined, without

NOT_JOINED = -1


class MemberState(IntEnum):
    """As records have it."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


class Current(msgspec.Struct, frozen=True):
    """Where a member is: its epoch and the one before, what is its own, and what it is to give back."""

    epoch: int = 0
    previous_epoch: int = NOT_JOINED
    state: MemberState = MemberState.STABLE
    assigned: Assignment = {}
    revoking: Assignment = {}

    def at(self, epoch: int, state: MemberState, assigned: Assignment, revoking: Assignment = NOTHING) -> Current:
        """The next step."""
        previous = self.epoch if epoch != self.epoch else self.previous_epoch
        return Current(epoch, previous, state, assigned, revoking)


def reconcile(current: Current, target: Assignment, target_epoch: int, owned: Assignment | None,
              is_free: Callable[[bytes, int], bool]) -> Current:
    """The next step towards the target. `owned`: what the member says it has, None where it does not say."""
    if current.state is MemberState.STABLE:
        if current.epoch == target_epoch:
            return current
        return _next(current, current.epoch, target, target_epoch, owned, is_free)
    if current.state is MemberState.UNREVOKED_PARTITIONS:
        if _owns(owned, current.revoking):
            return current
        epoch = min(current.epoch + 1, target_epoch)
        return _next(current, epoch, target, target_epoch, owned, is_free)
    return _next(current, current.epoch, target, target_epoch, owned, is_free)


def _owns(owned: Assignment | None, revoking: Assignment) -> bool:
    return owned is None or bool(common(owned, revoking))


def _next(current: Current, epoch: int, target: Assignment, target_epoch: int, owned: Assignment | None,
          is_free: Callable[[bytes, int], bool]) -> Current:
    kept = common(current.assigned, target)
    revoking = without(current.assigned, kept)
    if revoking and _owns(owned, revoking):
        return current.at(epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    wanted = without(target, kept)
    free: dict[bytes, frozenset[int]] = {}
    for topic, partition in each(wanted):
        if is_free(topic, partition) or partition in current.revoking.get(topic, ()):
            free[topic] = free.get(topic, frozenset()) | {partition}
    state = MemberState.UNRELEASED_PARTITIONS if without(wanted, free) else MemberState.STABLE
    return current.at(target_epoch, state, joined(kept, free))
