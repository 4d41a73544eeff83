"""A classification of OSErrors: either the disk as a whole failed, or only one call did."""

from __future__ import annotations

import errno

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a full disk."""
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
"""Errors for too many open files in the process or on the machine. The call did nothing."""
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
"""Errors after which the next call may succeed: a resource is used up for now, or a file or name is unexpected."""


def is_of_the_disk(failure: OSError) -> bool:
    """Whether the disk failed, so that its later results cannot be trusted: EIO, EROFS, ESTALE and unlisted errors."""
    return failure.errno not in OF_THE_CALL
