"""The statistics of a log directory: a frozen snapshot, made on request."""

from __future__ import annotations

import msgspec


class DirectoryStatistics(msgspec.Struct, frozen=True):
    """The statistics of one directory of `log.dirs`. Sizes are in bytes of record batches.

    Counters count from the broker's start.
    """

    path: str
    failed: bool
    """Whether the disk has failed, so that no partition in the directory is served any more."""
    logs: int
    segments: int
    size: int
    bytes_in: int
    bytes_out: int
    """Bytes read, including the bytes that sendfile sends."""
    flushes: int
