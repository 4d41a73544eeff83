"""meta.properties: the identity of a log directory, as Java properties, written when the directory is formatted."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from pykbroker.core.ids import id_bytes, id_text
from pykbroker.world.disk import Disk

NAME = "meta.properties"
VERSION = "1"


class CorruptMeta(ValueError):
    """An error for a meta.properties file that is invalid or has an unsupported version."""


def ignores_case(disk: Disk) -> bool:
    """Whether the file system of a formatted log directory ignores case, as macOS does by default."""
    return disk.exists(NAME.upper())


class MetaProperties(msgspec.Struct, frozen=True):
    """The identity of a log directory.

    `directory_id` has 16 bytes. `cluster_id` is text, usually a UUID in Kafka's base64 form.
    """

    cluster_id: str
    node_id: int
    directory_id: bytes

    def encode(self, now_ms: int) -> bytes:
        """Return the content of the file, with `now_ms` as its date."""
        date = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
        return (
            f"#\n#{date}\nnode.id={self.node_id}\ndirectory.id={id_text(self.directory_id)}\n"
            f"version={VERSION}\ncluster.id={self.cluster_id}\n"
        ).encode("latin-1")

    @classmethod
    def decode(cls, data: bytes) -> MetaProperties:
        """Parse the file. Raise CorruptMeta if its version is not supported, or if an entry is missing or invalid."""
        try:
            found = properties(data)
            if found["version"] != VERSION:
                raise CorruptMeta(f"version {found['version']}, not {VERSION}")
            return cls(found["cluster.id"], int(found["node.id"]), id_bytes(found["directory.id"]))
        except KeyError as missing:
            raise CorruptMeta(f"{missing.args[0]} is missing") from missing
        except ValueError as error:
            raise CorruptMeta(str(error)) from error


def properties(data: bytes) -> dict[str, str]:
    """Return the entries of the file. Escapes, which no broker writes, need a library that is slow to import."""
    if b"\\" in data:
        import javaproperties

        return dict(javaproperties.loads(data))
    lines = (line.strip() for line in data.decode("latin-1").splitlines())
    entries = (line.partition("=") for line in lines if line and not line.startswith(("#", "!")))
    return {key.rstrip(): value.lstrip() for key, _, value in entries}
