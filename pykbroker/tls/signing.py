"""The making of a broker's own certificates: keys on the curve P-256, in files that only the broker's user can read.

Only a start that makes a certificate imports this module, which needs the package cryptography.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pykbroker.core.config.host_counts import is_name
from pykbroker.core.security.certificate import certificate
from pykbroker.core.security.own_certificates import (
    AUTHORITY,
    AUTHORITY_KEY,
    AUTHORITY_LIFE_DAYS,
    KEYSTORE,
    LIFE_DAYS,
    may_sign,
)
from pykbroker.world.tls_files import read_store, replace_store, stamp

logger = logging.getLogger(__name__)

EARLIER = timedelta(hours=1)
"""The time before now at which a certificate begins to be valid, for clients whose clocks are slow."""
NAME_CHARACTERS = len("pykbroker CA ") + 10
"""The length of an authority's name. Ten digits of its serial number distinguish it from an earlier one."""


class Authority:
    """The certificate of an authority, and its key."""

    def __init__(self, signed: x509.Certificate, key: EllipticCurvePrivateKey) -> None:
        self.signed, self.key = signed, key

    def sign(self, name: str, hosts: frozenset[str], now: datetime) -> bytes:
        """Return a new key and its certificate with this name for these hosts, in PEM."""
        key = generate_private_key(SECP256R1())
        builder = unsigned(common_name(name), self.signed.subject, key, now, LIFE_DAYS)
        names = [x509.DNSName(host) if is_name(host) else x509.IPAddress(ip_address(host)) for host in sorted(hosts)]
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )
        return key_pem(key) + builder.sign(self.key, SHA256()).public_bytes(Encoding.PEM)


def renew(directory: str, of_authority: str, name: str, hosts: frozenset[str], now: float) -> None:
    """Write a new certificate for these hosts, signed by the authority of a directory, or else by a new one.

    Raise OSError if a file cannot be read or written.
    """
    time = datetime.fromtimestamp(now, UTC)
    authority = kept_authority(of_authority, now)
    if authority is None:
        if any(stamp(f"{of_authority}/{AUTHORITY}")):
            logger.warning(
                "%s: another authority takes its place, which clients have to trust anew: it is damaged or expires, or"
                " %s is missing or is not its key",
                f"{of_authority}/{AUTHORITY}",
                AUTHORITY_KEY,
            )
        authority = new_authority(time)
        # A crash between the two leaves a key that does not fit, and the next start makes another authority.
        replace_store(f"{of_authority}/{AUTHORITY_KEY}", key_pem(authority.key), is_secret=True)
        replace_store(f"{of_authority}/{AUTHORITY}", authority.signed.public_bytes(Encoding.PEM), is_secret=False)
    replace_store(f"{directory}/{KEYSTORE}", authority.sign(name, hosts, time), is_secret=True)


def kept_authority(directory: str, now: float) -> Authority | None:
    """Return the authority of a directory, or None if it has none that may sign. Raise OSError if it cannot be read."""
    try:
        signed = x509.load_pem_x509_certificate(read_store(f"{directory}/{AUTHORITY}"))
        key = load_pem_private_key(read_store(f"{directory}/{AUTHORITY_KEY}"), None)
    except (FileNotFoundError, ValueError, TypeError):
        return None
    if not isinstance(key, EllipticCurvePrivateKey) or key.public_key() != signed.public_key():
        return None
    return Authority(signed, key) if may_sign(certificate(signed.public_bytes(Encoding.DER)), now) else None


def new_authority(now: datetime) -> Authority:
    """Return an authority with a new key, which signs itself."""
    key, serial = generate_private_key(SECP256R1()), x509.random_serial_number()
    name = common_name(f"pykbroker CA {serial:040x}"[:NAME_CHARACTERS])
    builder = (
        unsigned(name, name, key, now, AUTHORITY_LIFE_DAYS, serial)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(signs_certificates=True), critical=True)
    )
    return Authority(builder.sign(key, SHA256()), key)


def unsigned(
    subject: x509.Name,
    issuer: x509.Name,
    key: EllipticCurvePrivateKey,
    now: datetime,
    days: int,
    serial: int | None = None,
) -> x509.CertificateBuilder:
    """Return a certificate without signature, whose lifetime in days begins now."""
    return x509.CertificateBuilder(
        issuer,
        subject,
        key.public_key(),
        x509.random_serial_number() if serial is None else serial,
        (now - EARLIER).replace(tzinfo=None),
        (now + timedelta(days=days)).replace(tzinfo=None),
    ).add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def common_name(text: str) -> x509.Name:
    """Return the name `CN=text`."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """Return the usage of an authority's key, or of a broker's."""
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def key_pem(key: EllipticCurvePrivateKey) -> bytes:
    """Return a key in PEM."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
