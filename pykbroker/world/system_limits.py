"""The limits that the operating system sets for this process."""

from __future__ import annotations

import sys

OPEN_FILES_UNLIMITED = 1_048_576
"""The value that stands for no limit on open files."""


def open_files_max() -> int:
    """Return the soft limit on the number of open descriptors of this process."""
    if sys.platform == "win32":
        return OPEN_FILES_UNLIMITED
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES_UNLIMITED if soft == resource.RLIM_INFINITY else soft
