"""Numbers by IP address, as `max.connections.per.ip.overrides` writes them: "10.0.0.7:20,[::1]:5"."""

from __future__ import annotations

from ipaddress import ip_address

from pykbroker.core.config_type import invalid


def read_host_counts(name: str, text: str) -> dict[str, int]:
    """The numbers by address. ApiError INVALID_CONFIG; so is a host's name, which would have to be asked for."""
    counts: dict[str, int] = {}
    for item in filter(None, map(str.strip, text.split(","))):
        host, _, count = item.rpartition(":")
        try:
            counts[str(ip_address(host.strip("[]")))] = int(count)
        except ValueError:
            raise invalid(name, text, f"'{item}' is not an IP address, a colon and a number") from None
    return counts
