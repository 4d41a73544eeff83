"""The state of one partition of `__consumer_offsets`: its groups, their offsets, and their deadlines."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pykbroker.core.config.config import Texts
from pykbroker.core.errors import ApiError
from pykbroker.core.group.classic.group import ClassicGroup
from pykbroker.core.group.consumer.group import ConsumerGroup
from pykbroker.core.group.consumer.search import TopicSearch
from pykbroker.core.group.group import Group
from pykbroker.core.group.offsets import GroupOffsets
from pykbroker.core.group.settings import GroupSettings
from pykbroker.core.ids import Randomness
from pykbroker.core.metadata.image import TopicsImage
from pykbroker.core.timers import Timers
from wire.error_codes import ErrorCode


class Due(NamedTuple):
    """A deadline. `machine.DUE` lists the kinds. An id is empty if the kind needs none."""

    kind: str
    group_id: str = ""
    member_id: str = ""


class Shard:
    """The groups and offsets of one partition.

    A group that has offsets and no members is a simple group: a classic group without a protocol type.
    """

    def __init__(
        self,
        settings: GroupSettings,
        randomness: Randomness,
        topics: Callable[[], TopicsImage],
        configs_of: Callable[[str], Texts],
    ) -> None:
        self.settings, self.randomness, self.topics, self.configs_of = settings, randomness, topics, configs_of
        self.groups: dict[str, Group] = {}
        self.offsets = GroupOffsets()
        self.timers: Timers[Due] = Timers()
        self.searches: dict[str, TopicSearch] = {}  # by the id of a group that subscribes to regular expressions
        self.downgraded = ""  # the last deleted consumer group: a classic group that replaces it must rebalance
        self.groups_to_expire: list[str] = []  # groups not yet searched for expired offsets
        self.deleted_topics: frozenset[str] = frozenset()  # deleted topics whose offsets are being deleted
        self.groups_to_clean: list[str] = []  # groups not yet searched for offsets of deleted topics

    def find_classic(self, group_id: str) -> ClassicGroup | None:
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def find_consumer(self, group_id: str) -> ConsumerGroup | None:
        group = self.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def classic(self, group_id: str) -> ClassicGroup:
        """Return the classic group with this id. Raise ApiError UNKNOWN_MEMBER_ID without such a group."""
        group = self.find_classic(group_id)
        if group is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return group
