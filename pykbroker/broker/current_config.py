"""The broker's current config: the static config, overridden by the dynamic configs of the metadata."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.live_config import LiveConfig
from pykbroker.core.metadata.image import MetadataImage

logger = logging.getLogger(__name__)


def live_config(started: BrokerConfig) -> LiveConfig:
    """Return the effective config, which logs that a config provider cannot be read."""
    return LiveConfig(
        started, lambda reason: logger.error("config providers: %s. Values with variables stay as they were", reason)
    )


class CurrentConfig:
    """A function that returns the broker's config as of the current metadata image."""

    def __init__(self, live: LiveConfig, image: Callable[[], MetadataImage], node_id: int) -> None:
        self._live, self._image, self._node_id = live, image, node_id

    def __call__(self) -> BrokerConfig:
        return self.under(self._image())

    def under(self, image: MetadataImage) -> BrokerConfig:
        """Return the broker's config as of this metadata image."""
        return self._live.under(image.configs.dynamic(self._node_id))
