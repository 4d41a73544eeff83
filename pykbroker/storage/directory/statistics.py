"""The statistics of a log directory: a frozen snapshot, made on request."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DirectoryStatistics:
    """The statistics of one directory of log.dirs. Sizes are bytes of record batches, counters are since the start."""

    path: str
    failed: bool
    """The disk failed: no partition in the directory is served any more."""
    logs: int
    segments: int
    size: int
    bytes_in: int
    bytes_out: int
    """The bytes read, including those that sendfile sends."""
    flushes: int
