"""IP addresses, as the JVM reads them."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address


def parse_ip(host: str | bytes) -> IPv4Address | IPv6Address:
    """Parse an address. Return IPv4 for an IPv4 address that is mapped into IPv6. Raise ValueError for other hosts."""
    found = ip_address(host)
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found


def java_text(host: str) -> str:
    """Return an address as Java writes it, which ACLs are compared with: IPv6 has eight numbers without leading zeros.

    Other hosts than addresses are returned as they are.
    """
    if ":" not in host:
        return host
    address, scoped, scope = host.partition("%")
    try:
        found = parse_ip(address)
    except ValueError:
        return host
    if isinstance(found, IPv4Address):
        return str(found)
    return ":".join(f"{int(part, 16):x}" for part in found.exploded.split(":")) + scoped + scope
