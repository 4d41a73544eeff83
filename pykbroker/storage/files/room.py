"""A probe of the room on a disk: the file system and the quota of this user must take a file, later removed."""

from __future__ import annotations

from pykbroker.world.disk import Disk

NAME = "pykbroker.room"
ROOM_BYTES_MIN = 1 << 20
"""The size in bytes of the file: that of a batch of the default `max.message.bytes`."""


def require_room(disk: Disk) -> None:
    """Raise OSError if the disk does not take another ROOM_BYTES_MIN.

    The free space that the kernel reports does not suffice: a quota may be exhausted. The call blocks while the disk is
    slow, so it runs off the event loop.
    """
    file = disk.open(NAME, create=True)
    try:
        file.append(bytes(ROOM_BYTES_MIN))
    finally:
        file.close()
        disk.remove(NAME)
