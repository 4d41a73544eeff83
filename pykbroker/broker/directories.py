"""The log directories: opened before any other file is read or written, and closed when the broker stops."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import msgspec

from pykbroker.core.descriptors import Descriptors
from pykbroker.core.errors import StopError
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.storage.log.opener import Opener
from pykbroker.world.disk import Disk
from pykbroker.world.world import World

logger = logging.getLogger(__name__)


async def open_directories(world: World, directories: list[LogDirectory], descriptors: Descriptors) -> World:
    """Lock and read all log directories into `directories`. Return the world with only the disks that could be opened.

    Raise OSError if the first directory, which has the metadata log, cannot be opened.
    """
    disks: list[Disk] = []
    opener = Opener(world.off_loop)
    for disk in world.disks:
        try:
            directories.append(await open_directory(world, disk, opener, descriptors))
        except OSError as refusal:
            if not disks:
                raise
            logger.error(
                "%s cannot be opened (%s): its partitions are offline. Repair it and restart, or remove it from"
                " log.dirs",
                disk.path,
                refusal,
            )
        else:
            disks.append(disk)
    return msgspec.structs.replace(world, disks=tuple(disks))


async def open_directory(world: World, disk: Disk, opener: Opener, descriptors: Descriptors) -> LogDirectory:
    """Lock and read one log directory."""
    return await LogDirectory.open(
        disk,
        off_loop=world.off_loop,
        wall_ms=world.wall_ms,
        jitter=world.rng.random,
        opener=opener,
        loaded_max=descriptors.sealed_segments_max,
    )


async def leave_untouched(directories: Sequence[LogDirectory]) -> None:
    """Release the directories after a failed start. A directory that was cleanly shut down before stays marked so."""
    for directory in directories:
        await directory.leave_untouched()


def unclosed(refusals: Mapping[str, OSError]) -> StopError:
    """Return the StopError for directories that could not be closed: path -> error."""
    failures = "; ".join(f"{path} ({refusal})" for path, refusal in refusals.items())
    return StopError(
        f"the broker stopped without closing its log directories cleanly: {failures}. The next start reads"
        " their logs as after a crash: free space there, or repair the disk, before it."
    )
