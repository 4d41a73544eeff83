"""The steps that both protocols share when a member joins a consumer group or continues in it."""

from __future__ import annotations

from msgspec.structs import replace

from pykbroker.core.group.consumer import stored
from pykbroker.core.group.consumer.assignment import Assignment
from pykbroker.core.group.consumer.check import LEAVING_FOR_NOW
from pykbroker.core.group.consumer.deadlines import FETCH, REJOIN, REVOCATION, expect
from pykbroker.core.group.consumer.departure import tombstones
from pykbroker.core.group.consumer.draft import GroupDraft
from pykbroker.core.group.consumer.group import ConsumerGroup, StoredMember
from pykbroker.core.group.consumer.plan import plan
from pykbroker.core.group.consumer.reconcile import Current, MemberState, reconcile
from pykbroker.core.group.consumer.topics import ids_of, names_of
from pykbroker.core.group.shard import Due, Shard
from pykbroker.core.metadata.image import TopicsImage

NEWCOMER = StoredMember(
    instance_id=None, rack_id=None, subscribed_topic_regex="", server_assignor=None, classic_member_metadata=None
)
"""A member that has no stored data."""


def take_over(draft: GroupDraft, member_id: str, instance_id: str | None) -> StoredMember | None:
    """Return the stored member. A returning static member takes over the state of its previous member id."""
    group = draft.group
    known = group.static.get(instance_id) if instance_id is not None else None
    if known is None or (known == member_id and group.member_epoch(known) != LEAVING_FOR_NOW):
        return group.members.get(member_id)
    stored_member, has, target = group.members[known], group.current.get(known, Current()), group.target_of(known)
    if known != member_id:
        tombstones(draft, known)
    draft.write(stored.member(group.id, member_id, stored_member))
    draft.write(stored.target(group.id, member_id, target))
    # Epoch 0 is below every target's, so that this same request moves the member to the current epoch.
    draft.write(stored.current(group.id, member_id, replace(has, epoch=0, previous_epoch=0)))
    return stored_member


def update_member(draft: GroupDraft, member_id: str, before: StoredMember | None, stored_member: StoredMember) -> bool:
    """Write the member's subscription and metadata if they have changed. Return whether the subscription has."""
    if stored_member != before:
        draft.write(stored.member(draft.group.id, member_id, stored_member))
    was = NEWCOMER if before is None else before
    return (stored_member.subscribed_topic_names, stored_member.subscribed_topic_regex) != (
        was.subscribed_topic_names,
        was.subscribed_topic_regex,
    )


def advance(
    draft: GroupDraft, shard: Shard, member_id: str, owned: Assignment | None, *, changed: bool
) -> tuple[Current | None, Current]:
    """Update the group's epoch and the member's assignment, and set the member's deadlines.

    Return the member's previous and new assignment. A member that uses the classic protocol has no revocation deadline.
    It has deadlines to rejoin and to fetch its assignment instead.
    """
    topics, step = shard.topics(), draft.step
    plan(draft, shard, changed=changed)
    group = draft.group
    has = group.current.get(member_id)
    stored_member, revocation = group.members[member_id], Due(REVOCATION, group.id, member_id)
    following = reconcile(
        has or Current(),
        group.target_of(member_id),
        group.assignment_epoch,
        owned,
        group.is_free,
        _unsubscribed(group, stored_member, has, topics) if changed and has is not None else (),
    )
    if following != has:
        draft.write(stored.current(group.id, member_id, following))
    expect(shard, group.id, member_id, stored_member, step)
    for kind in (REJOIN, FETCH):
        shard.timers.cancel(Due(kind, group.id, member_id))
    if following.state is not MemberState.UNREVOKED_PARTITIONS or stored_member.classic_member_metadata is not None:
        shard.timers.cancel(revocation)
    # A heartbeat that changes nothing must not extend the deadline.
    elif following != has:
        shard.timers.set(revocation, step.now_ms + stored_member.rebalance_timeout_ms)
    return has, following


def _unsubscribed(group: ConsumerGroup, stored_member: StoredMember, has: Current, topics: TopicsImage) -> set[bytes]:
    """Return the assigned topics to which the member no longer subscribes."""
    matches = {pattern: value.topics for pattern, value in group.regexes.items()}
    return has.assigned.keys() - ids_of(names_of(stored_member, matches), topics)
