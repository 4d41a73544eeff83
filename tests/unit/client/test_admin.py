"""Tests of the admin client: its requests, and its interpretation of responses."""

from __future__ import annotations

from typing import Any

import pytest

from pykbroker.client.admin.admin import Admin
from pykbroker.core.config.resource import ConfigResource
from pykbroker.core.errors import ApiError
from wire.declare import Request, Response
from wire.error_codes import ErrorCode
from wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from wire.messages.describe_configs import DescribeConfigsResourceResult, DescribeConfigsResponse, DescribeConfigsResult
from wire.messages.describe_log_dirs import DescribeLogDirsResponse, DescribeLogDirsResult
from wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


class Broker:
    """A fake connection that keeps the last request and returns one response."""

    def __init__(self, answer: Response, version: int = 99) -> None:
        self.answer, self.version = answer, version
        self.versions = {answer.key: version}
        self.asked: Any = None

    def newest_version(self, key: int) -> int:
        return self.version

    async def ask(self, request: Request[Any], version: int | None = None) -> Response:
        assert self.answer.key == request.key
        self.asked = request
        return self.answer


def admin(broker: Broker) -> Admin:
    return Admin(broker)  # type: ignore[arg-type]


async def test_topics_and_partitions_are_sorted() -> None:
    partitions = [MetadataResponsePartition(partition_index=index, replica_nodes=[1, 2]) for index in (1, 0)]
    broker = Broker(
        MetadataResponse(
            topics=[
                MetadataResponseTopic(name="b", is_internal=True),
                MetadataResponseTopic(name="a", partitions=partitions),
            ]
        )
    )
    first, second = await admin(broker).topics()
    assert broker.asked.topics is None
    assert not broker.asked.allow_auto_topic_creation
    assert (first.name, [p.partition_index for p in first.partitions], first.replication_factor) == ("a", [0, 1], 2)
    assert (second.name, second.internal, second.replication_factor) == ("b", True, 0)


async def test_an_unknown_topic_raises_an_error_that_names_the_topic() -> None:
    broker = Broker(MetadataResponse(topics=[MetadataResponseTopic(name="a", error_code=3)]))
    with pytest.raises(ApiError, match=r"Topic 'a' \(UNKNOWN_TOPIC_OR_PARTITION\)"):
        await admin(broker).topics(["a"])
    assert [topic.name for topic in broker.asked.topics] == ["a"]


async def test_a_topic_is_created_with_its_configs() -> None:
    broker = Broker(CreateTopicsResponse(topics=[CreatableTopicResult(name="a")]))
    await admin(broker).create_topic("a", 3, -1, {"retention.ms": "5"})
    (topic,) = broker.asked.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("a", 3, -1)
    assert [(config.name, config.value) for config in topic.configs] == [("retention.ms", "5")]


async def test_a_refused_request_raises_the_brokers_error_message() -> None:
    refusal = CreatableTopicResult(name="a", error_code=36, error_message="Topic 'a' already exists.")
    with pytest.raises(ApiError, match=r"Topic 'a' already exists\. \(TOPIC_ALREADY_EXISTS\)") as caught:
        await admin(Broker(CreateTopicsResponse(topics=[refusal]))).create_topic("a", 1, 1, {})
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


async def test_an_unknown_error_code_raises_unknown_server_error() -> None:
    broker = Broker(CreateTopicsResponse(topics=[CreatableTopicResult(error_code=9999, error_message=None)]))
    with pytest.raises(ApiError, match="UNKNOWN_SERVER_ERROR"):
        await admin(broker).create_topic("a", 1, 1, {})


@pytest.mark.parametrize(("version", "names", "states"), [(5, ["a"], []), (6, [], ["a"])])
async def test_delete_topic_names_the_topic_in_every_request_version(
    version: int, names: list[str], states: list[str]
) -> None:
    broker = Broker(DeleteTopicsResponse(responses=[DeletableTopicResult(name="a")]), version)
    await admin(broker).delete_topic("a")
    assert broker.asked.topic_names == names
    assert [state.name for state in broker.asked.topics] == states
    for reason, text in ((None, ""), ("No such topic.", r": No such topic\.")):
        broker.answer = DeleteTopicsResponse(responses=[DeletableTopicResult("a", error_code=3, error_message=reason)])
        with pytest.raises(ApiError, match=rf"Topic 'a'{text} \(UNKNOWN_TOPIC_OR_PARTITION\)"):
            await admin(broker).delete_topic("a")


