"""The configs of the group coordinator, under Kafka's names, and the configs of single groups."""

from __future__ import annotations

import msgspec

from pykbroker.core.config.config import BrokerConfig, Texts
from pykbroker.core.config.group_bounds import ASSIGNORS
from pykbroker.core.config.live_config import is_valid
from pykbroker.core.config.row import Row
from pykbroker.core.config.table import GROUP

MS_OF_MINUTE = 60_000


class GroupSettings(msgspec.Struct, frozen=True):
    """Settings with Kafka's defaults. Times are in ms."""

    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_heartbeat_interval_ms: int = 5000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_max_size: int = 2**31 - 1
    group_consumer_migration_policy: str = "bidirectional"
    group_consumer_min_heartbeat_interval_ms: int = 5000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_consumer_session_timeout_ms: int = 45_000
    group_initial_rebalance_delay_ms: int = 3000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2**31 - 1
    group_min_session_timeout_ms: int = 6000
    offset_metadata_max_bytes: int = 4096
    offsets_retention_check_interval_ms: int = 600_000
    offsets_retention_ms: int = 604_800_000

    @property
    def upgrades(self) -> bool:
        """Whether a classic group becomes a consumer group when a member with the consumer protocol joins."""
        return self.group_consumer_migration_policy in ("upgrade", "bidirectional")

    @property
    def downgrades(self) -> bool:
        """Whether a consumer group becomes a classic group when its last member with the consumer protocol leaves."""
        return self.group_consumer_migration_policy in ("downgrade", "bidirectional")

    @classmethod
    def of(cls, config: BrokerConfig) -> GroupSettings:
        """Build the settings from the broker's configs."""
        return cls(
            group_consumer_assignors=tuple(dict.fromkeys(ASSIGNORS[name] for name in config.group_consumer_assignors)),
            group_consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
            group_consumer_max_heartbeat_interval_ms=config.group_consumer_max_heartbeat_interval_ms,
            group_consumer_max_session_timeout_ms=config.group_consumer_max_session_timeout_ms,
            group_consumer_max_size=config.group_consumer_max_size,
            group_consumer_migration_policy=config.group_consumer_migration_policy.lower(),
            group_consumer_min_heartbeat_interval_ms=config.group_consumer_min_heartbeat_interval_ms,
            group_consumer_min_session_timeout_ms=config.group_consumer_min_session_timeout_ms,
            group_consumer_regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
            group_consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
            group_initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            group_max_session_timeout_ms=config.group_max_session_timeout_ms,
            group_max_size=config.group_max_size,
            group_min_session_timeout_ms=config.group_min_session_timeout_ms,
            offset_metadata_max_bytes=config.offset_metadata_max_bytes,
            offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
            offsets_retention_ms=config.offsets_retention_minutes * MS_OF_MINUTE,
        )

    def consumer_session_timeout_ms(self, own: Texts) -> int:
        """Return a consumer group's session timeout within the broker's bounds. `own` has the group's own configs."""
        return within(
            own,
            GROUP["consumer.session.timeout.ms"],
            self.group_consumer_session_timeout_ms,
            self.group_consumer_min_session_timeout_ms,
            self.group_consumer_max_session_timeout_ms,
        )

    def consumer_heartbeat_interval_ms(self, own: Texts) -> int:
        """Return a consumer group's heartbeat interval within the broker's bounds.

        `own` has the group's own configs.
        """
        return within(
            own,
            GROUP["consumer.heartbeat.interval.ms"],
            self.group_consumer_heartbeat_interval_ms,
            self.group_consumer_min_heartbeat_interval_ms,
            self.group_consumer_max_heartbeat_interval_ms,
        )


def within(own: Texts, config: Row, default: int, low: int, high: int) -> int:
    """Return the group's value limited to the bounds, or the default if it is not set or not a number."""
    text = own.get(config.name)
    return default if text is None or not is_valid(config, text) else min(max(int(text), low), high)
