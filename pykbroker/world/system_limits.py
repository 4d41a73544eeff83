"""The limits that the operating system sets for this process."""

from __future__ import annotations

import sys

OPEN_FILES_UNLIMITED = 1_048_576
"""The value that stands for no limit on open files, and the highest limit that a broker asks for."""


def open_files_max() -> int:
    """Return the soft limit on the number of open descriptors of this process."""
    if sys.platform == "win32":
        return OPEN_FILES_UNLIMITED
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES_UNLIMITED if soft == resource.RLIM_INFINITY else soft


def raise_open_files_limit(wanted: int = OPEN_FILES_UNLIMITED) -> None:
    """Raise the soft limit of open files to `wanted`, or as far as the system allows. Never lower it.

    The limit is commonly 1,024 on Linux and 256 on macOS. A segment needs a few descriptors, and a client needs one.
    macOS may report no hard limit and refuse more than `kern.maxfilesperproc`, so the highest value is searched for.
    """
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        wanted = min(hard, wanted)
    if soft == resource.RLIM_INFINITY:
        return
    refused = wanted + 1
    while soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError):
            refused = wanted
        else:
            soft = wanted
        wanted = (soft + refused) // 2
