"""Deletion of offsets and groups: OffsetDelete, DeleteGroups, deleted topics, and retention."""

from __future__ import annotations

from pykbroker.core.coordinator.record import CoordinatorRecord
from pykbroker.core.errors import ApiError
from pykbroker.core.group.group import Group
from pykbroker.core.group.offsets import Committed
from pykbroker.core.group.requests import ClientRequest, ForgetTopics
from pykbroker.core.group.shard import Due, Shard
from pykbroker.core.group.step import Step
from pykbroker.core.outcome import Token
from pykbroker.core.steps import Steps
from wire.error_codes import ErrorCode
from wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from wire.sentinels import NO_TIMESTAMP
from wire.stored.group_offsets import OffsetCommitKey

EXPIRY, FORGETTING = "expiry", "forgetting"
"""Kinds of deadlines: the next search for expired offsets, and the search for offsets of deleted topics."""
OFFSETS_MAX = 2000
"""The number of offsets that are checked before other tasks may run."""


def delete_offsets(shard: Shard, client_request: ClientRequest, token: Token, step: Step) -> Steps[None]:
    """Handle OffsetDelete. In a group with members, topics to which a member subscribes are refused."""
    request: OffsetDeleteRequest = client_request.message
    group = shard.groups.get(request.group_id)
    if group is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
    if group.offset_delete_error:
        raise ApiError(group.offset_delete_error)
    response = OffsetDeleteResponse()
    for topic in request.topics:
        read = group.subscribes(topic.name) and bool(group.members)
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if read else ErrorCode.NONE
        answer = OffsetDeleteResponseTopic(topic.name)
        response.topics.append(answer)
        for one in topic.partitions:
            index = one.partition_index
            answer.partitions.append(OffsetDeleteResponsePartition(index, code))
            if not read and (
                shard.offsets.get(group.id, topic.name, index) is not None
                or shard.offsets.is_pending(group.id, topic.name, index)
            ):
                step.write(tombstone(group.id, topic.name, index))
            yield
    step.reply(token, response)


def delete_groups(shard: Shard, client_request: ClientRequest, token: Token, step: Step) -> Steps[None]:
    """Handle DeleteGroups: delete each group with all its offsets."""
    request: DeleteGroupsRequest = client_request.message
    response = DeleteGroupsResponse()
    for group_id in dict.fromkeys(request.groups_names):
        group = shard.groups.get(group_id)
        code = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.delete_error
        response.results.append(DeletableGroupResult(group_id, code))
        if group is not None and not code:
            for topic, partition in shard.offsets.partitions(group_id):
                step.write(tombstone(group_id, topic, partition))
                yield
            _delete(group, step)
    step.reply(token, response)


def forget_topics(shard: Shard, notice: ForgetTopics, token: Token, step: Step) -> None:
    """Schedule the deletion of all offsets of deleted topics. The request has no reply."""
    shard.deleted_topics |= notice.topics
    shard.groups_to_clean = shard.offsets.groups()
    shard.timers.set(Due(FORGETTING), step.now_ms)


def forgetting_due(shard: Shard, due: Due, step: Step) -> None:
    """Delete the offsets of deleted topics in some groups."""
    looked = 0
    while shard.groups_to_clean and looked < OFFSETS_MAX:
        group_id = shard.groups_to_clean.pop()
        for topic, partition in shard.offsets.partitions(group_id):
            looked += 1
            if topic in shard.deleted_topics:
                step.write(tombstone(group_id, topic, partition))
    if shard.groups_to_clean:
        shard.timers.set(due, step.now_ms)
    else:
        shard.deleted_topics = frozenset()


def expiry_due(shard: Shard, due: Due, step: Step) -> None:
    """Expire offsets in some groups. After all groups, the next round begins after the check interval."""
    if not shard.groups_to_expire:
        shard.groups_to_expire = list(reversed(shard.groups))
    looked = 0
    while shard.groups_to_expire and looked < OFFSETS_MAX:
        group = shard.groups.get(shard.groups_to_expire.pop())
        if group is not None:
            looked += 1 + _expire(shard, group, step)
    wait_ms = 0 if shard.groups_to_expire else shard.settings.offsets_retention_check_interval_ms
    shard.timers.set(due, step.now_ms + wait_ms)


def _expire(shard: Shard, group: Group, step: Step) -> int:
    """Delete the group's expired offsets, and the group if nothing is left. Return how many offsets were checked."""
    looked = kept = 0
    for topic, partitions in shard.offsets.of_group(group.id).items():
        read = group.subscribes(topic)
        for partition, committed in partitions.items():
            looked += 1
            if (
                read
                or not _has_expired(group, committed, shard.settings.offsets_retention_ms, step.wall_ms)
                or shard.offsets.is_pending(group.id, topic, partition)
            ):
                kept += 1
            else:
                step.write(tombstone(group.id, topic, partition))
    if not kept and not shard.offsets.has_pending(group.id) and not group.delete_error and not group.pending:
        _delete(group, step)
    return looked


def _has_expired(group: Group, committed: Committed, retention_ms: int, wall_ms: int) -> bool:
    """Whether the offset's own expiry time, or the broker's retention, has passed."""
    if committed.expire_ms != NO_TIMESTAMP:
        return wall_ms >= committed.expire_ms
    since_ms = group.retained_since_ms(committed.commit_ms)
    return since_ms is not None and wall_ms - since_ms >= retention_ms


def _delete(group: Group, step: Step) -> None:
    for record in group.tombstones():
        step.write(record)


def tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    """Return the record that deletes the partition's offset."""
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)
