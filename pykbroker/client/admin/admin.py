"""A small admin client for the command line and the test fixture.

Each method imports its own messages, because a command uses one or two of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from pykbroker.client.connection import BrokerConnection
from pykbroker.core.config.resource import ConfigResource
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode, error_code
from wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from wire.sentinels import BROKER_DEFAULT

if TYPE_CHECKING:
    from wire.messages.describe_configs import DescribeConfigsResourceResult
    from wire.messages.describe_log_dirs import DescribeLogDirsResult
    from wire.messages.incremental_alter_configs import AlterableConfig

TIMEOUT_MS = 30_000
DELETE_BY_NAME_VERSION_LAST = 5
KNOWN_CODES = frozenset(ErrorCode)
Connect = Callable[[str, int], Awaitable[BrokerConnection]]


class TopicDescription(NamedTuple):
    """A topic as the cluster's metadata describes it."""

    name: str
    internal: bool
    partitions: Sequence[MetadataResponsePartition]

    @property
    def replication_factor(self) -> int:
        """Return the number of replicas of the first partition."""
        return len(self.partitions[0].replica_nodes) if self.partitions else 0


async def refuse_to_connect(host: str, port: int) -> BrokerConnection:
    """Raise ConnectionRefusedError. It is the `connect` of an admin client that uses one broker only."""
    raise ConnectionRefusedError(f"{host}:{port} is another broker of the cluster")


class Admin:
    """An admin client on one connection, which the caller closes.

    Its methods raise ApiError if the broker refuses a request. `connect` opens a connection to another broker of the
    cluster.
    """

    def __init__(self, connection: BrokerConnection, connect: Connect = refuse_to_connect) -> None:
        self.connection, self.connect = connection, connect

    async def topics(self, names: Sequence[str] | None = None) -> list[TopicDescription]:
        """Return the topics with these names, or all topics, sorted by name."""
        asked = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        answer = await self.connection.ask(request)
        return sorted((topic_of(topic) for topic in answer.topics), key=lambda topic: topic.name)

    async def create_topic(
        self, name: str, partitions: int, replicas: int | None = None, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic and wait until it can be used.

        -1 for `partitions` selects the broker's default, and so does -1 or None for `replicas`.
        """
        from wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

        wanted = [CreatableTopicConfig(name=config, value=value) for config, value in (configs or {}).items()]
        factor = BROKER_DEFAULT if replicas is None else replicas
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, configs=wanted)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
        answer = await self.connection.ask(request)
        for result in answer.topics:
            check(result.error_code, result.error_message)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and its records."""
        await self.delete_topics([name])

    async def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics and their records. ApiError: why the first of those that remain is not deleted."""
        from wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

        version = self.connection.newest_version(DeleteTopicsRequest.key)
        request = DeleteTopicsRequest(timeout_ms=TIMEOUT_MS)
        if version <= DELETE_BY_NAME_VERSION_LAST:
            request.topic_names = list(names)
        else:
            request.topics = [DeleteTopicState(name=name) for name in names]
        answer = await self.connection.ask(request, version)
        for result in answer.responses:
            reason = f": {result.error_message}" if result.error_message else ""
            check(result.error_code, f"Topic '{result.name}'{reason}")

    async def create_partitions(self, name: str, count: int) -> None:
        """Raise the number of a topic's partitions to `count`."""
        from wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic

        request = CreatePartitionsRequest([CreatePartitionsTopic(name, count, None)], TIMEOUT_MS)
        for result in (await self.connection.ask(request)).results:
            message = result.error_message or ""
            check(result.error_code, message if name in message else f"Topic '{name}': {message}".removesuffix(": "))

    async def configs(
        self, resource_type: int, name: str, *, synonyms: bool = False
    ) -> list[DescribeConfigsResourceResult]:
        """Return all configs of one resource, sorted by name, with their synonyms if these are asked for.

        The broker name "" stands for the defaults of all brokers.
        """
        from wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

        resource = DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=None)
        async with self._broker_of(resource_type, name) as connection:
            answer = await connection.ask(DescribeConfigsRequest([resource], include_synonyms=synonyms))
        for result in answer.results:
            check(result.error_code, result.error_message or f"Configs of '{name}'")
        return sorted((each for result in answer.results for each in result.configs), key=lambda each: each.name)

    async def alter_configs(
        self, resource_type: int, name: str, changes: Sequence[AlterableConfig], *, validate_only: bool = False
    ) -> None:
        """Make all of these config changes, or none if one is refused."""
        from wire.messages.incremental_alter_configs import AlterConfigsResource, IncrementalAlterConfigsRequest

        resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=list(changes))
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
        async with self._broker_of(resource_type, name) as connection:
            answer = await connection.ask(request)
        for result in answer.responses:
            check(result.error_code, result.error_message)

    @asynccontextmanager
    async def _broker_of(self, resource_type: int, name: str) -> AsyncIterator[BrokerConnection]:
        """Yield the connection to the broker that is the resource. For other resources, any broker will do."""
        from pykbroker.client.brokers import Brokers

        brokers = Brokers(self)
        try:
            of_one = name and resource_type in (ConfigResource.BROKER, ConfigResource.BROKER_LOGGER)
            yield await brokers.of(int(name)) if of_one else self.connection
        finally:
            brokers.close()

    async def log_dirs(self) -> list[DescribeLogDirsResult]:
        """Return the broker's log directories and their partitions. A failed log directory has an error code."""
        from wire.messages.describe_log_dirs import DescribeLogDirsRequest

        answer = await self.connection.ask(DescribeLogDirsRequest(topics=None))
        check(answer.error_code, None)
        return answer.results


def topic_of(described: MetadataResponseTopic) -> TopicDescription:
    """Return the description of a topic. Raise ApiError if the response has an error code for it."""
    name = described.name or ""
    check(described.error_code, f"Topic '{name}'")
    partitions = sorted(described.partitions, key=lambda partition: partition.partition_index)
    return TopicDescription(name, described.is_internal, partitions)


def check(number: int, message: str | None) -> None:
    """Raise ApiError with this message unless the error code is 0."""
    if number:
        code = error_code(number)
        raise ApiError(code, f"{message} ({code.name})" if message else None)


def refusal(partition: TopicPartition, number: int, reason: str) -> ApiError | None:
    """Return the error of a partition as a sentence that names the partition, or None for the code 0."""
    try:
        check(number, f"{partition}: {reason}")
    except ApiError as error:
        return error
    return None


def error_name(number: int) -> str:
    """Return Kafka's name of an error code."""
    return ErrorCode(number).name if number in KNOWN_CODES else f"error {number}"
