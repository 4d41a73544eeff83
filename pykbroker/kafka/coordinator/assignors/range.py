"""The name of the assignor that gives the partitions of each topic in ranges."""

from __future__ import annotations

from pykbroker.core.consumer.assignors.range import RangeAssignor
from pykbroker.kafka.coordinator.assignors.abstract import AbstractPartitionAssignor


class RangePartitionAssignor(AbstractPartitionAssignor):
    """The assignor `range`."""

    name = RangeAssignor.name
