"""The check of dynamic configs by the broker that they are for, before the controller stores them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from msgspec.structs import replace

from pykbroker.core.config.broker_change import check_is_this
from pykbroker.core.config.check import check_configs
from pykbroker.core.config.config import Texts
from pykbroker.core.config.live_config import LiveConfig
from pykbroker.core.config.resource import ConfigResource
from pykbroker.core.metadata.alter_configs import AlteredResource, altered, changes_of, key_of
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.world.off_loop import OffLoop

TLS = "ssl."
"""The beginning of the names of configs for TLS, with or without the prefix of a listener."""


async def no_stores(_texts: Texts) -> None:
    """Do nothing, for a broker without TLS."""


class OwnConfigs(msgspec.Struct, frozen=True):
    """The configs of this broker as of the current metadata.

    A controller in another process does not know the static ones.
    """

    node_id: int
    live: LiveConfig
    image: Callable[[], MetadataImage]
    off_loop: OffLoop
    """A caller off the event loop: config providers read files, which may be on a slow or a dead file system."""
    check_stores: Callable[[Texts], Awaitable[None]] = no_stores
    """A function that raises ApiError if TLS cannot be served with these configs of the broker."""

    async def check(self, resource: AlteredResource) -> None:
        """Raise ApiError if the resource is another broker, or if this broker cannot have its new configs."""
        key = key_of(resource)
        check_is_this(key, self.node_id)
        if resource.resource_type == ConfigResource.BROKER:
            configs = self.image().configs
            old, now = configs.of(*key), self.live.under(configs.dynamic(self.node_id))
            wanted = altered(old, changes_of(old, resource))
            now = replace(now, sources=self.live.sources)
            await self.off_loop(check_configs, key, wanted, now)
            if resource.resource_name and any(TLS in each.name for each in resource.configs):
                await self.check_stores((await self.off_loop(now.with_dynamic, now.cluster, wanted)).texts)
