"""What a log directory tells of itself: frozen, and made only when somebody asks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DirectoryStatistics:
    """One of log.dirs. Sizes in bytes, of record batches; what is counted is counted since the start."""

    path: str
    failed: bool
    """Nothing in it is served any more."""
    logs: int
    segments: int
    size: int
    bytes_in: int
    bytes_out: int
    """Also what is not sent from here, as sendfile takes it from the file."""
    flushes: int
