"""IP addresses, as the JVM reads them."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address


def parse_ip(host: str | bytes) -> IPv4Address | IPv6Address:
    """Parse an address. One of IPv4 that is mapped into IPv6 is the IPv4 address. Raise ValueError for other hosts."""
    found = ip_address(host)
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found
