"""The members, committed offsets and lags of all groups that this broker coordinates."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import trio

from pykbroker.coordinator.runtime import Runtime
from pykbroker.core.errors import ApiError
from pykbroker.core.group.summary import GroupSummaries, SummarizeGroups
from pykbroker.core.names import GROUP_METADATA_TOPIC
from pykbroker.core.steps import Steps
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.replicas import Replicas
from wire.declare import NIL

GROUPS_S_MAX = 2
"""The time that a metrics scrape waits for the group coordinator, whose log may be slow to commit."""
OFFSETS_A_STEP = 16


class OffsetStatistics(msgspec.Struct, frozen=True, gc=False):
    """A committed offset. `lag` is None if neither this broker nor the partition's leader knows the log end in time."""

    topic: str
    partition: int
    offset: int
    lag: int | None


class GroupStatistics(msgspec.Struct, frozen=True, gc=False):
    """A group with the number of its members, and its committed offsets."""

    group_id: str
    members: int
    offsets: tuple[OffsetStatistics, ...]


class GroupsStatistics(msgspec.Struct, frozen=True):
    """All groups with their committed offsets, up to a limit, and the number of offsets that exceeded the limit.

    Groups are missing if their partition of `__consumer_offsets` is loading, offline, or slow to commit.
    """

    groups: tuple[GroupStatistics, ...]
    offsets_omitted: int


async def summarize(runtime: Runtime, replicas: Replicas, offsets_max: int) -> list[GroupSummaries]:
    """Return the summaries of the groups of each led partition, with at most `offsets_max` offsets in total."""
    found, left = list[GroupSummaries](), offsets_max
    with trio.move_on_after(GROUPS_S_MAX):
        for index in led(replicas):
            await trio.lowlevel.checkpoint()  # `ask_at` may use a whole time slice of the event loop
            try:
                summaries: GroupSummaries = await runtime.ask_at(index, SummarizeGroups(left)).wait()
            except ApiError:
                continue
            found.append(summaries)
            left -= summaries.cost
    return found


def led(replicas: Replicas) -> list[int]:
    """Return the partitions of `__consumer_offsets` that this broker leads."""
    try:
        topic = replicas.topic(GROUP_METADATA_TOPIC, NIL)
    except ApiError:
        return []
    return [index for index, partition in topic.partitions.items() if partition.is_leader]


def groups_statistics(
    found: list[GroupSummaries], replicas: Replicas, elsewhere: Mapping[TopicPartition, int]
) -> Steps[GroupsStatistics]:
    """Add to each committed offset its lag, the distance to the high watermark of its partition.

    `elsewhere` has the high watermarks of partitions without a replica on this broker.
    """
    groups = list[GroupStatistics]()
    for summaries in found:
        for group in summaries.groups:
            offsets = list[OffsetStatistics]()
            for place, (topic, partition, offset) in enumerate(group.offsets, 1):
                key = TopicPartition(topic, partition)
                end = log_end(replicas, key)
                if end is None:
                    end = elsewhere.get(key)
                lag = None if end is None else max(0, end - offset)
                offsets.append(OffsetStatistics(topic, partition, offset, lag))
                if place % OFFSETS_A_STEP == 0:
                    yield
            groups.append(GroupStatistics(group.group_id, group.members, tuple(offsets)))
            yield
    return GroupsStatistics(tuple(groups), sum(summaries.offsets_omitted for summaries in found))


def log_end(replicas: Replicas, key: TopicPartition) -> int | None:
    """Return the high watermark of a partition, or None if this broker has no replica in its ISR.

    A follower has the high watermark of its last fetch. Outside of the ISR it may be far behind.
    """
    image = replicas.metadata.topics.partition(*key)
    if image is None or replicas.broker.node_id not in image.isr:
        return None
    try:
        partition = replicas.partition(key)
    except ApiError:
        return None
    return partition.high_watermark if partition.is_online else None
