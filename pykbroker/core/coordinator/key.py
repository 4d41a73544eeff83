"""The partition of a coordinator's topic for a group id or transactional id, by Java's hash of its name."""

from __future__ import annotations

from functools import lru_cache

HASH_MASK = 0xFFFF_FFFF
INT_MIN = 0x8000_0000
NAMES_REMEMBERED = 4096


@lru_cache(NAMES_REMEMBERED)
def partition_of(name: str, partitions: int) -> int:
    """Return `Utils.abs(name.hashCode()) % partitions`, where `Utils.abs(Integer.MIN_VALUE)` is 0."""
    hashed = 0
    units = name.encode("utf-16-be", "surrogatepass")
    for place in range(0, len(units), 2):
        hashed = (31 * hashed + (units[place] << 8 | units[place + 1])) & HASH_MASK
    if hashed >= INT_MIN:
        hashed = 0 if hashed == INT_MIN else HASH_MASK + 1 - hashed
    return hashed % partitions
