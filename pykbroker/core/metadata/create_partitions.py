"""CreatePartitions: add partitions to topics. Existing partitions keep their indexes; partitions are never removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.context import RECORDS_MAX, ControllerContext, Deciding, excessive
from pykbroker.core.metadata.image import TopicImage
from pykbroker.core.metadata.placement import check_assignment, partition_records, place
from pykbroker.core.metadata.record import Record
from pykbroker.core.names import CLUSTER_METADATA_TOPIC
from pykbroker.core.steps import Steps
from wire.error_codes import ErrorCode
from wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


def create_partitions(context: ControllerContext, request: CreatePartitionsRequest) -> Deciding:
    """Return the metadata records and the response. Each topic has its own result.

    A topic that would exceed the limit of records or of open partitions gets POLICY_VIOLATION.
    """
    times = Counter(topic.name for topic in request.topics)
    records: list[Record] = []
    results = [
        CreatePartitionsTopicResult(
            name=name, error_code=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name."
        )
        for name, count in times.items()
        if count > 1
    ]
    for topic in request.topics:
        if times[topic.name] == 1:
            result = CreatePartitionsTopicResult(name=topic.name)
            try:
                if len(records) + _growth(context, topic) > RECORDS_MAX:  # checked before the list is built
                    raise excessive()
                added = yield from _grow(context, topic)
                context.settings.descriptors.check_room(context.draft.partition_count + len(records), len(added))
                records += added
            except ApiError as error:
                result.error_code, result.error_message = error.code, error.message
            results.append(result)
        yield
    return [] if request.validate_only else records, CreatePartitionsResponse(results=results)


def _growth(context: ControllerContext, wanted: CreatePartitionsTopic) -> int:
    """Return how many partitions the controller would have to place for this topic."""
    topic = context.draft.names.get(wanted.name)
    return 0 if topic is None or wanted.assignments is not None else max(0, wanted.count - len(topic.partitions))


def _grow(context: ControllerContext, wanted: CreatePartitionsTopic) -> Steps[Sequence[Record]]:
    topic = context.draft.names.get(wanted.name)
    if wanted.name == CLUSTER_METADATA_TOPIC:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    count = len(topic.partitions)
    if wanted.count == count:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {count} partition(s).")
    if wanted.count < count:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {count} partition(s); {wanted.count} would not be an increase.",
        )
    return (yield from partition_records(context, topic.id, count, (yield from _assignment(context, topic, wanted))))


def _assignment(context: ControllerContext, topic: TopicImage, wanted: CreatePartitionsTopic) -> Steps[list[list[int]]]:
    count = len(topic.partitions)
    replicas = len(topic.partitions[0].replicas)
    if wanted.assignments is None:
        return (yield from place(context, wanted.count - count, replicas))
    if len(wanted.assignments) != wanted.count - count:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {wanted.count - count} additional "
            f"partition(s), but only {len(wanted.assignments)} assignment(s) were specified.",
        )
    for index, assignment in enumerate(wanted.assignments, count):
        check_assignment(context, index, assignment.broker_ids, replicas)
        yield
    return [assignment.broker_ids for assignment in wanted.assignments]
