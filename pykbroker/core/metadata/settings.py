"""The settings of a controller: its identity, and the broker configs that it uses."""

from __future__ import annotations

import msgspec

from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.descriptors import UNBOUNDED, Descriptors


class ControllerSettings(msgspec.Struct, frozen=True):
    """The settings, named as in Kafka.

    `incarnation_id` is that of the broker in the controller's process. If it is None, any process may have its id.
    """

    node_id: int
    cluster_id: str
    num_partitions: int = 1
    default_replication_factor: int = 1
    min_insync_replicas: int = 1
    unclean_leader_election_enable: bool = False
    broker_session_timeout_ms: int = 9_000
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_s: int = 300
    unclean_leader_election_interval_ms: int = 300_000
    descriptors: Descriptors = UNBOUNDED
    incarnation_id: bytes | None = None
    ignores_case: bool = False
    """Whether the file system of a log directory ignores case, so that the directories of "a" and "A" are one."""

    @classmethod
    def of(
        cls,
        config: BrokerConfig,
        node_id: int,
        cluster_id: str,
        descriptors: Descriptors,
        incarnation_id: bytes,
        *,
        ignores_case: bool,
    ) -> ControllerSettings:
        """Return the settings that follow from a broker's config."""
        return cls(
            node_id=node_id,
            cluster_id=cluster_id,
            num_partitions=config.num_partitions,
            default_replication_factor=config.default_replication_factor,
            min_insync_replicas=config.min_insync_replicas,
            unclean_leader_election_enable=config.unclean_leader_election_enable,
            broker_session_timeout_ms=config.broker_session_timeout_ms,
            auto_leader_rebalance_enable=config.auto_leader_rebalance_enable,
            leader_imbalance_check_interval_s=config.leader_imbalance_check_interval_seconds,
            unclean_leader_election_interval_ms=config.unclean_leader_election_interval_ms,
            descriptors=descriptors,
            incarnation_id=incarnation_id,
            ignores_case=ignores_case,
        )
