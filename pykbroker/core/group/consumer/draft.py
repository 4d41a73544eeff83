"""A working copy of a consumer group. A record applies to the copy at once, and to the group when it is replayed."""

from __future__ import annotations

from pykbroker.core.coordinator.record import CoordinatorRecord
from pykbroker.core.group.consumer.group import ConsumerGroup
from pykbroker.core.group.consumer.replay import REPLAY
from pykbroker.core.group.step import Step


class GroupDraft:
    """The draft of one request. `group` is the group itself until the first write, then a copy."""

    def __init__(self, group: ConsumerGroup, step: Step) -> None:
        self.group, self.step = group, step
        self._is_copy = False

    def write(self, record: CoordinatorRecord) -> None:
        """Write a record and apply it to the copy."""
        if not self._is_copy:
            self.group, self._is_copy = self.group.copy(), True
        self.step.write(record)
        REPLAY[type(record.key)](self.group, record.key, record.value)
