"""The steps from a member's current assignment to its target: it revokes partitions, then takes free ones.

A member leaves a state when:
- STABLE: the target has a newer epoch;
- UNREVOKED_PARTITIONS: the member no longer reports the partitions that it must revoke;
- UNRELEASED_PARTITIONS: other members have released partitions of its target.

The next state is UNREVOKED_PARTITIONS if it must revoke partitions, UNRELEASED_PARTITIONS if others must release some,
otherwise STABLE.
A member moves to the target's epoch once it has nothing left to revoke, and keeps its previous epoch until then.

Source: CurrentAssignmentBuilder of Kafka's group coordinator; KIP-1251 for the epochs of single partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from enum import IntEnum
from math import inf

import msgspec

from pykbroker.core.group.consumer.assignment import NOTHING, Assignment, common, each, joined, without
from pykbroker.core.topic_partition import TopicIdPartition

NOT_JOINED = -1


class MemberState(IntEnum):
    """A member's state, numbered as in records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


class Current(msgspec.Struct, frozen=True):
    """A member's current assignment: its epoch, its partitions, and the partitions that it must revoke.

    `since` has the epoch in which each partition was assigned to it.
    """

    epoch: int = 0
    previous_epoch: int = NOT_JOINED
    state: MemberState = MemberState.STABLE
    assigned: Assignment = {}
    revoking: Assignment = {}
    since: Mapping[TopicIdPartition, int] = {}

    def at(self, epoch: int, state: MemberState, assigned: Assignment, revoking: Assignment = NOTHING) -> Current:
        """Return the assignment after this step.

        A partition that is assigned again while being revoked counts from `epoch`.
        """
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
        """Whether the member has had the partition since this epoch or longer."""
        return self.since.get((topic_id, index), inf) <= epoch


def reconcile(
    current: Current,
    target: Assignment,
    target_epoch: int,
    owned: Assignment | None,
    is_free: Callable[[bytes, int], bool],
    unsubscribed: Container[bytes] = (),
) -> Current:
    """Return the member's assignment after the next step towards the target.

    `owned` has the partitions that the member reports, or None if the request has none. `unsubscribed` has topics to
    which the member no longer subscribes. Their partitions are revoked at once, even while it is revoking others.
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
    # A heartbeat without news omits the partitions, so that it does not prove a revocation (KIP-848).
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
        # In `is_free`, this member still owns what it has just revoked.
        if is_free(topic, partition) or partition in current.revoking.get(topic, ()):
            free[topic] = free.get(topic, frozenset()) | {partition}
    state = MemberState.UNRELEASED_PARTITIONS if without(wanted, free) else MemberState.STABLE
    return current.at(target_epoch, state, joined(kept, free))
