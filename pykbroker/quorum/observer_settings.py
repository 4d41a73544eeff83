"""The settings with which an observer fetches the metadata log."""

from __future__ import annotations

import msgspec

from pykbroker.client.link_settings import LinkSettings
from pykbroker.client.security import ClientSecurity
from pykbroker.core.config.config import BrokerConfig

WAIT_MS_MAX = 500
"""The time that the leader may wait for new records, as in Kafka."""


class ObserverSettings(msgspec.Struct, frozen=True):
    """Limits in bytes and ms, with Kafka's defaults. Each comment names the Kafka config."""

    fetch_bytes_max: int = 1 << 20
    """controller.quorum.fetch.max.bytes"""
    snapshot_bytes_max: int = 1 << 20
    """controller.quorum.fetch.snapshot.max.bytes"""
    request_ms_max: int = 2000
    """controller.quorum.request.timeout.ms"""
    retry_ms: int = 20
    """controller.quorum.retry.backoff.ms"""
    links: LinkSettings = LinkSettings()

    @classmethod
    def of(cls, config: BrokerConfig, security: ClientSecurity) -> ObserverSettings:
        return cls(
            config.controller_quorum_fetch_max_bytes,
            config.controller_quorum_fetch_snapshot_max_bytes,
            config.controller_quorum_request_timeout_ms,
            config.controller_quorum_retry_backoff_ms,
            LinkSettings.of(config, security),
        )

    @property
    def wait_ms(self) -> int:
        """Return how long the leader may wait for new records. Half of the time for the response is left."""
        return min(WAIT_MS_MAX, self.request_ms_max // 2)
