"""The base class of partitioners."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


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
