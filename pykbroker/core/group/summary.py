"""Summaries of groups for metrics: their number of members, and their committed offsets."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from pykbroker.core.group.shard import Shard
from pykbroker.core.group.step import Step
from pykbroker.core.outcome import Token
from pykbroker.core.steps import Steps


class SummarizeGroups(msgspec.Struct, frozen=True):
    """The broker's own request for summaries with `offsets_max` offsets at most. The reply is a `GroupSummaries`."""

    offsets_max: int


class GroupSummary(NamedTuple):
    """A group with its number of members and its committed offsets, as (topic, partition, offset)."""

    group_id: str
    members: int
    offsets: list[tuple[str, int, int]]


class GroupSummaries(NamedTuple):
    """The groups whose offsets fit into `offsets_max`, and the number of offsets of the other groups."""

    groups: list[GroupSummary]
    offsets_omitted: int

    @property
    def cost(self) -> int:
        """Return how much of `offsets_max` the groups use."""
        return sum(cost_of(len(group.offsets)) for group in self.groups)


def cost_of(offsets: int) -> int:
    """Return how much of `offsets_max` a group uses. A group without offsets counts as one offset."""
    return max(1, offsets)


def summarize_groups(shard: Shard, request: SummarizeGroups, token: Token, step: Step) -> Steps[None]:
    """Summarize the groups, each with all of its offsets or not at all."""
    left, omitted, found = request.offsets_max, 0, []
    for group in shard.groups.values():
        topics = shard.offsets.of_group(group.id)
        cost = cost_of(sum(map(len, topics.values())))
        if cost > left:
            omitted += cost
            yield
            continue
        left -= cost
        offsets = list[tuple[str, int, int]]()
        for topic, partitions in topics.items():
            offsets += [(topic, partition, committed.offset) for partition, committed in partitions.items()]
            yield
        found.append(GroupSummary(group.id, len(group.members), offsets))
        yield
    step.reply(token, GroupSummaries(found, omitted))
