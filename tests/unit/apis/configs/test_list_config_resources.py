"""ListConfigResources: resources with configs, by type, in both versions."""

from __future__ import annotations

import pytest

from pykbroker.apis.configs.list_config_resources import ListConfigResources
from pykbroker.core.metadata.image import (
    CLUSTER_DEFAULT,
    BrokerImage,
    ClusterImage,
    ConfigsImage,
    MetadataImage,
    TopicImage,
    TopicsImage,
)
from tests.unit.apis.calling import context
from tests.unit.apis.conftest import Client
from wire.error_codes import ErrorCode
from wire.messages.list_config_resources import ListConfigResourcesRequest

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
EVERYTHING = {(TOPIC, "t"), (TOPIC, "u"), (BROKER, "1"), (BROKER_LOGGER, "1"), (CLIENT_METRICS, "m"), (GROUP, "g")}


def some() -> MetadataImage:
    """Return an image with two topics, an unfenced and a fenced broker, and configs for most of them."""

    def broker(node_id: int, *, fenced: bool) -> BrokerImage:
        return BrokerImage(id=node_id, incarnation_id=b"", epoch=1, fenced=fenced)

    return MetadataImage(
        topics=TopicsImage(by_name={name: TopicImage(name, name.encode()) for name in ("t", "u")}),
        cluster=ClusterImage(brokers={1: broker(1, fenced=False), 2: broker(2, fenced=True)}),
        configs=ConfigsImage(
            {
                CLUSTER_DEFAULT: {"min.insync.replicas": "1"},
                (TOPIC, "t"): {"retention.ms": "1"},
                (CLIENT_METRICS, "m"): {"interval.ms": "1000"},
                (GROUP, "g"): {"share.isolation": "x"},
            }
        ),
    )


def listed(version: int, *types: int) -> tuple[int, set[tuple[int, str]]]:
    api = ListConfigResources(some)
    response = api(context(version), ListConfigResourcesRequest(resource_types=list(types)))
    names = [(one.resource_type, one.resource_name) for one in response.config_resources]
    assert len(names) == len(set(names))
    return response.error_code, set(names)


@pytest.mark.parametrize(
    "types",
    [(), (TOPIC,), (BROKER,), (BROKER_LOGGER,), (CLIENT_METRICS,), (GROUP,), (TOPIC, GROUP), (GROUP, TOPIC, GROUP)],
)
def test_resources_of_the_requested_types_or_of_all_types_are_listed(types: tuple[int, ...]) -> None:
    assert listed(1, *types) == (0, {one for one in EVERYTHING if not types or one[0] in types})


def test_version_0_lists_client_metrics_only() -> None:
    assert listed(0) == (0, {(CLIENT_METRICS, "m")})


@pytest.mark.parametrize("types", [(0,), (99,), (TOPIC, 3), (-1,)])
def test_an_unknown_resource_type_is_refused(types: tuple[int, ...]) -> None:
    assert listed(1, *types) == (ErrorCode.UNSUPPORTED_VERSION, set())


@pytest.mark.parametrize(("version", "names"), [(0, []), (1, [(BROKER_LOGGER, "1"), (BROKER, "1"), (TOPIC, "a")])])
async def test_both_versions_list_resources(client: Client, version: int, names: list[tuple[int, str]]) -> None:
    response = await client.call(ListConfigResourcesRequest(), version)
    assert [(one.resource_type, one.resource_name) for one in response.config_resources] == names
