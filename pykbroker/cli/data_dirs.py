"""Where a broker keeps its data: the default place, and making sure that a place can be used."""

from __future__ import annotations

import os
import sys

from pykbroker.core.errors import StartError

OTHERWISE = "name another with --data-dir, or keep nothing with --memory"


def default_data_dir() -> str:
    """A directory of this user, which lasts."""
    home = os.path.expanduser("~")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Application Support", "pykbroker")
    if sys.platform == "win32":
        return os.path.join(os.environ.get("LOCALAPPDATA", home), "pykbroker")
    return os.path.join(os.environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share"), "pykbroker")


def make_data_dir(path: str) -> None:
    """Make what is missing. StartError for a directory that this user cannot make or write."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise StartError(f"cannot make the data directory {path} ({error.strerror}): {OTHERWISE}") from None
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise StartError(f"this user cannot write the data directory {path}: {OTHERWISE}")
