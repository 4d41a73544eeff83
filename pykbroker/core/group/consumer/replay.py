"""The effect of each record of consumer groups. A tombstone of something unknown has no effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykbroker.core.group.consumer import assignment
from pykbroker.core.group.consumer.group import ConsumerGroup
from pykbroker.core.group.consumer.stored import read_current
from wire.stored import consumer_group as stored


def _member(
    group: ConsumerGroup,
    key: stored.ConsumerGroupMemberMetadataKey,
    value: stored.ConsumerGroupMemberMetadataValue | None,
) -> None:
    group.put_member(key.member_id, value)


def _target(
    group: ConsumerGroup,
    key: stored.ConsumerGroupTargetAssignmentMemberKey,
    value: stored.ConsumerGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is None:
        group.target.pop(key.member_id, None)
    else:
        group.target[key.member_id] = assignment.of(value.topic_partitions)


def _current(
    group: ConsumerGroup,
    key: stored.ConsumerGroupCurrentMemberAssignmentKey,
    value: stored.ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    group.put_current(key.member_id, None if value is None else read_current(value))


def _regex(
    group: ConsumerGroup,
    key: stored.ConsumerGroupRegularExpressionKey,
    value: stored.ConsumerGroupRegularExpressionValue | None,
) -> None:
    if value is None:
        group.regexes.pop(key.regular_expression, None)
    else:
        group.regexes[key.regular_expression] = value


def _assignment(
    group: ConsumerGroup, _: object, value: stored.ConsumerGroupTargetAssignmentMetadataValue | None
) -> None:
    group.assignment_epoch = -1 if value is None else value.assignment_epoch


def _topics(group: ConsumerGroup, _: object, value: stored.ConsumerGroupPartitionMetadataValue | None) -> None:
    """Ignore the topic metadata that brokers before 4.0 stored."""


def _epoch(group: ConsumerGroup, _: object, value: stored.ConsumerGroupMetadataValue | None) -> None:
    if value is not None:
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash


REPLAY: dict[type, Callable[[ConsumerGroup, Any, Any], None]] = {
    stored.ConsumerGroupMetadataKey: _epoch,
    stored.ConsumerGroupPartitionMetadataKey: _topics,
    stored.ConsumerGroupMemberMetadataKey: _member,
    stored.ConsumerGroupTargetAssignmentMetadataKey: _assignment,
    stored.ConsumerGroupTargetAssignmentMemberKey: _target,
    stored.ConsumerGroupCurrentMemberAssignmentKey: _current,
    stored.ConsumerGroupRegularExpressionKey: _regex,
}
