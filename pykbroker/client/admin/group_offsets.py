"""The committed offsets of a group: reading, committing and deleting them without being a member."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from pykbroker.client.connection import BrokerConnection
from pykbroker.client.group_coordinators import GroupCoordinators, is_retriable, refusal
from pykbroker.core.consumer.position import CommittedOffset
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition, indexes_by_topic
from wire.api import ApiKey
from wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponseTopic,
)
from wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponseTopic,
)
from wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

GROUPS_VERSION = 8
"""The first version of OffsetFetch with several groups."""
NAMES_VERSION_LAST = 9
"""The last version of OffsetFetch and OffsetCommit with names of topics instead of ids."""

CommittedTexts = dict[TopicPartition, CommittedOffset]
"""The committed offsets of a group, with their texts."""
PartitionErrors = dict[TopicPartition, ApiError | None]
"""The outcome for each partition: None, or why the coordinator has refused."""


async def committed_offsets(coordinators: GroupCoordinators, group: str) -> dict[TopicPartition, int]:
    """Return the committed offsets of a group as numbers. Errors are those of `committed_with_text`."""
    found = await committed_with_text(coordinators, group)
    return {partition: each.offset for partition, each in found.items()}


async def committed_with_text(coordinators: GroupCoordinators, group: str) -> dict[TopicPartition, CommittedOffset]:
    """Return the committed offsets of a group. A group that does not exist has none.

    Offsets of open transactions are not waited for. Raise ApiError if the coordinator refuses. A partition that it
    refuses has no offset.
    """

    async def fetch(connection: BrokerConnection, groups: list[str]) -> dict[str, CommittedTexts | ApiError]:
        version = min(connection.newest_version(ApiKey.OFFSET_FETCH), NAMES_VERSION_LAST)
        topics: Sequence[OffsetFetchResponseTopic | OffsetFetchResponseTopics]
        if version >= GROUPS_VERSION:
            asked = [OffsetFetchRequestGroup(group, topics=None)]
            (found,) = (await connection.ask(OffsetFetchRequest(groups=asked), version)).groups
            topics, error_code = found.topics, found.error_code
        else:
            answer = await connection.ask(OffsetFetchRequest(group_id=group, topics=None), version)
            topics, error_code = answer.topics, answer.error_code
        if error_code:
            return {group: refusal(group, error_code)}
        return {
            group: {
                TopicPartition(topic.name, part.partition_index): CommittedOffset(
                    part.committed_offset, part.committed_leader_epoch, part.metadata or ""
                )
                for topic in topics
                for part in topic.partitions
                if part.committed_offset >= 0 and not part.error_code
            }
        }

    found = (await coordinators.ask([group], fetch))[group]
    if isinstance(found, ApiError):
        raise found
    return found


async def commit_offsets(
    coordinators: GroupCoordinators, group: str, offsets: Mapping[TopicPartition, int]
) -> PartitionErrors:
    """Commit offsets for a group without members. Return the outcome for each partition."""
    by_topic = defaultdict[str, list[OffsetCommitRequestPartition]](list)
    for (topic, index), offset in offsets.items():
        by_topic[topic].append(OffsetCommitRequestPartition(index, offset))
    request = OffsetCommitRequest(
        group, topics=[OffsetCommitRequestTopic(name, partitions=parts) for name, parts in by_topic.items()]
    )

    async def commit(connection: BrokerConnection, groups: list[str]) -> dict[str, PartitionErrors | ApiError]:
        version = min(connection.newest_version(ApiKey.OFFSET_COMMIT), NAMES_VERSION_LAST)
        answer = await connection.ask(request, version)
        return {group: outcome(group, answer.topics)}

    return of_all(offsets, (await coordinators.ask([group], commit))[group])


async def delete_offsets(
    coordinators: GroupCoordinators, group: str, partitions: Iterable[TopicPartition]
) -> PartitionErrors:
    """Delete committed offsets of a group in topics without subscription. Return the outcome for each partition."""
    partitions = list(partitions)
    topics = [
        OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(index) for index in indexes])
        for topic, indexes in indexes_by_topic(partitions).items()
    ]
    request = OffsetDeleteRequest(group, topics)

    async def delete(connection: BrokerConnection, groups: list[str]) -> dict[str, PartitionErrors | ApiError]:
        answer = await connection.ask(request)
        if answer.error_code:
            return {group: refusal(group, answer.error_code)}
        return {group: outcome(group, answer.topics)}

    return of_all(partitions, (await coordinators.ask([group], delete))[group])


def outcome(
    group: str, topics: Iterable[OffsetCommitResponseTopic | OffsetDeleteResponseTopic]
) -> PartitionErrors | ApiError:
    """Return the outcome for each partition, or one error if the coordinator moves or loads."""
    errors = {
        TopicPartition(topic.name, part.partition_index): refusal(group, part.error_code) if part.error_code else None
        for topic in topics
        for part in topic.partitions
    }
    return next((error for error in errors.values() if error and is_retriable(error)), errors)


def of_all(partitions: Iterable[TopicPartition], found: PartitionErrors | ApiError) -> PartitionErrors:
    """Return the outcome for each partition, which is that of the whole request if this was refused."""
    return dict.fromkeys(partitions, found) if isinstance(found, ApiError) else found
