"""What a member has, on its way to what it shall have: it gives back first, and takes what others have given back.

State         is left when                                                        for
STABLE        the target has another epoch                                        whichever of the three fits
UNREVOKED     the member no longer says that it owns what it is to give back      likewise
UNRELEASED    others give back what it is to have                                 likewise

A member is in its target's epoch as soon as there is nothing for it to give back, and in the one before until then.

Source: CurrentAssignmentBuilder of Kafka's group coordinator; KIP-1251 for the epochs of single partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from enum import IntEnum
from math import inf

import msgspec

from pykbroker.core.group.consumer.assignment import (
    NOTHING,
    Assignment,
    TopicIdPartition,
    common,
    each,
    joined,
    without,
)

NOT_JOINED = -1


class MemberState(IntEnum):
    """As records have it."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


class Current(msgspec.Struct, frozen=True):
    """Where a member is: its epoch and the one before, what is its own, and what it is to give back.

    `since`: the epoch in which it was given each of these partitions.
    """

    epoch: int = 0
    previous_epoch: int = NOT_JOINED
    state: MemberState = MemberState.STABLE
    assigned: Assignment = {}
    revoking: Assignment = {}
    since: Mapping[TopicIdPartition, int] = {}

    def at(self, epoch: int, state: MemberState, assigned: Assignment, revoking: Assignment = NOTHING) -> Current:
        """The next step. What was to be given back and is given again counts from now on."""
        since = {place: self.since[place] for place in each(joined(self.assigned, revoking)) if place in self.since}
        return Current(
            epoch,
            self.epoch,
            state,
            assigned,
            revoking,
            {place: since.get(place, epoch) for place in each(joined(assigned, revoking))},
        )

    def had(self, epoch: int, topic_id: bytes, index: int) -> bool:
        """Whether the member has had a partition since this epoch, or for longer."""
        return self.since.get((topic_id, index), inf) <= epoch


def reconcile(
    current: Current,
    target: Assignment,
    target_epoch: int,
    owned: Assignment | None,
    is_free: Callable[[bytes, int], bool],
    unsubscribed: Container[bytes] = (),
) -> Current:
    """The next step towards the target. `owned`: what the member says it has, None where it does not say.

    `unsubscribed`: topics that it has just lost its interest in, for which it need not finish what it is at.
    """
    if current.state is MemberState.STABLE:
        if current.epoch == target_epoch:
            return current
    elif current.state is MemberState.UNREVOKED_PARTITIONS and _owns(owned, current.revoking):
        dropped = {topic: current.assigned[topic] for topic in current.assigned if topic in unsubscribed}
        return (
            current
            if not dropped
            else current.at(
                current.epoch,
                MemberState.UNREVOKED_PARTITIONS,
                without(current.assigned, dropped),
                joined(current.revoking, dropped),
            )
        )
    return _next(current, target, target_epoch, owned, is_free)


def _owns(owned: Assignment | None, revoking: Assignment) -> bool:
    return owned is None or bool(common(owned, revoking))


def _next(
    current: Current,
    target: Assignment,
    target_epoch: int,
    owned: Assignment | None,
    is_free: Callable[[bytes, int], bool],
) -> Current:
    kept = common(current.assigned, target)
    revoking = without(current.assigned, kept)
    if revoking and _owns(owned, revoking):
        return current.at(current.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    wanted = without(target, kept)
    free: dict[bytes, frozenset[int]] = {}
    for topic, partition in each(wanted):
        if is_free(topic, partition) or partition in current.revoking.get(topic, ()):
            free[topic] = free.get(topic, frozenset()) | {partition}
    state = MemberState.UNRELEASED_PARTITIONS if without(wanted, free) else MemberState.STABLE
    return current.at(target_epoch, state, joined(kept, free))
