"""A classification of OSErrors: either the whole disk failed, or only one system call."""

from __future__ import annotations

import errno

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""The errnos of a full disk."""
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
"""The errnos for too many open files in the process or on the machine. The call did nothing."""
VANISHED = (errno.ENOENT, errno.ENOTDIR)
"""The errnos of a missing file, or of a missing directory."""
OF_THE_CALL = frozenset(
    (
        None,
        *NO_ROOM,
        *NO_DESCRIPTOR,
        *VANISHED,
        errno.ENOMEM,
        errno.EINTR,
        errno.EAGAIN,
        errno.EBADF,
        errno.EACCES,
        errno.EPERM,
        errno.EEXIST,
        errno.EISDIR,
        errno.ENOTEMPTY,
        errno.ENAMETOOLONG,
    )
)
"""The errnos after which the next call may succeed: a resource is temporarily exhausted, or a file is unexpected."""


def is_of_the_disk(failure: OSError) -> bool:
    """Whether the whole disk failed, so that later results cannot be trusted.

    EIO, EROFS, ESTALE and unlisted errnos count as such.
    """
    return failure.errno not in OF_THE_CALL
