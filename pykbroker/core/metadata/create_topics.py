"""CreateTopics: validate each topic of a request, and create the valid ones in one batch.

Records are in Kafka's order: TopicRecord, ConfigRecords, ClearElrRecord if min.insync.replicas is set,
PartitionRecords. Error messages are Kafka's, because tools match them.
"""

from __future__ import annotations

from collections import Counter

from pykbroker.core.errors import ApiError
from pykbroker.core.ids import new_id
from pykbroker.core.metadata.context import ELR_FEATURE, ControllerContext, Deciding
from pykbroker.core.metadata.image import TOPIC_RESOURCE
from pykbroker.core.metadata.placement import check_assignment, partition_records, place
from pykbroker.core.metadata.record import Record
from pykbroker.core.names import CLUSTER_METADATA_TOPIC, check_topic_name, collision_key
from pykbroker.core.steps import Steps
from wire.error_codes import ErrorCode
from wire.messages.create_topics import CreatableTopic, CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from wire.sentinels import BROKER_DEFAULT
from wire.stored.metadata_settings import ConfigRecord
from wire.stored.metadata_topics import ClearElrRecord, TopicRecord

PARTITIONS_MAX = 10_000
"""The largest number of partitions in one request, summed over all topics, including topics that fail validation."""


def create_topics(context: ControllerContext, request: CreateTopicsRequest) -> Deciding:
    """Return the metadata records and the response. With validate_only there are no records.

    Raise ApiError POLICY_VIOLATION if the topics have more than `PARTITIONS_MAX` partitions in total.
    """
    if sum(_partitions(context, topic) for topic in request.topics) > PARTITIONS_MAX:
        raise ApiError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    times = Counter(topic.name for topic in request.topics)
    creation = _Creation(context)
    results = []
    for topic in request.topics:
        if times[topic.name] == 1:
            try:
                results.append((yield from creation.create(topic)))
            except ApiError as error:
                results.append(_refused(topic.name, error.code, error.message))
        yield
    results += [
        _refused(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.") for name, count in times.items() if count > 1
    ]
    return [] if request.validate_only else creation.records, CreateTopicsResponse(topics=results)


def _partitions(context: ControllerContext, topic: CreatableTopic) -> int:
    """Return how many partitions the topic would have."""
    if topic.assignments:
        return len(topic.assignments)
    return context.settings.num_partitions if topic.num_partitions == BROKER_DEFAULT else max(0, topic.num_partitions)


def _refused(name: str, code: ErrorCode, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=code, error_message=message)


class _Creation:
    """The records of one request, topic by topic."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self.records: list[Record] = []
        self._partitions = context.draft.partition_count
        self._claimed: dict[str, str] = {}  # `names.collision_key` -> topic
        ignores_case = context.settings.ignores_case
        self._in_lower_case = {name.lower(): name for name in context.draft.names} if ignores_case else {}

    def create(self, topic: CreatableTopic) -> Steps[CreatableTopicResult]:
        """Add the records of a topic. Raise ApiError without adding any if the topic is invalid."""
        context, name = self._context, topic.name
        _check_name(context, name, self._claimed)
        if other := self._in_lower_case.get(name.lower()):
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' differs from existing topic {other} only in case, which the file system ignores",
            )
        configs = _configs(context, topic)
        assignment = yield from (_by_hand(context, topic) if topic.assignments else _placed(context, topic))
        context.settings.descriptors.check_room(self._partitions, len(assignment))
        self._partitions += len(assignment)
        topic_id = new_id(context.randomness)
        self.records.append(TopicRecord(name=name, topic_id=topic_id))
        self.records += [
            ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=name, name=config, value=value)
            for config, value in configs.items()
        ]
        # The members of an ELR depend on this config, so Kafka clears it with each change (KIP-966).
        if "min.insync.replicas" in configs and context.feature(ELR_FEATURE):
            self.records.append(ClearElrRecord(topic_name=name))
        self.records += yield from partition_records(context, topic_id, 0, assignment)
        if (key := collision_key(name)) is not None:
            self._claimed[key] = name
        if context.settings.ignores_case:
            self._in_lower_case[name.lower()] = name
        return CreatableTopicResult(
            name=name,
            topic_id=topic_id,
            error_message=None,
            num_partitions=len(assignment),
            replication_factor=len(assignment[0]),
            configs=context.configs.describe(configs, context.dynamic),
        )


def _check_name(context: ControllerContext, name: str, claimed: dict[str, str]) -> None:
    check_topic_name(name)
    if name == CLUSTER_METADATA_TOPIC:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    if name in context.draft.names:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    key = collision_key(name) or ""
    if other := context.draft.collisions.get(key) or claimed.get(key):
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")


def _configs(context: ControllerContext, topic: CreatableTopic) -> dict[str, str]:
    if nulls := [config.name for config in topic.configs if config.value is None]:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}")
    configs = {config.name: config.value for config in topic.configs if config.value is not None}
    if configs:
        context.configs.validate(configs, context.dynamic)
    return configs


def _by_hand(context: ControllerContext, topic: CreatableTopic) -> Steps[list[list[int]]]:
    if topic.replication_factor != BROKER_DEFAULT:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        )
    if topic.num_partitions != BROKER_DEFAULT:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    chosen: dict[int, list[int]] = {}
    replicas = None
    for partition in topic.assignments:
        if partition.partition_index in chosen:
            raise _bad_assignment(
                f"Found multiple manual partition assignments for partition {partition.partition_index}"
            )
        check_assignment(context, partition.partition_index, partition.broker_ids, replicas)
        replicas = len(partition.broker_ids)
        chosen[partition.partition_index] = partition.broker_ids
        yield
    if chosen.keys() != set(range(len(chosen))):
        raise _bad_assignment("partitions should be a consecutive 0-based integer sequence")
    return [chosen[index] for index in range(len(chosen))]


def _bad_assignment(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _placed(context: ControllerContext, topic: CreatableTopic) -> Steps[list[list[int]]]:
    if topic.replication_factor < BROKER_DEFAULT or topic.replication_factor == 0:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions < BROKER_DEFAULT or topic.num_partitions == 0:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    settings = context.settings
    partitions = settings.num_partitions if topic.num_partitions == BROKER_DEFAULT else topic.num_partitions
    replicas = (
        settings.default_replication_factor if topic.replication_factor == BROKER_DEFAULT else topic.replication_factor
    )
    return (yield from place(context, partitions, replicas))
