"""The broker's current config: the static config, overridden by the dynamic configs of the metadata."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.live_config import LiveConfig
from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.world.off_loop import OffLoop

logger = logging.getLogger(__name__)


class CurrentConfig:
    """A function that returns the broker's config as of the current metadata image."""

    def __init__(self, live: LiveConfig, image: Callable[[], MetadataImage], node_id: int, off_loop: OffLoop) -> None:
        self._live, self._image, self._node_id, self._off_loop = live, image, node_id, off_loop
        self._reported = ""

    def __call__(self) -> BrokerConfig:
        return self.under(self._image())

    def under(self, image: MetadataImage) -> BrokerConfig:
        """Return the broker's config as of this metadata image."""
        return self._live.under(image.configs.dynamic(self._node_id))

    async def read(self, image: MetadataImage) -> None:
        """Use the values that config providers have now for the variables of this metadata image.

        They are read off the event loop: a file may be on a slow or a dead file system. A provider that cannot be read
        is logged once, and values with variables stay as they were.
        """
        dynamic = image.configs.dynamic(self._node_id)
        if not self._live.must_read(dynamic):
            return
        try:
            self._live.use(await self._off_loop(self._live.read, dynamic))
        except ApiError as error:
            if self._reported != str(error):
                logger.error("config providers: %s. Values with variables stay as they were", error)
            self._reported = str(error)
        else:
            self._reported = ""
