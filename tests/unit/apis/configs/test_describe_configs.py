"""DescribeConfigs: every resource in every version, with the responses of Apache Kafka 4.3.1 for the same configs."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from pykbroker.apis.configs.describe_configs import DescribeConfigs
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.docs import documentation
from pykbroker.core.config.entries import Source
from pykbroker.core.config.live_config import LiveConfig
from pykbroker.core.config.sheet import size
from pykbroker.core.config.type import Type
from pykbroker.core.metadata.image import CLUSTER_DEFAULT, ConfigsImage, MetadataImage
from pykbroker.core.security.operation import Operation
from tests.unit.apis.calling import Denies, context
from tests.unit.apis.conftest import Client, serving
from wire.error_codes import ErrorCode
from wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

KAFKA = json.loads((Path(__file__).parents[3] / "data/config/kafka-4.3.1-described.json").read_text())
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


def asking(kind: int, name: str, *keys: str, **fields: Any) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(resources=[DescribeConfigsResource(kind, name, list(keys) or None)], **fields)


async def ask(
    client: Client, kind: int, name: str, *keys: str, version: int = 4, **fields: Any
) -> DescribeConfigsResult:
    (result,) = (await client.call(asking(kind, name, *keys, **fields), version)).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    answer: DescribeConfigsResult = result
    return answer


async def configs(
    client: Client, kind: int, name: str, *keys: str, **fields: Any
) -> dict[str, DescribeConfigsResourceResult]:
    result = await ask(client, kind, name, *keys, **fields)
    assert (result.error_code, result.error_message) == (0, "")
    return {one.name: one for one in result.configs}


def observed(one: DescribeConfigsResourceResult) -> dict[str, Any]:
    """Return a described config in the form of the JSON file with Kafka's responses."""
    described: dict[str, Any] = {
        "value": one.value,
        "type": Type(one.config_type).name,
        "source": Source(one.config_source).name,
        "readOnly": one.read_only,
        "sensitive": one.is_sensitive,
    }
    if one.synonyms:
        described["synonyms"] = [
            f"{synonym.name}={'null' if synonym.value is None else synonym.value}@{Source(synonym.source).name}"
            for synonym in one.synonyms
        ]
    return described


@pytest.mark.parametrize("version", range(1, 5))
async def test_every_version_describes_a_topics_configs(client: Client, version: int) -> None:
    await client.create("b", retention_ms="1000")
    found = await configs(client, TOPIC, "b", version=version)
    assert set(found) == set(KAFKA["TOPIC"])
    retention, segment = found["retention.ms"], found["segment.bytes"]
    assert (retention.value, retention.config_source) == ("1000", Source.DYNAMIC_TOPIC_CONFIG)
    assert (segment.value, segment.config_source) == ("1073741824", Source.DEFAULT_CONFIG)
    assert (retention.synonyms, retention.is_sensitive, retention.read_only) == ([], False, False)
    assert retention.config_type == (Type.LONG if version >= 3 else Type.UNKNOWN)
    assert retention.documentation == (None if version >= 3 else "")


@pytest.mark.parametrize("version", range(1, 5))
async def test_every_version_describes_the_brokers_configs(client: Client, version: int) -> None:
    found = await configs(client, BROKER, "1", version=version, include_synonyms=True)
    assert {name for name, one in KAFKA["BROKER"].items() if one["type"] != "UNKNOWN"} <= set(found)
    node, retention = found["node.id"], found["log.retention.hours"]
    assert (node.value, node.config_source, node.read_only) == ("1", Source.STATIC_BROKER_CONFIG, True)
    assert [vars_of(synonym) for synonym in retention.synonyms] == [
        ("log.retention.hours", "168", Source.DEFAULT_CONFIG)
    ]


def vars_of(synonym: Any) -> tuple[str, str | None, int]:
    return synonym.name, synonym.value, synonym.source


async def test_only_the_requested_configs_are_described(client: Client) -> None:
    assert list(await configs(client, TOPIC, "a", "retention.ms", "nope")) == ["retention.ms"]
    assert await configs(client, BROKER, "1", "nope") == {}


async def test_an_empty_list_of_names_requests_all_configs(client: Client) -> None:
    request = asking(GROUP, "g")
    request.resources[0].configuration_keys = []
    (result,) = (await client.call(request, 4)).results
    assert {one.name for one in result.configs} == set(KAFKA["GROUP"])


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize(("kind", "name"), [(TOPIC, "a"), (BROKER, "1"), (CLIENT_METRICS, "m"), (GROUP, "g")])
async def test_documentation_is_returned_on_request(client: Client, kind: int, name: str, version: int) -> None:
    silent = await configs(client, kind, name, version=version)
    found = await configs(client, kind, name, version=version, include_documentation=True)
    assert {one.documentation for one in silent.values()} == {None}
    assert {config: one.documentation for config, one in found.items()} == {one: documentation(one) for one in silent}
    assert [one.name for one in found.values() if not one.documentation] == []


