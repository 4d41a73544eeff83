"""The lock of a log directory: one process uses the directory at a time."""

from __future__ import annotations

from pykbroker.core.errors import StartError
from pykbroker.world.disk import Disk, Locked

LOCK = ".lock"
"""The lock file, which is the same as Apache Kafka's."""


def lock_directory(disk: Disk) -> None:
    """Lock a directory until `disk.unlock(LOCK)`. Raise StartError if another broker has locked it."""
    try:
        disk.lock(LOCK)
    except Locked as held:
        raise StartError(
            f"{disk.path} is in use by another broker ({held}): stop that broker, or name another directory with"
            " --data-dir or in log.dirs"
        ) from held
