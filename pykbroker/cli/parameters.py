"""The types of options: an address, a topic with its number of partitions, a config."""

from __future__ import annotations

from typing import NamedTuple

import click

PORT_MAX = 65_535


class Address(NamedTuple):
    """An address to listen on or to connect to. As text, an IPv6 host stands in brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Parse HOST:PORT or [IPV6]:PORT. The host may be empty. ValueError: the text is neither."""
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or (":" in host and not bracketed):
        raise ValueError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:9092 or [::1]:9092")
    if not (port.isascii() and port.isdigit() and int(port) <= PORT_MAX):
        raise ValueError(f"{port!r} in {text!r} is not a port: 0 to {PORT_MAX}")
    return Address(host[1:-1] if bracketed else host, int(port))


def address(text: str) -> Address:
    """Parse the HOST:PORT of an option."""
    try:
        parsed = parse_address(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if not parsed.host:
        raise click.BadParameter(f"{text!r} has no host; for all interfaces use 0.0.0.0:{parsed.port}")
    return parsed


def topic(text: str) -> tuple[str, int]:
    """Parse the NAME:PARTITIONS of an option."""
    from pykbroker.core.errors import ApiError
    from pykbroker.core.names import check_topic_name

    name, _, partitions = text.rpartition(":")
    if not (partitions.isascii() and partitions.isdigit() and int(partitions) > 0):
        raise click.BadParameter(f"{text!r} is not NAME:PARTITIONS, such as orders:3")
    try:
        check_topic_name(name)
    except ApiError as error:
        raise click.BadParameter(str(error)) from None
    return name, int(partitions)


def config(text: str) -> tuple[str, str]:
    """Parse the KEY=VALUE of an option."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise click.BadParameter(f"{text!r} is not KEY=VALUE, such as num.partitions=3")
    return key.strip(), value.strip()
