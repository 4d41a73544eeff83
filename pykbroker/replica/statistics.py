"""A frozen snapshot of the partitions of a broker."""

from __future__ import annotations

import msgspec


class ReplicaStatistics(msgspec.Struct, frozen=True):
    """The numbers of partitions that this broker has, leads, and cannot serve."""

    partitions: int
    leaders: int
    offline: int
