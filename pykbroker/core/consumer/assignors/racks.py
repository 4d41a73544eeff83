"""The decision whether an assignor takes racks into account (KIP-881)."""

from __future__ import annotations

from collections.abc import Collection


def racks_matter(member_racks: Collection[str], partitions: Collection[frozenset[str]]) -> bool:
    """Whether members share a rack with replicas, and some partition lacks a replica in one of the replicas' racks."""
    replica_racks = frozenset[str]().union(*partitions)
    if replica_racks.isdisjoint(member_racks):
        return False
    return any(racks != replica_racks for racks in partitions)
