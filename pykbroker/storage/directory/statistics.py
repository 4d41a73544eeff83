"""The statistics of a log directory: a frozen snapshot, made on request."""

from __future__ import annotations

import msgspec


class DirectoryStatistics(msgspec.Struct, frozen=True):
    """The statistics of one directory of `log.dirs`. Sizes are in bytes of record batches.

    Counters count from the broker's start.
    """

    path: str
    failed: bool
    """Whether the disk has failed, or could not be opened, so that no partition in the directory is served."""
    logs: int = 0
    segments: int = 0
    size: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    """Bytes read, including the bytes that sendfile sends."""
    flushes: int = 0
