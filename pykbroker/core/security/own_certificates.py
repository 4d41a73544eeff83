"""The certificates that a broker makes for itself: their files, their hosts, and when they are renewed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pykbroker.core.config.host_counts import is_name
from pykbroker.core.config.listeners import NOT_ROUTABLE, ListenerSettings
from pykbroker.core.ip_address import parse_ip

if TYPE_CHECKING:
    from pykbroker.core.security.certificate import Certificate

AUTHORITY, AUTHORITY_KEY, KEYSTORE = "tls-ca.pem", "tls-ca-key.pem", "tls-broker.pem"
"""The files: the certificate of the authority, its key, and the broker's key with its certificate.

They are files of the first log directory and no directory in it, since Kafka does not start on a log directory that
has a directory without a partition's name.
"""
FILES = tuple(f"{name}{end}" for name in (AUTHORITY, AUTHORITY_KEY, KEYSTORE) for end in ("", ".tmp"))
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")

DAY_S = 86_400
LIFE_DAYS = 825
"""The lifetime of a broker's certificate. Apple's systems trust no certificate with a longer lifetime."""
RENEWED_DAYS = 400
"""A start renews a certificate that has fewer days left, so that one start a year keeps clients connected."""
AUTHORITY_LIFE_DAYS = 3_650


def hosts_of(listeners: Iterable[ListenerSettings], host_name: str) -> frozenset[str]:
    """Return the hosts by which clients reach the listeners with TLS, from this machine or another one."""
    hosts = {*LOCAL_HOSTS, host_name}
    for listener in listeners:
        if listener.protocol.has_tls:
            hosts |= {each.host for each in (listener.address, listener.advertised) if each is not None}
    return frozenset(written(host) for host in hosts.difference(NOT_ROUTABLE) if host.isascii() and host)


def written(host: str) -> str:
    """Return a host as a certificate has it: a name in lower case, or an address without its zone."""
    return host.lower().rstrip(".") if is_name(host) else str(parse_ip(host.partition("%")[0]))


def has_to_be_renewed(own: Certificate, authority: Certificate, hosts: frozenset[str], now: float) -> bool:
    """Whether a start makes another certificate: for other hosts, by another authority, or since it expires soon."""
    return own.issuer != authority.subject or not hosts <= own.hosts or own.valid_until - now < RENEWED_DAYS * DAY_S


def may_sign(authority: Certificate, now: float) -> bool:
    """Whether the authority is valid as long as a certificate that it signs now."""
    return authority.valid_until - now > LIFE_DAYS * DAY_S
