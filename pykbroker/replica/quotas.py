"""The quotas of a broker's replication traffic, and the configs that set them (KIP-73)."""

from __future__ import annotations

from pykbroker.core.config.config import BrokerConfig, read
from pykbroker.core.config.live_config import valid_texts
from pykbroker.core.config.table import BROKER_QUOTAS, TOPIC
from pykbroker.core.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, ConfigsImage, Delta
from pykbroker.core.replication.quota import NO_LIMIT, ReplicationQuota

MS_PER_S = 1000


class ReplicationQuotas:
    """The quotas of broker `node_id`: of what it sends as `leader`, of what it fetches as `follower`, and of copies to
    another log directory (`alter_log_dirs`)."""

    def __init__(self, node_id: int, config: BrokerConfig | None = None) -> None:
        self._node_id = node_id
        config = config or BrokerConfig.from_mapping({})
        windows, window_ms = (
            config.replication_quota_window_num,
            config.replication_quota_window_size_seconds * MS_PER_S,
        )
        self.leader, self.follower = ReplicationQuota(windows, window_ms), ReplicationQuota(windows, window_ms)
        self.alter_log_dirs = ReplicationQuota(
            config.alter_log_dirs_replication_quota_window_num,
            config.alter_log_dirs_replication_quota_window_size_seconds * MS_PER_S,
        )

    def apply(self, delta: Delta) -> None:
        """Apply the changed rates of brokers, and the changed lists of throttled replicas."""
        configs = delta.image.configs
        if any(kind == BROKER_RESOURCE for kind, _ in delta.configs_changed):
            self._limit(configs)
        for kind, topic in delta.configs_changed:
            if kind == TOPIC_RESOURCE:
                self._throttle(topic, configs)
        for deleted in delta.topics_deleted:
            self._throttle(deleted.name, configs)

    def _limit(self, configs: ConfigsImage) -> None:
        """Set the rates from dynamic configs. As in Kafka, a config file does not set rates."""
        cluster, broker = (valid_texts(BROKER_QUOTAS, texts) for texts in configs.dynamic(self._node_id))
        rates = read(BROKER_QUOTAS, {**cluster, **broker})
        for quota, rate in (
            (self.leader, rates.get("leader.replication.throttled.rate", NO_LIMIT)),
            (self.follower, rates.get("follower.replication.throttled.rate", NO_LIMIT)),
            (self.alter_log_dirs, rates.get("replica.alter.log.dirs.io.max.bytes.per.second", NO_LIMIT)),
        ):
            assert isinstance(rate, int)
            quota.limit(rate)

    def _throttle(self, topic: str, configs: ConfigsImage) -> None:
        lists = read(TOPIC, valid_texts(TOPIC, configs.topic(topic)))
        for quota, replicas in (
            (self.leader, lists.get("leader.replication.throttled.replicas", ())),
            (self.follower, lists.get("follower.replication.throttled.replicas", ())),
        ):
            assert isinstance(replicas, tuple)
            quota.throttle(topic, replicas, self._node_id)
