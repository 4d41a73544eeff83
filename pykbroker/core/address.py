"""A TCP address as text: HOST:PORT, with an IPv6 host in brackets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

PORT_MAX = 65_535
HOST = re.compile(r"[0-9a-zA-Z.:%_-]*")
"""The characters that Kafka takes in a host (SocketServerConfigs)."""


class Address(NamedTuple):
    """An address to listen on or to connect to. Its text has an IPv6 host in brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Parse HOST:PORT or [IPV6]:PORT. The host may be empty. Raise ValueError for any other text."""
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or (":" in host and not bracketed):
        raise ValueError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:9092 or [::1]:9092")
    if not HOST.fullmatch(host.strip("[]")):
        raise ValueError(f"{host!r} in {text!r} is not a host: write a name or an IP address")
    if not (port.isascii() and port.isdigit() and int(port) <= PORT_MAX):
        raise ValueError(f"{port!r} in {text!r} is not a port: 0 to {PORT_MAX}")
    return Address(host[1:-1] if bracketed else host, int(port))


def named(addresses: Iterable[Address]) -> str:
    """Return several addresses as text."""
    return ", ".join(map(str, addresses))