async def test_an_unknown_config_has_no_documentation(tmp_path: Path) -> None:
    async with serving(tmp_path, nobody_knows="x") as local_broker:
        client = await local_broker.connect()
        found = await configs(client, BROKER, "1", "nobody.knows", include_documentation=True)
        assert found["nobody.knows"].documentation == ""


async def test_loggers_have_no_documentation(client: Client) -> None:
    found = await configs(client, BROKER_LOGGER, "1", include_documentation=True)
    assert {one.documentation for one in found.values()} == {""}


@pytest.mark.parametrize(
    ("unit", "source", "synonyms"),
    [
        (
            "ms",
            Source.STATIC_BROKER_CONFIG,
            [
                ("log.retention.ms", "300000", Source.STATIC_BROKER_CONFIG),
                ("log.retention.hours", "168", Source.DEFAULT_CONFIG),
            ],
        ),
        ("minutes", Source.DEFAULT_CONFIG, []),
    ],
)  # As in Kafka, an unset config has no synonyms.
async def test_a_topic_config_has_the_static_broker_config_as_synonym(
    tmp_path: Path, unit: str, source: Source, synonyms: list[tuple[str, str, int]]
) -> None:
    given = {f"log_retention_{unit}": "300000" if unit == "ms" else "5"}
    async with serving(tmp_path, topics=(("a", 1),), **given) as local_broker:
        client = await local_broker.connect()
        retention = (await configs(client, TOPIC, "a", "retention.ms", include_synonyms=True))["retention.ms"]
        assert (retention.value, retention.config_source) == ("300000", source)
        assert [vars_of(synonym) for synonym in retention.synonyms] == synonyms


async def test_a_broker_with_an_empty_name_is_the_cluster_wide_default(client: Client) -> None:
    found = await configs(client, BROKER, "", include_synonyms=True)
    assert list(found) == ["min.insync.replicas"]
    one = found["min.insync.replicas"]
    assert (one.value, one.config_source, one.read_only) == ("1", Source.DYNAMIC_DEFAULT_BROKER_CONFIG, False)
    assert [vars_of(synonym) for synonym in one.synonyms] == [
        ("min.insync.replicas", "1", Source.DYNAMIC_DEFAULT_BROKER_CONFIG)
    ]


