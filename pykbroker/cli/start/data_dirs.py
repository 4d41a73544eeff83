"""The broker's data directory: its default path, and checks that it can be used."""

from __future__ import annotations

import os
import sys

from pykbroker.core.errors import StartError

OF_IMAGE = "/var/lib/kafka/data"
"""The data directory that `docker/Dockerfile` sets for its image, in the place of that of Confluent's image."""
OF_VOLUMES = {
    "/bitnami": "/bitnami/kafka/data",
    "/bitnami/kafka": "/bitnami/kafka/data",
    "/bitnami/kafka/data": "/bitnami/kafka/data",
    "/tmp/kraft-combined-logs": "/tmp/kraft-combined-logs",
    "/tmp/kafka-logs": "/tmp/kafka-logs",
    "/kafka": "/kafka/data",
    "/kafka/data": "/kafka/data",
}
"""The volumes in which other images of Kafka keep data, with the data directory in each."""
OTHERWISE = "choose another with --data-dir, or keep no data with --memory"


def default_data_dir() -> str:
    """Return a permanent directory of this user."""
    home = os.path.expanduser("~")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Application Support", "pykbroker")
    if sys.platform == "win32":
        return os.path.join(os.environ.get("LOCALAPPDATA", home), "pykbroker")
    return os.path.join(os.environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share"), "pykbroker")


def container_data_dir() -> str:
    """Return the data directory of a container: that in the volume of a compose file for another image, or `OF_IMAGE`.

    The image has a volume at `OF_IMAGE`, too, but that one does not outlive the container.
    """
    return next((directory for volume, directory in OF_VOLUMES.items() if os.path.ismount(volume)), OF_IMAGE)


def make_data_dir(path: str) -> None:
    """Create the directory unless it exists. StartError: this user may not create or write the directory."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise StartError(f"cannot create the data directory {path} ({error.strerror}): {OTHERWISE}") from None
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        user = os.getuid()
        raise StartError(
            f"the user {user} cannot write the data directory {path}: make it writable for this user, {OTHERWISE}"
        )
