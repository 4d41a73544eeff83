"""ListConfigResources (74), v0-1: list the resources that DescribeConfigs can describe.

v0 client metrics subscriptions (KIP-1000)   v1 topics, brokers, broker loggers, groups (KIP-1142); no type: all
A subscription or a group is listed if it has at least one config.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pykbroker.core.config.resource import ConfigResource
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.server.handler import ApiHandler, RequestContext
from wire.error_codes import ErrorCode
from wire.messages import list_config_resources as messages
from wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

ALL_TYPES_VERSION_FIRST = 1


class ListConfigResources(ApiHandler, frozen=True):
    """A handler that lists the resources grouped by type."""

    image: Callable[[], MetadataImage]

    def __call__(self, context: RequestContext, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
        every = context.version >= ALL_TYPES_VERSION_FIRST
        supported = tuple(ConfigResource) if every else (ConfigResource.CLIENT_METRICS,)
        wanted = request.resource_types or supported
        if not set(wanted) <= set(supported):
            return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        return ListConfigResourcesResponse(
            config_resources=[
                messages.ConfigResource(name, kind)
                for kind in reversed(supported)
                if kind in wanted
                for name in self._names(kind)
            ]
        )

    def _names(self, kind: ConfigResource) -> Iterable[str]:
        image = self.image()
        match kind:
            case ConfigResource.TOPIC:
                return image.topics.by_name
            case ConfigResource.BROKER | ConfigResource.BROKER_LOGGER:
                return (str(broker.id) for broker in image.cluster.brokers.values() if not broker.fenced)
        return (name for of_kind, name in image.configs.resources if of_kind == kind)
