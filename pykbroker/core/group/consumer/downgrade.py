"""Conversion of a consumer group to a classic group once all members use the classic protocol (KIP-848).

The group's epoch becomes the generation, and each member's partitions become its assignment. Partitions that the member
must still revoke are included, since no other member may take them before the following rebalance. Replaying the record
creates the classic group.
"""

from __future__ import annotations

from collections.abc import Container

from pykbroker.core.group.classic import stored as classic_stored
from pykbroker.core.group.classic.group import CONSUMER, ClassicGroup
from pykbroker.core.group.classic.member import ClassicMember
from pykbroker.core.group.classic.rebalance import BEGIN, SESSION
from pykbroker.core.group.consumer.assignment import Assignment, joined
from pykbroker.core.group.consumer.draft import GroupDraft
from pykbroker.core.group.consumer.embedded import assignment
from pykbroker.core.group.consumer.group import ConsumerGroup, StoredMember
from pykbroker.core.group.consumer.reconcile import Current
from pykbroker.core.group.shard import Due, Shard


def may_downgrade(shard: Shard, group: ConsumerGroup, leaving: Container[str], joining: int = 0) -> bool:
    """Whether the remaining members, and `joining` new ones, can form a classic group."""
    stay = [member_id for member_id in group.members if member_id not in leaving]
    return (
        0 < len(stay) + joining <= shard.settings.group_max_size
        and shard.settings.downgrades
        and all(map(group.is_classic, stay))
    )


def downgrade(
    draft: GroupDraft, shard: Shard, leaving: Container[str], generation: int, *, rebalances: bool = True
) -> None:
    """Write the records that delete the consumer group and create the classic group."""
    group, step, topics = draft.group, draft.step, shard.topics()
    classic = ClassicGroup(group.id, step.wall_ms)
    classic.protocol_type, classic.generation = CONSUMER, generation
    for member_id, stored_member in group.members.items():
        if member_id not in leaving:
            member = _member(member_id, stored_member)
            classic.add(member)
            shard.timers.set(Due(SESSION, group.id, member_id), step.now_ms + member.session_timeout_ms)
    classic.protocol = classic.select_protocol()
    given = {
        member.id: assignment(_held(group, member.id), topics, member.metadata(classic.protocol))
        for member in classic.members.values()
    }
    for record in group.tombstones():
        step.write(record)
    step.write(classic_stored.assigned(classic, given))
    # The classic group exists once its record is replayed, so a timer begins its rebalance.
    if rebalances:
        shard.timers.set(Due(BEGIN, group.id), step.now_ms)


def _held(group: ConsumerGroup, member_id: str) -> Assignment:
    has = group.current.get(member_id, Current())
    return joined(has.assigned, has.revoking)


def _member(member_id: str, stored_member: StoredMember) -> ClassicMember:
    known = stored_member.classic_member_metadata
    assert known is not None
    return ClassicMember(
        member_id,
        stored_member.instance_id,
        stored_member.client_id,
        stored_member.client_host,
        stored_member.rebalance_timeout_ms,
        known.session_timeout_ms,
        tuple((one.name, bytes(one.metadata)) for one in known.supported_protocols),
    )
