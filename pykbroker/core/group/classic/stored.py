"""Conversion of a classic group to its record, GroupMetadataValue, and back."""

from __future__ import annotations

from collections.abc import Mapping

from pykbroker.core.coordinator.record import CoordinatorRecord
from pykbroker.core.group.classic.group import ClassicGroup
from pykbroker.core.group.classic.member import ClassicMember
from pykbroker.core.group.classic.state import ClassicGroupState
from wire.stored.classic_group import GroupMetadataKey, GroupMetadataValue, MemberMetadata

VALUE_VERSION = 3
"""The version of the record that Kafka 4.3.1 writes. Version 4 is for later releases."""


def empty(group: ClassicGroup, generation: int, wall_ms: int) -> CoordinatorRecord:
    """Return the record of a group that has no members."""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type,
        generation=generation,
        protocol=None,
        leader=None,
        current_state_timestamp=wall_ms,
    )
    return CoordinatorRecord(GroupMetadataKey(group=group.id), value, VALUE_VERSION)


def assigned(
    group: ClassicGroup, assignments: Mapping[str, bytes], renamed: Mapping[str, str] | None = None
) -> CoordinatorRecord:
    """Return the record of the group's generation and assignments. `renamed` maps old member ids to new ones."""
    names = renamed or {}
    value = GroupMetadataValue(
        protocol_type=group.protocol_type,
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader if group.leader is None else names.get(group.leader, group.leader),
        current_state_timestamp=group.state_ms,
        members=[
            _stored(member, names.get(member.id, member.id), group.protocol, assignments.get(member.id, b""))
            for member in group.members.values()
        ],
    )
    return CoordinatorRecord(GroupMetadataKey(group=group.id), value, VALUE_VERSION)


def _stored(member: ClassicMember, name: str, protocol: str | None, assignment: bytes) -> MemberMetadata:
    return MemberMetadata(
        member_id=name,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol),
        assignment=assignment,
    )


def restore(group: ClassicGroup, value: GroupMetadataValue) -> None:
    """Set the group's state from its record. Known members keep the fields that are not in the record.

    The record of a new group has no members. If it is for the current generation, members that are joining stay.
    """
    if not value.members and value.generation == group.generation:
        return
    group.protocol_type, group.generation = value.protocol_type, value.generation
    group.protocol, group.state_ms = value.protocol, value.current_state_timestamp
    stored = {member.member_id: member for member in value.members}
    for member in [one for one in group.members.values() if one.id not in stored]:
        # A static member that has restarted has another id in the record: see `join._resume`.
        heir = next(
            (
                one.member_id
                for one in value.members
                if member.instance_id is not None and one.group_instance_id == member.instance_id
            ),
            None,
        )
        if heir is None or heir in group.members:
            group.remove(member.id)
        else:
            group.rename(member, heir)
    # Only now: the removal of a leader makes another member the leader.
    group.leader = value.leader
    for stored_member in value.members:
        _restore_member(group, stored_member)
    group.state = ClassicGroupState.STABLE if value.members else ClassicGroupState.EMPTY
    group.learn_topics()


def _restore_member(group: ClassicGroup, stored_member: MemberMetadata) -> None:
    member = group.members.get(stored_member.member_id)
    protocols = ((group.protocol or "", bytes(stored_member.subscription)),)
    rebalance_timeout_ms = (
        stored_member.session_timeout if stored_member.rebalance_timeout < 0 else stored_member.rebalance_timeout
    )
    if member is None:
        member = ClassicMember(
            stored_member.member_id,
            stored_member.group_instance_id,
            stored_member.client_id,
            stored_member.client_host,
            rebalance_timeout_ms,
            stored_member.session_timeout,
            protocols,
        )
        group.add(member)
    elif member.metadata(group.protocol) != protocols[0][1]:
        group.set_protocols(member, protocols)
    member.assignment = bytes(stored_member.assignment)
