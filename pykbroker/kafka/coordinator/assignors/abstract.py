"""The base class of assignors."""

from __future__ import annotations


class AbstractPartitionAssignor:
    """The name of an assignor of Kafka. KafkaConsumer refuses an assignor of one's own with a sentence."""

    name: str
