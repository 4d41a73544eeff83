"""What the partitions of a broker tell of themselves: frozen, and made only when somebody asks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReplicaStatistics:
    """How many partitions this broker has, leads, and cannot serve."""

    partitions: int
    leaders: int
    offline: int
