"""The stores of TLS: a private key with its certificates, and certificates to trust, from files or PEM text.

1. A file of type JKS or PKCS12 is read as PKCS12, which Java writes for both since version 9. It needs `cryptography`.
2. A true JKS file is refused with the command that converts it.

A function raises StartError, whose text names the config and the file, and says what to do.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable
from ssl import DER_cert_to_PEM_cert
from typing import TYPE_CHECKING

import msgspec

from pykbroker.core.config.tls_settings import PEM, TlsStore
from pykbroker.core.errors import StartError
from pykbroker.core.security.certificate import MalformedCertificate, certificate
from pykbroker.core.security.iterations import TooManyIterations, check_iterations
from pykbroker.core.security.secret import Secret
from pykbroker.world.tls_files import read_store

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

JKS_MAGIC, SEQUENCE = b"\xfe\xed\xfe\xed", b"\x30"
BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
"""A block of PEM. Inline text may have its lines joined by spaces, as Kafka allows."""
CERTIFICATES = ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE")
KEY_END, ENCRYPTED = "PRIVATE KEY", "ENCRYPTED PRIVATE KEY"


class KeyEntry(msgspec.Struct, frozen=True):
    """A private key in PEM, its password if it is encrypted, and its certificates in DER, its own first."""

    key: Secret
    password: Secret | None
    chain: tuple[bytes, ...]


def read_identity(store: TlsStore, key_password: Secret | None) -> KeyEntry:
    """Return the private key and the certificates of a keystore."""
    data = content_of(store)
    if store.kind == PEM:
        text = text_of(store, data)
        keys = [each for each in blocks(text) if each[0].endswith(KEY_END)]
        chain = certificates(store, text)
        if not keys or not chain:
            missing = "certificate" if keys else "private key"
            raise StartError(
                f"{store.place}: there is no {missing}: append one in PEM (-----BEGIN {missing.upper()}-----)"
            )
        label, key = keys[0]
        if label == ENCRYPTED:
            check_decryption(store, decoded(store, key, "key"))
        return KeyEntry(Secret(key), key_password, chain)
    return pkcs12_identity(store, data)


def read_trusted(store: TlsStore) -> tuple[bytes, ...]:
    """Return the certificates of a truststore in DER."""
    data = content_of(store)
    trusted = certificates(store, text_of(store, data)) if store.kind == PEM else pkcs12_trusted(store, data)
    if not trusted:
        raise StartError(f"{store.place}: there is no certificate to trust: add that of the authority of your clients")
    return trusted


def pem_of(chain: Iterable[bytes]) -> str:
    """Return certificates in PEM."""
    return "".join(map(DER_cert_to_PEM_cert, chain))


def content_of(store: TlsStore) -> bytes:
    """Return the bytes of a store, which are of its type."""
    if store.location is None:
        assert store.text is not None
        return store.text.reveal().encode()
    try:
        data = read_store(store.location)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise StartError(f"{store.place}: {reason}: name a file that this process can read") from None
    if data.startswith(JKS_MAGIC):
        raise StartError(
            f"{store.place}: this is a JKS file, which only Java reads: convert it by keytool -importkeystore"
            f" -srckeystore {store.location} -destkeystore {store.location}.p12 -deststoretype PKCS12"
        )
    if (store.kind == PEM) == data.startswith(SEQUENCE):
        found = "a PKCS12" if store.kind == PEM else "no PKCS12"
        wanted = "PKCS12" if store.kind == PEM else "PEM, if it begins with -----BEGIN"
        config = f"{configs_of(store)}.type"
        raise StartError(f"{store.place}: this is {found} file, and {config} is {store.kind}: set it to {wanted}")
    return data


def configs_of(store: TlsStore) -> str:
    """Return the beginning of the names of the configs of a store in a file, such as ssl.keystore."""
    return store.place.partition(": ")[2].partition(".location")[0]


def text_of(store: TlsStore, data: bytes) -> str:
    """Return the text of a store in PEM."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise StartError(f"{store.place}: this is no text: write a file in PEM (-----BEGIN CERTIFICATE-----)") from None


