"""Murmur2 as in Kafka's clients: the hash that selects the partition of a key."""

from __future__ import annotations

from functools import lru_cache
from struct import Struct

SEED, MULTIPLIER, SHIFT = 0x9747B28C, 0x5BD1E995, 24
MASK, POSITIVE = 0xFFFF_FFFF, 0x7FFF_FFFF
CACHED_KEY_BYTES_MAX = 64
"""Hashes of keys up to so many bytes are remembered: keys repeat, and a hash takes 1 us and more."""
CACHED_KEYS_MAX = 1 << 16


def partition_of_key(key: bytes, partitions: int) -> int:
    """Return the partition of a key in a topic with so many partitions, as Kafka's default partitioner does."""
    return (cached_hash(key) if len(key) <= CACHED_KEY_BYTES_MAX else murmur2(key) & POSITIVE) % partitions


@lru_cache(maxsize=CACHED_KEYS_MAX)
def cached_hash(key: bytes) -> int:
    """Return the positive hash of a short key."""
    return murmur2(key) & POSITIVE


def murmur2(data: bytes) -> int:
    """Return the hash of 32 bits, without a sign."""
    size = len(data)
    value = SEED ^ size
    for word in words(size >> 2).unpack_from(data):
        word = word * MULTIPLIER & MASK
        value = (value * MULTIPLIER & MASK) ^ ((word ^ word >> SHIFT) * MULTIPLIER & MASK)
    if size & 3:
        value = (value ^ int.from_bytes(data[size & ~3 :], "little")) * MULTIPLIER & MASK
    value = (value ^ value >> 13) * MULTIPLIER & MASK
    return value ^ value >> 15


@lru_cache(maxsize=256)
def words(count: int) -> Struct:
    """Return the layout of `count` little-endian words."""
    return Struct(f"<{count}I")
