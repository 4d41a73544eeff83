"""The check of dynamic configs by the broker that they are for, before the controller stores them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pykbroker.core.config.broker_change import check_is_this
from pykbroker.core.config.check import check_configs
from pykbroker.core.config.live_config import LiveConfig
from pykbroker.core.config.resource import ConfigResource
from pykbroker.core.metadata.alter_configs import AlteredResource, altered, changes_of
from pykbroker.core.metadata.image import MetadataImage


class OwnConfigs(msgspec.Struct, frozen=True):
    """The configs of this broker as of the current metadata.

    A controller in another process does not know the static ones.
    """

    node_id: int
    live: LiveConfig
    image: Callable[[], MetadataImage]

    def check(self, resource: AlteredResource) -> None:
        """Raise ApiError if the resource is another broker, or if this broker cannot have its new configs."""
        key = resource.resource_type, resource.resource_name
        check_is_this(key, self.node_id)
        if resource.resource_type == ConfigResource.BROKER:
            configs = self.image().configs
            old, now = configs.of(*key), self.live.under(configs.dynamic(self.node_id))
            check_configs(key, altered(old, changes_of(old, resource)), now)
