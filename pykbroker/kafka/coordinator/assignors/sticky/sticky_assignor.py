"""The name of the assignor that moves few partitions (KIP-54)."""

from __future__ import annotations

from pykbroker.core.consumer.assignors.sticky import StickyAssignor
from pykbroker.kafka.coordinator.assignors.abstract import AbstractPartitionAssignor


class StickyPartitionAssignor(AbstractPartitionAssignor):
    """The assignor `sticky`."""

    name = StickyAssignor.name
