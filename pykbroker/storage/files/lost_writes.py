"""After a failed fsync the page cache shows what may never reach the device, and takes it for clean.

So a file in the directory's root says that it happened, until the directory is left in order. While it says so, a
start writes anew what it takes into a log that is not known to be durable: then the next fsync speaks of it again.
The file needs no fsync itself. What it warns of is gone with the page cache, as it is.
Not covered: a kill between the fsync and this file.
"""

from __future__ import annotations

import logging

from pykbroker.storage.files.reading import CHUNK_BYTES, read_file
from pykbroker.world.disk import Disk, File

logger = logging.getLogger(__name__)

NAME = "pykbroker.lost-writes"


def note(disk: Disk) -> None:
    """An fsync has failed."""
    try:
        disk.open(NAME, create=True).close()
    except OSError as refusal:
        logger.error(
            "%s does not take the note that an fsync failed; do not start this broker before the directory was"
            " mounted anew: %s",
            disk.path,
            refusal,
        )


def are_noted(disk: Disk) -> bool:
    """Whether what is read here may be in memory alone."""
    return disk.exists(NAME)


def forget(disk: Disk) -> None:
    """All that is in the directory is durable."""
    if disk.exists(NAME):
        disk.remove(NAME)


async def write_again(file: File, size: int) -> None:
    """Let the next sync of the file cover its first `size` bytes, whatever became of the last one."""
    for position in range(0, size, CHUNK_BYTES):
        file.write_over(position, await read_file(file, position, min(CHUNK_BYTES, size - position)))
