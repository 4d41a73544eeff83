"""A frozen snapshot of the partitions of a broker."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReplicaStatistics:
    """The numbers of partitions that this broker has, leads, and cannot serve."""

    partitions: int
    leaders: int
    offline: int
