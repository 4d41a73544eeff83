"""Kafka's server.properties: reads the file and selects the listener that this broker uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pykbroker.cli.parameters import Address, parse_address
from pykbroker.core.errors import StartError

ALL_INTERFACES = "0.0.0.0"
CONTROLLER_NAMES = "CONTROLLER"


@dataclass(frozen=True)
class ServerProperties:
    """The configs of a file and the line of each. If a name is repeated, its last line counts."""

    path: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)

    def place(self, name: str) -> str:
        """Return FILE:LINE of a config."""
        return f"{self.path}:{self.lines[name]}"


def read_properties(path: str) -> ServerProperties:
    """Read a file in Java's properties format. StartError: it cannot be read or parsed."""
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
    """Return the plaintext listener for clients, or None if `listeners` is unset. StartError: it is unsupported."""
    found = {name: address for name, address in listeners(texts, "listeners") if name not in controllers(texts)}
    if not found and "listeners" in texts:
        raise StartError(
            "listeners has none for clients; add one such as PLAINTEXT://localhost:9092, or use --listen HOST:PORT"
        )
    for name in found:
        protocol = protocols(texts).get(name, name)
        if protocol != "PLAINTEXT":
            raise StartError(
                f"listener {name} uses {protocol}, which pykbroker does not support: change listeners, "
                "or replace them with --listen HOST:PORT"
            )
    if len(found) > 1:
        raise StartError(
            f"pykbroker supports one listener, but listeners has {', '.join(found)}: "
            "keep one, or replace them with --listen HOST:PORT"
        )
    for address in found.values():
        return Address(address.host or ALL_INTERFACES, address.port)
    return None


def advertised_address(texts: Mapping[str, str]) -> Address | None:
    """Return the address of `advertised.listeners` for clients, or None."""
    for name, address in listeners(texts, "advertised.listeners"):
        if name not in controllers(texts) and address.host:
            return address
    return None


def listeners(texts: Mapping[str, str], config: str) -> Iterator[tuple[str, Address]]:
    """Yield (NAME, address) of each NAME://HOST:PORT. StartError: an entry has another form."""
    for listener in filter(None, map(str.strip, texts.get(config, "").split(","))):
        name, separator, address = listener.partition("://")
        if not separator:
            raise StartError(f"{config}: {listener!r} is not NAME://HOST:PORT")
        try:
            yield name.upper(), parse_address(address)
        except ValueError as error:
            raise StartError(f"{config}: {error}") from None


def controllers(texts: Mapping[str, str]) -> set[str]:
    """Return the names of listeners that only controllers use."""
    return {name.strip().upper() for name in texts.get("controller.listener.names", CONTROLLER_NAMES).split(",")}


def protocols(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the security protocol of each listener in `listener.security.protocol.map`."""
    pairs = (pair.partition(":") for pair in texts.get("listener.security.protocol.map", "").split(",") if pair)
    return {name.strip().upper(): protocol.strip().upper() for name, _, protocol in pairs}
