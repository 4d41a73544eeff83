"""Builders of the records of consumer groups."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat

from pykbroker.core.coordinator.record import CoordinatorRecord
from pykbroker.core.group.consumer import assignment
from pykbroker.core.group.consumer.assignment import Assignment
from pykbroker.core.group.consumer.group import StoredMember
from pykbroker.core.group.consumer.reconcile import Current, MemberState
from pykbroker.core.topic_partition import TopicIdPartition
from wire.stored import consumer_group as stored


def member(group_id: str, member_id: str, stored_member: StoredMember | None) -> CoordinatorRecord:
    """Return the record of a member's subscription and metadata. None deletes it."""
    return CoordinatorRecord(
        stored.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), stored_member
    )


def epoch(group_id: str, number: int, metadata_hash: int) -> CoordinatorRecord:
    """Return the record of the group's epoch and the hash of its topics."""
    value = stored.ConsumerGroupMetadataValue(epoch=number, metadata_hash=metadata_hash)
    return CoordinatorRecord(stored.ConsumerGroupMetadataKey(group_id=group_id), value)


def target(group_id: str, member_id: str, target_assignment: Assignment | None) -> CoordinatorRecord:
    """Return the record of a member's target assignment. None deletes it."""
    key = stored.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    if target_assignment is None:
        return CoordinatorRecord(key, None)
    return CoordinatorRecord(
        key,
        stored.ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                stored.TopicPartition(topic_id, sorted(partitions))
                for topic_id, partitions in target_assignment.items()
            ]
        ),
    )


def assigned(group_id: str, number: int, wall_ms: int) -> CoordinatorRecord:
    """Return the record of the epoch and the time at which the targets were computed."""
    value = stored.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=number, assignment_timestamp=wall_ms)
    return CoordinatorRecord(stored.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def current(group_id: str, member_id: str, has: Current | None) -> CoordinatorRecord:
    """Return the record of a member's current assignment. None deletes it."""
    key = stored.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    if has is None:
        return CoordinatorRecord(key, None)
    return CoordinatorRecord(
        key,
        stored.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=has.epoch,
            previous_member_epoch=has.previous_epoch,
            state=has.state,
            assigned_partitions=_partitions(has.assigned, has.since),
            partitions_pending_revocation=_partitions(has.revoking, has.since),
        ),
    )


def regex(group_id: str, pattern: str, topics: list[str] | None, version: int, wall_ms: int) -> CoordinatorRecord:
    """Return the record of the topics that a regular expression matched. None deletes it.

    `version` is the metadata version in which they were matched.
    """
    key = stored.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern)
    if topics is None:
        return CoordinatorRecord(key, None)
    return CoordinatorRecord(key, stored.ConsumerGroupRegularExpressionValue(topics, version, wall_ms))


def read_current(value: stored.ConsumerGroupCurrentMemberAssignmentValue) -> Current:
    """Return the current assignment of a record.

    An unknown state, which a newer broker may have written, becomes UNRELEASED_PARTITIONS. Brokers before 4.3 did not
    store each partition's epoch; the member's epoch is used instead.
    """
    known = value.state in MemberState.__members__.values()
    since = {
        (bytes(one.topic_id), index): epoch
        for one in (*value.assigned_partitions, *value.partitions_pending_revocation)
        for index, epoch in zip(one.partitions, one.assignment_epochs or repeat(value.member_epoch), strict=False)
    }
    return Current(
        value.member_epoch,
        value.previous_member_epoch,
        MemberState(value.state) if known else MemberState.UNRELEASED_PARTITIONS,
        assignment.of(value.assigned_partitions),
        assignment.of(value.partitions_pending_revocation),
        since,
    )


def _partitions(given: Assignment, since: Mapping[TopicIdPartition, int]) -> list[stored.TopicPartitions]:
    return [
        stored.TopicPartitions(topic_id, (ordered := sorted(partitions)), [since[topic_id, one] for one in ordered])
        for topic_id, partitions in given.items()
    ]
