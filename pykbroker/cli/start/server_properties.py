"""Kafka's server.properties: the configs in the file and the line of each config."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pykbroker.core.errors import StartError


class ServerProperties(msgspec.Struct, frozen=True):
    """The configs of a file and the line of each. If a name is repeated, its last line counts."""

    path: str = ""
    texts: Mapping[str, str] = msgspec.field(default_factory=dict)
    lines: Mapping[str, int] = msgspec.field(default_factory=dict)

    def __repr__(self) -> str:
        return f"ServerProperties({self.path})"

    def place(self, name: str) -> str:
        """Return FILE:LINE of a config."""
        return f"{self.path}:{self.lines[name]}"


def read_properties(path: str) -> ServerProperties:
    """Read a file in Java's properties format. StartError: the file cannot be read or parsed."""
    import javaproperties

    texts, lines, line = {}, {}, 1
    try:
        with open(path, "rb") as file:
            for element in javaproperties.parse(file):
                if isinstance(element, javaproperties.KeyValue):
                    texts[element.key], lines[element.key] = element.value.strip(), line
                line += element.source.count("\n")
    except (OSError, javaproperties.InvalidUEscapeError) as error:
        raise StartError(f"cannot read {path}: {error}") from None
    return ServerProperties(path, texts, lines)
