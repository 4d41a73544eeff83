"""The name of the assignor that gives all partitions to one member after the other."""

from __future__ import annotations

from pykbroker.core.consumer.assignors.roundrobin import RoundRobinAssignor
from pykbroker.kafka.coordinator.assignors.abstract import AbstractPartitionAssignor


class RoundRobinPartitionAssignor(AbstractPartitionAssignor):
    """The assignor `roundrobin`."""

    name = RoundRobinAssignor.name
