"""What each record about consumer groups changes. One that says a thing is gone which never was changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykbroker.core.group.consumer.group import ConsumerGroup
from wire.stored import consumer_group as stored
from wire.stored.framing import CoordinatorValue


def _put(rows: dict[str, Any], name: str, value: CoordinatorValue | None) -> None:
    if value is None:
        rows.pop(name, None)
    else:
        rows[name] = value


def _member(group: ConsumerGroup, key: stored.ConsumerGroupMemberMetadataKey, value: CoordinatorValue | None) -> None:
    _put(group.members, key.member_id, value)


def _target(group: ConsumerGroup, key: stored.ConsumerGroupTargetAssignmentMemberKey,
            value: CoordinatorValue | None) -> None:
    _put(group.target, key.member_id, value)


def _current(group: ConsumerGroup, key: stored.ConsumerGroupCurrentMemberAssignmentKey,
             value: CoordinatorValue | None) -> None:
    _put(group.current, key.member_id, value)


def _regex(group: ConsumerGroup, key: stored.ConsumerGroupRegularExpressionKey, value: CoordinatorValue | None) -> None:
    _put(group.regexes, key.regular_expression, value)


def _assignment(group: ConsumerGroup, _: object,
                value: stored.ConsumerGroupTargetAssignmentMetadataValue | None) -> None:
    group.assignment_epoch = -1 if value is None else value.assignment_epoch


def _topics(group: ConsumerGroup, _: object, value: CoordinatorValue | None) -> None:
    group.has_topics = value is not None


def _epoch(group: ConsumerGroup, _: object, value: stored.ConsumerGroupMetadataValue | None) -> None:
    if value is not None:
        group.epoch = value.epoch


REPLAY: dict[type, Callable[[ConsumerGroup, Any, Any], None]] = {
    stored.ConsumerGroupMetadataKey: _epoch,
    stored.ConsumerGroupPartitionMetadataKey: _topics,
    stored.ConsumerGroupMemberMetadataKey: _member,
    stored.ConsumerGroupTargetAssignmentMetadataKey: _assignment,
    stored.ConsumerGroupTargetAssignmentMemberKey: _target,
    stored.ConsumerGroupCurrentMemberAssignmentKey: _current,
    stored.ConsumerGroupRegularExpressionKey: _regex,
}
