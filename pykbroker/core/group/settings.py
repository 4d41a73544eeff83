"""What the group coordinator obeys of the broker's configs, under Kafka's names."""

from __future__ import annotations

import msgspec

from pykbroker.core.config import BrokerConfig

MS_OF_MINUTE = 60_000


class GroupSettings(msgspec.Struct, frozen=True):
    """Times in ms. The defaults are Kafka's."""

    group_consumer_heartbeat_interval_ms: int = 5000
    group_consumer_max_size: int = 2**31 - 1
    group_consumer_session_timeout_ms: int = 45_000
    group_initial_rebalance_delay_ms: int = 3000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2**31 - 1
    group_min_session_timeout_ms: int = 6000
    offset_metadata_max_bytes: int = 4096
    offsets_retention_check_interval_ms: int = 600_000
    offsets_retention_ms: int = 604_800_000

    @classmethod
    def of(cls, config: BrokerConfig) -> GroupSettings:
        """What the configs say."""
        return cls(
            group_consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
            group_consumer_max_size=config.group_consumer_max_size,
            group_consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
            group_initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            group_max_session_timeout_ms=config.group_max_session_timeout_ms,
            group_max_size=config.group_max_size,
            group_min_session_timeout_ms=config.group_min_session_timeout_ms,
            offset_metadata_max_bytes=config.offset_metadata_max_bytes,
            offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
            offsets_retention_ms=config.offsets_retention_minutes * MS_OF_MINUTE,
        )
