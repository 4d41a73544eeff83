"""DescribeConfigs (32), v1-4: return the configs of topics, brokers, groups and other resources, with their sources.

v1 sources and synonyms (KIP-226)   v3 types and documentation (KIP-569)   v4 flexible
A broker resource with an empty name is the cluster-wide default. A broker logger resource returns log levels.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator

import trio

from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.entries import (
    ConfigEntry,
    Source,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from pykbroker.core.config.live_config import Dynamic, LiveConfig
from pykbroker.core.config.resource import ConfigResource
from pykbroker.core.config.sheet import ConfigSheet
from pykbroker.core.config.type import INTEGER, Type
from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.names import check_topic_name
from pykbroker.core.security.rights import DESCRIBE_CONFIGS, require_for_config
from pykbroker.server.handler import Answer, ApiHandler, RequestContext, now_or_later
from pykbroker.server.log_levels import logger_levels
from wire.error_codes import ErrorCode
from wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

AT_ONCE_MAX = 8
"""The number of resources described in one step of the event loop. Describing a broker takes about 2 ms."""


class DescribeConfigs(ApiHandler, frozen=True):
    """A handler that combines the static `config` of broker `node_id` with the dynamic configs of the metadata image.

    As in Kafka, a request may name a resource more than once. Once the response has `answer_bytes_max` bytes, the
    remaining resources are refused.
    """

    node_id: int
    config: LiveConfig
    image: Callable[[], MetadataImage]
    answer_bytes_max: int

    def __call__(self, context: RequestContext, request: DescribeConfigsRequest) -> Answer:
        if any(resource.resource_type not in DESCRIBE_CONFIGS for resource in request.resources):
            raise ApiError(ErrorCode.INVALID_REQUEST)
        sheet, image = ConfigSheet(request, self.answer_bytes_max), self.image()
        if len(request.resources) > AT_ONCE_MAX:
            return now_or_later(self._describe_many(context, request, sheet, image))
        return DescribeConfigsResponse(
            results=[self._describe(context, resource, sheet, image) for resource in request.resources]
        )

    async def _describe_many(
        self, context: RequestContext, request: DescribeConfigsRequest, sheet: ConfigSheet, image: MetadataImage
    ) -> DescribeConfigsResponse:
        response = DescribeConfigsResponse()
        for resource in request.resources:
            response.results.append(self._describe(context, resource, sheet, image))
            await trio.lowlevel.checkpoint()
        return response

    def _describe(
        self, context: RequestContext, resource: DescribeConfigsResource, sheet: ConfigSheet, image: MetadataImage
    ) -> DescribeConfigsResult:
        result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
        try:
            named = resource.resource_type, resource.resource_name
            require_for_config(context, DESCRIBE_CONFIGS, named)
            entries = self._entries(resource, image)
            result.configs = sheet.configs(same_configs(resource, image), resource.configuration_keys or (), entries)
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
        return result

    def _entries(self, resource: DescribeConfigsResource, image: MetadataImage) -> Iterable[ConfigEntry]:
        name = resource.resource_name
        overrides = image.configs.of(resource.resource_type, name)
        match resource.resource_type:
            case ConfigResource.TOPIC:
                check_topic_name(name)
                if name not in image.topics.by_name:
                    raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                return describe_topic(self._current(image), overrides)
            case ConfigResource.BROKER if not name:
                return cluster_default(self.config.under(Dynamic(cluster=overrides)))
            case ConfigResource.BROKER:
                self._check_node(name, "%s or empty string, but")
                return describe_broker(self._current(image))
            case ConfigResource.BROKER_LOGGER:
                check_named(name, "Broker id")
                self._check_node(name, "%s but")
                return loggers()
            case ConfigResource.CLIENT_METRICS:
                check_named(name, "Client metrics subscription name")
                return describe_client_metrics(overrides)
        check_named(name, "Group name")
        return describe_group(self._current(image), overrides)

    def _current(self, image: MetadataImage) -> BrokerConfig:
        return self.config.under(image.configs.dynamic(self.node_id))

    def _check_node(self, name: str, expected: str) -> None:
        if not INTEGER.fullmatch(name):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
        if int(name) != self.node_id:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {expected % self.node_id} received {name}"
            )


def same_configs(resource: DescribeConfigsResource, image: MetadataImage) -> Hashable:
    """Return a key that is equal for resources with the same configs."""
    kind, name = resource.resource_type, resource.resource_name
    if kind in (ConfigResource.BROKER, ConfigResource.BROKER_LOGGER):
        return kind, name
    return kind, frozenset(image.configs.of(kind, name).items())


def check_named(name: str, what: str) -> None:
    """Raise ApiError INVALID_REQUEST for an empty name."""
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{what} must not be empty")


def cluster_default(config: BrokerConfig) -> Iterator[ConfigEntry]:
    """Yield the dynamic configs that are set for all brokers, with no other synonyms."""
    for entry in describe_broker(config):
        if entry.name in config.cluster:
            own = [synonym for synonym in entry.synonyms if synonym.source is Source.DYNAMIC_DEFAULT_BROKER_CONFIG]
            yield entry._replace(source=Source.DYNAMIC_DEFAULT_BROKER_CONFIG, read_only=False, synonyms=tuple(own))


def loggers() -> Iterator[ConfigEntry]:
    """Yield the loggers of this process and their effective levels."""
    for name, level in logger_levels():
        yield ConfigEntry(name, level, Type.UNKNOWN, Source.DYNAMIC_BROKER_LOGGER_CONFIG, False, False, ())