async def test_configs_are_sorted_by_name() -> None:
    configs = [DescribeConfigsResourceResult(name="segment.ms"), DescribeConfigsResourceResult(name="retention.ms")]
    broker = Broker(DescribeConfigsResponse(results=[DescribeConfigsResult(configs=configs)]))
    assert [each.name for each in await admin(broker).configs(2, "a")] == ["retention.ms", "segment.ms"]
    (asked,) = broker.asked.resources
    assert (asked.resource_type, asked.resource_name, asked.configuration_keys) == (2, "a", None)
    broker.answer = DescribeConfigsResponse(results=[DescribeConfigsResult(3, "No such topic.")])
    with pytest.raises(ApiError, match=r"No such topic\. \(UNKNOWN_TOPIC_OR_PARTITION\)"):
        await admin(broker).configs(2, "a")
    broker.answer = DescribeConfigsResponse(results=[DescribeConfigsResult(3, None)])
    with pytest.raises(ApiError, match=r"Configs of 'a' \(UNKNOWN_TOPIC_OR_PARTITION\)"):
        await admin(broker).configs(2, "a")


class Member(Broker):
    """A broker of a cluster, which also answers Metadata, and whose connection can be closed."""

    closed = False

    async def ask(self, request: Request[Any], version: int | None = None) -> Response:
        if isinstance(request, MetadataRequest):
            return MetadataResponse(brokers=[MetadataResponseBroker(one, f"b{one}", 9092) for one in (1, 2)])
        return await super().ask(request, version)

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("kind", [ConfigResource.BROKER, ConfigResource.BROKER_LOGGER])
async def test_the_configs_and_log_levels_of_a_broker_are_asked_from_that_broker(kind: ConfigResource) -> None:
    first, second = (Member(DescribeConfigsResponse(results=[])) for _ in range(2))

    async def connect(host: str, port: int) -> Any:
        assert (host, port) == ("b2", 9092)
        return second

    client = Admin(first, connect)  # type: ignore[arg-type]
    await client.configs(kind, "2")
    assert (first.asked, second.asked.resources[0].resource_name, second.closed) == (None, "2", True)
    second.answer = IncrementalAlterConfigsResponse(responses=[])
    await client.alter_configs(kind, "2", [])
    assert (first.asked, second.asked.resources[0].resource_name) == (None, "2")
    with pytest.raises(ApiError, match="there is no broker 7: the brokers that run are 1, 2"):
        await client.configs(kind, "7")
    await client.configs(ConfigResource.TOPIC, "a")
    assert first.asked.resources[0].resource_name == "a"


async def test_a_refused_alteration_raises_the_brokers_error_message() -> None:
    broker = Broker(IncrementalAlterConfigsResponse(responses=[AlterConfigsResourceResponse()]))
    change = AlterableConfig("retention.ms", 0, "5")
    await admin(broker).alter_configs(4, "", [change], validate_only=True)
    (asked,) = broker.asked.resources
    assert (asked.resource_type, asked.resource_name, asked.configs) == (4, "", [change])
    assert broker.asked.validate_only
    broker.answer = IncrementalAlterConfigsResponse(responses=[AlterConfigsResourceResponse(40, "Not a number.")])
    with pytest.raises(ApiError, match=r"Not a number\. \(INVALID_CONFIG\)"):
        await admin(broker).alter_configs(2, "a", [change])


async def test_a_failed_log_directory_does_not_fail_the_request() -> None:
    failed = DescribeLogDirsResult(56, "/d")
    broker = Broker(DescribeLogDirsResponse(results=[failed]))
    assert await admin(broker).log_dirs() == [failed]
    assert broker.asked.topics is None
    broker.answer = DescribeLogDirsResponse(error_code=31)
    with pytest.raises(ApiError, match="CLUSTER_AUTHORIZATION_FAILED"):
        await admin(broker).log_dirs()
