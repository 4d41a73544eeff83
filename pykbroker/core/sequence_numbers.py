"""The sequence numbers of a producer's records: they count from 0 to 2**31 - 1, and begin again at 0."""

from __future__ import annotations

SEQUENCE_MASK = 0x7FFFFFFF
HALF_OF_SEQUENCES = 1 << 30
"""The distance within which one sequence number is before another, as it cannot be told across the whole circle."""


def is_before(sequence: int, other: int) -> bool:
    """Whether a sequence number is lower than another one, where 0 follows 2**31 - 1."""
    return 0 < (other - sequence) & SEQUENCE_MASK < HALF_OF_SEQUENCES
