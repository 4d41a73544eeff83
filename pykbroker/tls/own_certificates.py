"""The certificates that a broker makes for itself, which its next starts reuse.

A start that makes one needs `cryptography`. A function raises StartError if that is missing, or a file cannot be read
or written.
"""

from __future__ import annotations

from pykbroker.core.config.tls_settings import PEM, TlsStore
from pykbroker.core.errors import StartError
from pykbroker.core.security.certificate import Certificate, MalformedCertificate, certificate
from pykbroker.core.security.own_certificates import AUTHORITY, KEYSTORE, has_to_be_renewed
from pykbroker.tls.stores import read_identity, read_trusted


def keep_certificates(
    directory: str, hosts: frozenset[str], now: float, *, authority: str | None = None, name: str = "pykbroker"
) -> bool:
    """Make an authority and a certificate for these hosts, unless the directory has them. Return whether it had not.

    The authority has a directory of its own if `authority` is one. `name` is the name in the certificate, and `now` is
    in seconds since 1970.
    """
    found = kept_certificates(directory, authority or directory)
    if found is not None and not has_to_be_renewed(*found, hosts, now):
        return False
    try:
        from pykbroker.tls import signing
    except ImportError:
        raise StartError(
            "a start that makes a certificate needs the package cryptography: pip install 'pykbroker[security]'"
        ) from None
    try:
        signing.renew(directory, authority or directory, name, hosts, now)
    except OSError as error:
        raise StartError(
            f"this user cannot read or write {error.filename} ({error.strerror}), a file of a certificate: give it the"
            " owner and the mode that it had"
        ) from None
    return True


def kept_certificates(directory: str, of_authority: str) -> tuple[Certificate, Certificate] | None:
    """Return the broker's certificate and that of the authority, or None if a file is missing or damaged."""
    own = TlsStore(KEYSTORE, PEM, f"{directory}/{KEYSTORE}")
    authority = TlsStore(AUTHORITY, PEM, f"{of_authority}/{AUTHORITY}")
    try:
        return certificate(read_identity(own, None).chain[0]), certificate(read_trusted(authority)[0])
    except (StartError, MalformedCertificate):
        return None
