"""The settings of a controller: its identity, and the broker configs that it uses."""

from __future__ import annotations

import msgspec

from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.descriptors import UNBOUNDED, Descriptors


class ControllerSettings(msgspec.Struct, frozen=True):
    """The settings, named as in Kafka."""

    node_id: int
    cluster_id: str
    num_partitions: int = 1
    default_replication_factor: int = 1
    min_insync_replicas: int = 1
    unclean_leader_election_enable: bool = False
    descriptors: Descriptors = UNBOUNDED

    @classmethod
    def of(
        cls, config: BrokerConfig, node_id: int, cluster_id: str, descriptors: Descriptors = UNBOUNDED
    ) -> ControllerSettings:
        """Return the settings that follow from a broker's config."""
        return cls(
            node_id=node_id,
            cluster_id=cluster_id,
            num_partitions=config.num_partitions,
            default_replication_factor=config.default_replication_factor,
            min_insync_replicas=config.min_insync_replicas,
            unclean_leader_election_enable=config.unclean_leader_election_enable,
            descriptors=descriptors,
        )
