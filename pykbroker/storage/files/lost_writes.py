"""A marker file in a log directory, which records that an fsync failed.

The next start then does not trust the page cache. After a failed fsync Linux marks the pages as clean, though their
content may never reach the device. If the marker exists at start, recovery rewrites all bytes that it accepts and that
may not be durable, so that the next fsync writes them. A clean shutdown removes the marker. The marker needs no fsync,
because a power failure that loses it also empties the page cache. If the process is killed between the failed fsync and
the creation of the marker, the failure is not noticed.
"""

from __future__ import annotations

import logging

from pykbroker.storage.files.reading import CHUNK_BYTES, read_file
from pykbroker.world.disk import Disk, File

logger = logging.getLogger(__name__)

NAME = "pykbroker.lost-writes"


def note(disk: Disk) -> None:
    """Create the marker file, which records that an fsync failed."""
    try:
        disk.open(NAME, create=True).close()
    except OSError as refusal:
        logger.error(
            "%s: an fsync failed, and the file that records it cannot be written: remount the file system before"
            " the broker is started again: %s",
            disk.path,
            refusal,
        )


def are_noted(disk: Disk) -> bool:
    """Whether an fsync failed, so that bytes read from files of this disk may exist in the page cache only."""
    return disk.exists(NAME)


def forget(disk: Disk) -> None:
    """Remove the marker file, since all files of the directory are durable now."""
    if disk.exists(NAME):
        disk.remove(NAME)


async def write_again(file: File, size: int) -> None:
    """Rewrite the first `size` bytes of a file, so that its next fsync covers them."""
    for position in range(0, size, CHUNK_BYTES):
        file.write_over(position, await read_file(file, position, min(CHUNK_BYTES, size - position)))
