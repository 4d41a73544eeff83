"""IP addresses, as the JVM reads them."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address


def parse_ip(host: str | bytes) -> IPv4Address | IPv6Address:
    """Parse an address. Return IPv4 for an IPv4 address that is mapped into IPv6. Raise ValueError for other hosts."""
    found = ip_address(host)
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found
