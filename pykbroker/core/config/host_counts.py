"""Numbers by host, in the format of `max.connections.per.ip.overrides`: "10.0.0.7:20,[::1]:5,build.example.org:7"."""

from __future__ import annotations

import re
from ipaddress import ip_address

from pykbroker.core.config.type import invalid
from pykbroker.core.ip_address import parse_ip

LABEL = "[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
NAME = re.compile(rf"(?=.{{1,253}}$){LABEL}(\.{LABEL})*", re.IGNORECASE)


def read_host_counts(name: str, text: str) -> dict[str, int]:
    """Return the numbers by address or host name. Raise ApiError INVALID_CONFIG if the text is malformed."""
    counts: dict[str, int] = {}
    for item in filter(None, map(str.strip, text.split(","))):
        host, _, count = item.rpartition(":")
        try:
            counts[read_host(host)] = int(count)
        except ValueError:
            raise invalid(
                name, text, f"'{item}' is not an IP address or the name of a host, a colon and a number"
            ) from None
    return counts


def read_host(text: str) -> str:
    """Return an address in the kernel's notation, or a host name in lower case. Raise ValueError for any other text."""
    try:
        return str(parse_ip(text.strip("[]")))
    except ValueError:
        if not NAME.fullmatch(text) or text.rpartition(".")[2].isdigit():  # a malformed address
            raise
        return text.lower()


def is_name(host: str) -> bool:
    """Whether the host is a name, which must be resolved."""
    try:
        ip_address(host)
    except ValueError:
        return True
    return False
