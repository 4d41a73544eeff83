"""Sorting of OSErrors: either the disk as a whole failed, or only one call did."""

from __future__ import annotations

import errno

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""The disk is full for now."""
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
"""Errors for too many open files of the process or the machine: the call did nothing."""
OF_THE_CALL = frozenset(
    (
        None,
        *NO_ROOM,
        *NO_DESCRIPTOR,
        errno.ENOMEM,
        errno.EINTR,
        errno.EAGAIN,
        errno.EBADF,
        errno.EACCES,
        errno.EPERM,
        errno.ENOENT,
        errno.EEXIST,
        errno.EISDIR,
        errno.ENOTDIR,
        errno.ENOTEMPTY,
        errno.ENAMETOOLONG,
    )
)
"""Errors after which the next call may succeed: a resource is used up for now, or a file or name is not as expected."""


def is_of_the_disk(failure: OSError) -> bool:
    """Whether the disk failed, so that no later result of it counts: EIO, EROFS, ESTALE and every unlisted error."""
    return failure.errno not in OF_THE_CALL
