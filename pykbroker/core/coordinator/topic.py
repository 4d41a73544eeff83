"""The internal topics of coordinators, created when the first client looks for a coordinator."""

from __future__ import annotations

import msgspec

from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from wire.messages.create_topics import CreatableTopic, CreatableTopicConfig


class CoordinatorTopic(msgspec.Struct, frozen=True):
    """The definition of a coordinator's topic. `configs` maps config names to values."""

    name: str
    partitions: int
    replication_factor: int
    configs: dict[str, str]

    def creation(self) -> CreatableTopic:
        """Return the topic's entry for a CreateTopics request."""
        configs = [CreatableTopicConfig(name, value) for name, value in self.configs.items()]
        return CreatableTopic(
            name=self.name, num_partitions=self.partitions, replication_factor=self.replication_factor, configs=configs
        )


def groups_topic(config: BrokerConfig) -> CoordinatorTopic:
    """Return `__consumer_offsets` as the broker's configs define it."""
    return CoordinatorTopic(
        GROUP_METADATA_TOPIC,
        config.offsets_topic_num_partitions,
        config.offsets_topic_replication_factor,
        {
            "compression.type": "producer",
            "cleanup.policy": "compact",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        },
    )


def transactions_topic(config: BrokerConfig) -> CoordinatorTopic:
    """Return `__transaction_state` as the broker's configs define it."""
    return CoordinatorTopic(
        TRANSACTION_STATE_TOPIC,
        config.transaction_state_log_num_partitions,
        config.transaction_state_log_replication_factor,
        {
            "unclean.leader.election.enable": "false",
            "compression.type": "uncompressed",
            "cleanup.policy": "compact",
            "min.insync.replicas": str(config.transaction_state_log_min_isr),
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
        },
    )
