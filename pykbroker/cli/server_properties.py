"""Kafka's server.properties: the file, and which of its listeners this broker takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pykbroker.cli.parameters import Address, parse_address
from pykbroker.core.errors import StartError

ALL_INTERFACES = "0.0.0.0"
CONTROLLER_NAMES = "CONTROLLER"


@dataclass(frozen=True)
class ServerProperties:
    """The configs of a file, and in which line each one begins; the last one of a name counts."""

    path: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)

    def place(self, name: str) -> str:
        """FILE:LINE."""
        return f"{self.path}:{self.lines[name]}"


def read_properties(path: str) -> ServerProperties:
    """Read a file in Java's format. StartError for one that does not parse."""
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


def listening_address(texts: Mapping[str, str]) -> Address | None:
    """The plaintext listener for clients; None where `listeners` is unset. StartError for what is not served yet."""
    found = {name: address for name, address in listeners(texts, "listeners") if name not in controllers(texts)}
    if not found and "listeners" in texts:
        raise StartError(
            "listeners names none for clients; add one such as PLAINTEXT://localhost:9092, or say --listen HOST:PORT"
        )
    for name in found:
        protocol = protocols(texts).get(name, name)
        if protocol != "PLAINTEXT":
            raise StartError(
                f"listener {name} speaks {protocol}, which pykbroker does not yet: change listeners, "
                "or replace them with --listen HOST:PORT"
            )
    if len(found) > 1:
        raise StartError(
            f"pykbroker has one listener, and listeners names {', '.join(found)}: "
            "leave one, or replace them with --listen HOST:PORT"
        )
    for address in found.values():
        return Address(address.host or ALL_INTERFACES, address.port)
    return None


def advertised_address(texts: Mapping[str, str]) -> Address | None:
    """What the file wants clients to be told."""
    for name, address in listeners(texts, "advertised.listeners"):
        if name not in controllers(texts) and address.host:
            return address
    return None


def listeners(texts: Mapping[str, str], config: str) -> Iterator[tuple[str, Address]]:
    """(NAME, address) of each NAME://HOST:PORT. StartError."""
    for listener in filter(None, map(str.strip, texts.get(config, "").split(","))):
        name, separator, address = listener.partition("://")
        if not separator:
            raise StartError(f"{config}: {listener!r} is not NAME://HOST:PORT")
        try:
            yield name.upper(), parse_address(address)
        except ValueError as error:
            raise StartError(f"{config}: {error}") from None


def controllers(texts: Mapping[str, str]) -> set[str]:
    """Names of listeners that are for controllers alone."""
    return {name.strip().upper() for name in texts.get("controller.listener.names", CONTROLLER_NAMES).split(",")}


def protocols(texts: Mapping[str, str]) -> dict[str, str]:
    """Which security protocol each listener name stands for, where that is not the name itself."""
    pairs = (pair.partition(":") for pair in texts.get("listener.security.protocol.map", "").split(",") if pair)
    return {name.strip().upper(): protocol.strip().upper() for name, _, protocol in pairs}
