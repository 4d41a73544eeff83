"""OffsetFetch: a group's committed offsets. An unknown group or partition has offset -1."""

from __future__ import annotations

from pykbroker.core.group.offsets import Committed
from pykbroker.core.group.requests import FetchOffsets
from pykbroker.core.group.shard import Shard
from pykbroker.core.group.step import Step
from pykbroker.core.outcome import Token
from pykbroker.core.steps import Steps
from wire.declare import NIL
from wire.error_codes import ErrorCode
from wire.messages.offset_fetch import (
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from wire.sentinels import NO_OFFSET


def fetch_offsets(shard: Shard, request: FetchOffsets, token: Token, step: Step) -> Steps[None]:
    """Return the offsets of the requested partitions, or of all.

    With `require_stable`, a partition with an offset in an open transaction gets UNSTABLE_OFFSET_COMMIT.
    """
    group_id, topics = request.group.group_id, request.group.topics
    group = shard.groups.get(group_id)
    if group is not None:
        group.check_fetch(request.group.member_id, request.group.member_epoch)
    if topics is None:
        topics = [
            OffsetFetchRequestTopics(name=name, partition_indexes=list(partitions))
            for name, partitions in shard.offsets.of_group(group_id).items()
        ]
    response = OffsetFetchResponseGroup(group_id=group_id)
    for topic in topics:
        held = shard.offsets.of_group(group_id).get(topic.name, {})
        answers = []
        for partition in topic.partition_indexes:
            unstable = request.require_stable and shard.offsets.is_pending(group_id, topic.name, partition)
            answers.append(_answer(partition, topic.topic_id, held.get(partition), unstable))
            yield
        response.topics.append(OffsetFetchResponseTopics(topic.name, topic.topic_id, answers))
    step.reply(token, response)


def _answer(partition: int, topic_id: bytes, held: Committed | None, unstable: bool) -> OffsetFetchResponsePartitions:
    """Return the partition's offset. The offset of a deleted topic of the same name is not returned."""
    if unstable:
        return OffsetFetchResponsePartitions(partition, NO_OFFSET, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    if held is None or (topic_id != NIL and held.topic_id not in (NIL, topic_id)):
        return OffsetFetchResponsePartitions(partition, NO_OFFSET)
    return OffsetFetchResponsePartitions(partition, held.offset, held.leader_epoch, held.metadata)
