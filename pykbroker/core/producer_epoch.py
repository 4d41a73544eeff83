"""The epochs of a producer id: signed 16-bit numbers, where -1 means none (KIP-360, KIP-890)."""

from __future__ import annotations

EPOCH_MAX = 2**15 - 1
"""The last epoch. A coordinator gives it to no producer: it fences the producer that has the epoch before."""


def next_epoch(epoch: int) -> int:
    """Return the epoch after this one. EPOCH_MAX is followed by itself: the producer then needs a new producer id.

    Every epoch of a producer is raised here, since an epoch above EPOCH_MAX fits in no message and in no batch.
    """
    return min(epoch + 1, EPOCH_MAX)


def is_exhausted(epoch: int) -> bool:
    """Whether no further producer of a transactional id can use the producer id after this epoch."""
    return epoch >= EPOCH_MAX - 1