def blocks(text: str) -> list[tuple[str, str]]:
    """Return the label and the text of each block in PEM, with the line ends that OpenSSL wants."""
    found = []
    for match in BLOCK.finditer(text):
        label, body = match[1], match[2]
        header, separator, encoded = body.rpartition("\n\n")  # an encrypted key of the old kind has headers
        lines = "\n".join(encoded.split())
        body = f"{header.strip()}{separator}{lines}"
        found.append((label, f"-----BEGIN {label}-----\n{body}\n-----END {label}-----\n"))
    return found


def certificates(store: TlsStore, text: str) -> tuple[bytes, ...]:
    """Return the certificates in a text of PEM, in DER."""
    found = []
    for label, block in blocks(text):
        if label in CERTIFICATES:
            found.append(decoded(store, block, "certificate"))
    return tuple(found)


def decoded(store: TlsStore, block: str, what: str) -> bytes:
    """Return the content of a block of PEM, in DER."""
    try:
        return b64decode("".join(block.split("\n")[1:-2]), validate=True)
    except ValueError:
        raise StartError(f"{store.place}: a {what} is no base64: copy the file again") from None


def check_decryption(store: TlsStore, der: bytes) -> None:
    """Raise StartError for a store whose decryption would hold up this process, as an AlterConfigs request may ask."""
    try:
        check_iterations(der)
    except TooManyIterations as error:
        raise StartError(f"{store.place}: {error}") from None
    except (IndexError, ValueError):
        raise StartError(f"{store.place}: it is not encoded in DER: write it again") from None


def pkcs12_identity(store: TlsStore, data: bytes) -> KeyEntry:
    """Return the private key of a PKCS12 file and its certificates, each before the one that has signed it."""
    found = load_pkcs12(store, data)
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    if found.key is None or found.cert is None:
        raise StartError(f"{store.place}: there is no private key with a certificate: name a keystore")
    key = found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    chain, rest = [found.cert.certificate], [each.certificate for each in found.additional_certs]
    try:
        while chain[-1].issuer != chain[-1].subject:
            signers = [each for each in rest if each.subject == chain[-1].issuer and each not in chain]
            if not signers:
                break
            chain.append(signers[0])
    except ValueError:  # `cryptography` decodes a name when it is asked for
        raise StartError(f"{store.place}: a certificate cannot be decoded: write it again") from None
    return KeyEntry(Secret(key), None, tuple(each.public_bytes(Encoding.DER) for each in chain))


def pkcs12_trusted(store: TlsStore, data: bytes) -> tuple[bytes, ...]:
    """Return the certificates of a PKCS12 file to trust.

    In a file with a key, Java trusts the key's own certificate, those of other keys, and trusted entries, but not those
    that have signed a key's certificate. It names an entry by its alias, and such a signer by its subject.
    """
    found = load_pkcs12(store, data)
    from cryptography.hazmat.primitives.serialization import Encoding

    trusted = [] if found.cert is None else [found.cert.certificate.public_bytes(Encoding.DER)]
    for each in found.additional_certs:
        der = each.certificate.public_bytes(Encoding.DER)
        if found.cert is None or each.friendly_name not in (None, java_name(der)):
            trusted.append(der)
    return tuple(trusted)


def java_name(der: bytes) -> bytes | None:
    """Return the name that Java gives to a certificate without an alias, or None if it cannot be decoded."""
    try:
        return certificate(der).name.encode()
    except MalformedCertificate:
        return None


def load_pkcs12(store: TlsStore, data: bytes) -> PKCS12KeyAndCertificates:
    """Return the content of a PKCS12 file. Its password is also that of its key, as keytool has it."""
    try:
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12 as load
    except ImportError:
        raise StartError(
            f"{store.place}: a {store.kind} file needs the package cryptography: pip install 'pykbroker[security]',"
            " or write the store in PEM"
        ) from None
    check_decryption(store, data)
    password = None if store.password is None else store.password.reveal().encode()
    try:
        if password is not None and b"\0" in password:
            raise ValueError  # `cryptography` panics, which is no Exception and would end this process
        return load(data, password)
    except Exception:  # noqa: BLE001 - such as InvalidVersion and UnsupportedAlgorithm, which are no ValueError
        wrong = "is missing or the file is damaged" if password is None else "is wrong, or the file is damaged"
        raise StartError(
            f"{store.place}: {configs_of(store)}.password {wrong}: keytool -list -keystore FILE asks for it"
        ) from None
