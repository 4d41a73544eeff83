"""The bytes that this process reads from storage devices and writes to them, as Linux counts them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

COUNTERS = Path("/proc/self/io")


class StorageBytes(NamedTuple):
    """Bytes that this process has caused devices to read and to write since its start. The page cache is left out."""

    read: int
    written: int


def storage_bytes() -> StorageBytes | None:
    """Return the counters of this process, or None on a system that has none."""
    try:
        counters = dict(line.split(": ") for line in COUNTERS.read_text().splitlines())
    except OSError:
        return None
    return StorageBytes(int(counters["read_bytes"]), int(counters["write_bytes"]))
