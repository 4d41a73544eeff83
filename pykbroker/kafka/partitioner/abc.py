"""The base class of partitioners."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from pykbroker.kafka.kafka_python import module_of


class Partitioner(ABC):
    """A choice of the partition for each record that names none, as the argument `partitioner` of KafkaProducer."""

    @abstractmethod
    def partition(
        self,
        topic: str,
        key: Any,
        serialized_key: bytes | None,
        value: Any,
        serialized_value: bytes | None,
        cluster: Any,
    ) -> int:
        """Return the partition of a record.

        `cluster` has `partitions_for_topic` and `available_partitions_for_topic`, the latter for those with a leader.
        """


def partition_with(partitioner: Any, topic: str, key: Any, key_bytes: bytes | None, *rest: Any) -> Any:
    """Return the partition that a partitioner chooses. `rest` are the value, its bytes and the cluster.

    As in kafka-python, an object of another class gets the topic, the bytes of the key and the cluster only.
    """
    if isinstance(partitioner, Partitioner):
        return partitioner.partition(topic, key, key_bytes, *rest)
    return partitioner.partition(topic, key_bytes, rest[-1])


if theirs := getattr(module_of("partitioner"), "Partitioner", None):
    Partitioner.register(theirs)
