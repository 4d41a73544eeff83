"""The facts of a certificate that a broker checks and tells (X.509, RFC 5280), read from its DER."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from ipaddress import ip_address

import msgspec

from pykbroker.core.security.der import content, oid, values
from pykbroker.core.security.distinguished_name import distinguished_name

VERSION, EXTENSIONS = 0xA0, 0xA3
"""The tags of the optional version at the beginning of a certificate, and of the extensions at its end."""
UTC_TIME = 0x17
ALTERNATIVE_NAMES, COMMON_NAME = "2.5.29.17", "2.5.4.3"
DNS_NAME, IP_ADDRESS = 0x82, 0x87


class MalformedCertificate(ValueError):
    """An error of a certificate that is not encoded in DER."""


class Certificate(msgspec.Struct, frozen=True):
    """A certificate. Names are in DER, times in seconds since 1970."""

    subject: bytes
    issuer: bytes
    valid_from: float
    valid_until: float
    hosts: frozenset[str]
    """The DNS names and addresses that it is for, in lower case. Without any, its common names are."""

    @property
    def name(self) -> str:
        """Return the subject as Java writes it."""
        return distinguished_name(self.subject)

    def is_for(self, host: str) -> bool:
        """Whether the certificate is for a host, by its name, by a wildcard for its first label, or by address."""
        host = host.lower().rstrip(".")
        if host in self.hosts:
            return True
        _, dot, domain = host.partition(".")
        return bool(dot) and f"*.{domain}" in self.hosts


def certificate(der: bytes) -> Certificate:
    """Return the facts of a certificate. Raise MalformedCertificate if it is none."""
    try:
        fields = list(values(content(next(values(content(der))))))
        if fields[0][0] == VERSION:
            del fields[0]
        _, _, issuer, validity, subject = fields[:5]
        valid_from, valid_until = map(seconds, values(content(validity)))
        extensions = [each for each in fields[5:] if each[0] == EXTENSIONS]
        hosts = {host for each in extensions for host in alternative_names(content(each))}
        distinguished_name(subject)
        return Certificate(subject, issuer, valid_from, valid_until, frozenset(hosts or common_names(subject)))
    except (IndexError, ValueError, StopIteration) as error:
        raise MalformedCertificate("the certificate is not encoded in DER") from error


def seconds(der: bytes) -> float:
    """Return a time in seconds since 1970."""
    text = content(der).decode()
    if der[0] == UTC_TIME:  # two digits of the year, for 1950 to 2049
        text = ("20" if text[:2] < "50" else "19") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def alternative_names(extensions: bytes) -> Iterator[str]:
    """Yield the DNS names and addresses of a certificate."""
    for extension in values(content(extensions)):
        kind, *_, value = values(content(extension))
        if oid(content(kind)) == ALTERNATIVE_NAMES:
            for name in values(content(content(value))):
                if name[0] == DNS_NAME:
                    yield content(name).decode().lower()
                elif name[0] == IP_ADDRESS:
                    yield str(ip_address(content(name)))


def common_names(subject: bytes) -> Iterator[str]:
    """Yield the common names of a subject."""
    for relative in values(content(subject)):
        for attribute in values(content(relative)):
            kind, value = values(content(attribute))
            if oid(content(kind)) == COMMON_NAME:
                yield content(value).decode(errors="replace").lower()
