"""What an OSError speaks of: the disk as a whole, or only the call that met it."""

from __future__ import annotations

import errno

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""There may be room again."""
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
"""This process, or the machine, has too many files open: nothing was tried."""
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
"""The next call may succeed: something is used up for now, a file was closed by us, or a name is not as expected."""


def is_of_the_disk(failure: OSError) -> bool:
    """Whether nothing that the disk says later counts: EIO, EROFS, ESTALE, and all that is not known to be harmless."""
    return failure.errno not in OF_THE_CALL