async def test_loggers_have_their_effective_level(client: Client) -> None:
    logging.getLogger("pykbroker.test.of.levels").setLevel(logging.WARNING)
    found = await configs(client, BROKER_LOGGER, "1")
    one = found["pykbroker.test.of.levels"]
    assert (one.value, one.config_source, one.config_type) == ("WARN", Source.DYNAMIC_BROKER_LOGGER_CONFIG, 0)
    assert {each.value for each in found.values()} <= {"DEBUG", "INFO", "WARN", "ERROR", "FATAL"}
    assert "root" in found


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (TOPIC, "nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"),
        (BROKER, "2", ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1 or empty string, but received 2"),
        (BROKER, "x", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
        (BROKER, " 1", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is:  1"),
        (BROKER_LOGGER, "", ErrorCode.INVALID_REQUEST, "Broker id must not be empty"),
        (BROKER_LOGGER, "2", ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1 but received 2"),
        (CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"),
        (GROUP, "", ErrorCode.INVALID_REQUEST, "Group name must not be empty"),
    ],
)
async def test_invalid_resources_are_refused(
    client: Client, kind: int, name: str, code: ErrorCode, message: str | None
) -> None:
    result = await ask(client, kind, name)
    assert (result.error_code, result.error_message, result.configs) == (code, message, [])


@pytest.mark.parametrize("name", ["01", "+1"])
async def test_a_broker_id_may_have_leading_zeros_or_a_sign(client: Client, name: str) -> None:
    assert (await configs(client, BROKER, name, "node.id"))["node.id"].value == "1"


@pytest.mark.parametrize("kind", [0, 1, 3, 99, -1])
async def test_an_unknown_resource_type_fails_the_whole_request(client: Client, kind: int) -> None:
    request = asking(TOPIC, "a")
    request.resources += asking(kind, "x").resources
    results = (await client.call(request, 4)).results
    assert [(one.resource_name, one.error_code, one.configs) for one in results] == [
        ("a", ErrorCode.INVALID_REQUEST, []),
        ("x", ErrorCode.INVALID_REQUEST, []),
    ]


@pytest.mark.parametrize("count", [0, 2, 9, 100])
async def test_the_response_has_one_result_per_requested_resource_in_order(client: Client, count: int) -> None:
    resources = [
        DescribeConfigsResource(TOPIC, "a" if number % 2 else "nobody", ["retention.ms"]) for number in range(count)
    ]
    results = (await client.call(DescribeConfigsRequest(resources=resources), 4)).results
    assert [one.resource_name for one in results] == [one.resource_name for one in resources]
    assert [len(one.configs) for one in results] == [number % 2 for number in range(count)]


# ---- Without a broker, compared with Kafka's recorded responses


def configs_at(layer: str) -> dict[str, str]:
    """Return the configs that the recorded Kafka broker had at one level, for example DYNAMIC_BROKER_CONFIG."""
    synonyms = [synonym for one in KAFKA["BROKER"].values() for synonym in one.get("synonyms", ())]
    texts = [text for text, _, source in (synonym.rpartition("@") for synonym in synonyms) if source == layer]
    return {name: value for name, _, value in (text.partition("=") for text in texts)}


def handler_like_kafka(answer_bytes_max: int = 1 << 20) -> DescribeConfigs:
    """Return a handler with the configs of the recorded Kafka broker."""
    config = BrokerConfig.of_layers(configs_at("STATIC_BROKER_CONFIG"), {}, {})
    topic: Any = {"t": None}
    image = MetadataImage(
        configs=ConfigsImage(
            {
                CLUSTER_DEFAULT: configs_at("DYNAMIC_DEFAULT_BROKER_CONFIG"),
                (BROKER, str(config.node_id)): configs_at("DYNAMIC_BROKER_CONFIG"),
                (TOPIC, "t"): {"segment.index.bytes": "1024"},
                (CLIENT_METRICS, "m"): {"interval.ms": "1000", "metrics": "*"},
            }
        )
    )
    with_topic = MetadataImage(configs=image.configs, topics=type(image.topics)(by_name=topic))
    return DescribeConfigs(config.node_id, LiveConfig(config), lambda: with_topic, answer_bytes_max)


@pytest.mark.parametrize(("kind", "name"), [(TOPIC, "t"), (BROKER, ""), (GROUP, "g"), (CLIENT_METRICS, "m")])
def test_every_resource_is_described_as_by_kafka(kind: int, name: str) -> None:
    api = handler_like_kafka()
    name = str(api.node_id) if kind == BROKER else name
    response = api(context(4), asking(kind, name, include_synonyms=True))
    assert isinstance(response, DescribeConfigsResponse)
    found = {one.name: observed(one) for one in response.results[0].configs}
    ours = {name for name in found if name.startswith("pykbroker.")}
    assert {name: one for name, one in found.items() if name not in ours} == KAFKA[
        {TOPIC: "TOPIC", BROKER: "BROKER", GROUP: "GROUP", CLIENT_METRICS: "CLIENT_METRICS"}[kind]
    ]


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (BROKER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (BROKER_LOGGER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (CLIENT_METRICS, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ],
)
def test_a_client_without_describe_configs_is_refused(kind: int, code: ErrorCode) -> None:
    response = handler_like_kafka()(context(4, Denies(Operation.DESCRIBE_CONFIGS)), asking(kind, "t"))
    assert isinstance(response, DescribeConfigsResponse)
    assert [(one.error_code, one.configs) for one in response.results] == [(code, [])]


async def test_a_repeated_resource_has_repeated_results(client: Client) -> None:
    for times in (1, 2, 20):
        response = await client.call(
            DescribeConfigsRequest([DescribeConfigsResource(TOPIC, "a", ["retention.ms", "retention.ms"])] * times), 4
        )
        assert [[one.name for one in result.configs] for result in response.results] == [["retention.ms"]] * times


async def test_the_same_resource_may_be_requested_with_different_config_names(client: Client) -> None:
    await client.create("b", retention_ms="5")
    response = await client.call(
        DescribeConfigsRequest(
            [DescribeConfigsResource(TOPIC, name, keys) for name in ("a", "b") for keys in (["retention.ms"], None, [])]
        ),
        4,
    )
    assert [len(result.configs) for result in response.results] == [1, 33, 33] * 2
    assert [response.results[place].configs[0].value for place in (0, 3)] == ["604800000", "5"]


def test_the_response_size_is_limited_for_repeated_resources() -> None:
    def answered(times: int, answer_bytes_max: int = 1000) -> list[DescribeConfigsResult]:
        resources = [DescribeConfigsResource(TOPIC, "t", ["retention.ms"])] * times
        response = handler_like_kafka(answer_bytes_max=answer_bytes_max)(
            context(4), DescribeConfigsRequest(resources, include_synonyms=True)
        )
        assert isinstance(response, DescribeConfigsResponse)
        return response.results

    one = size(answered(1)[0].configs[0])
    for room, fit in ((3 * one - 1, 2), (3 * one, 3), (3 * one + 1, 3)):
        codes = [result.error_code for result in answered(4, room)]
        assert codes == [ErrorCode.NONE] * fit + [ErrorCode.POLICY_VIOLATION] * (4 - fit)
