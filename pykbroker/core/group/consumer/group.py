"""A consumer group as its records tell it."""

from __future__ import annotations

from pykbroker.core.coordinator_record import CoordinatorRecord
from wire.stored import consumer_group as stored


class ConsumerGroup:
    """By member id: what the member said, what it shall have (`target`), what it has (`current`)."""

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.epoch = 0
        self.assignment_epoch = 0
        self.members: dict[str, stored.ConsumerGroupMemberMetadataValue] = {}
        self.target: dict[str, stored.ConsumerGroupTargetAssignmentMemberValue] = {}
        self.current: dict[str, stored.ConsumerGroupCurrentMemberAssignmentValue] = {}
        self.regexes: dict[str, stored.ConsumerGroupRegularExpressionValue] = {}
        self.has_topics = False  # as brokers before 4.0 wrote them

    @property
    def state(self) -> str:
        """Named as clients are told."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        stable = all((current := self.current.get(member_id)) is not None and current.state == 0
                     and current.member_epoch == self.assignment_epoch for member_id in self.members)
        return "Stable" if stable else "Reconciling"

    def member_epoch(self, member_id: str) -> int | None:
        """The epoch that the member has reached; None for a stranger."""
        if member_id not in self.members:
            return None
        current = self.current.get(member_id)
        return 0 if current is None else current.member_epoch

    def subscribes(self, topic: str) -> bool:
        """Whether a member reads the topic."""
        return any(topic in member.subscribed_topic_names for member in self.members.values()) or any(
            topic in regex.topics for regex in self.regexes.values())

    def deleted(self) -> list[CoordinatorRecord]:
        """The group, which has no members, is no more."""
        keys = [stored.ConsumerGroupRegularExpressionKey(group_id=self.id, regular_expression=regex)
                for regex in self.regexes]
        last = [stored.ConsumerGroupTargetAssignmentMetadataKey(group_id=self.id),
                *([stored.ConsumerGroupPartitionMetadataKey(group_id=self.id)] if self.has_topics else []),
                stored.ConsumerGroupMetadataKey(group_id=self.id)]
        return [CoordinatorRecord(key, None) for key in (*keys, *last)]
