"""A probe of the room on a disk: the file system and the quota of this user must take a file, later removed."""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.world.disk import Disk

NAME = "pykbroker.room"
ROOM_BYTES_MIN = 1 << 20
"""The size in bytes of the file: that of a batch of the default `max.message.bytes`."""


def has_room(disk: Disk, fail: Callable[[OSError], None]) -> bool:
    """Whether the disk takes another ROOM_BYTES_MIN. `fail` is called with the OSError otherwise.

    The free space that the kernel reports would not tell: a quota may be exhausted.
    """
    try:
        file = disk.open(NAME, create=True)
        try:
            file.append(bytes(ROOM_BYTES_MIN))
        finally:
            file.close()
            disk.remove(NAME)
    except OSError as refusal:
        fail(refusal)
        return False
    return True
