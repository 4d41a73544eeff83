"""The contexts of TLS for listeners and for outgoing connections, with what is checked before one is used.

A function raises StartError, whose text names the config and the file, and says what to do.
"""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from itertools import pairwise

import msgspec

from pykbroker.core.config.tls_settings import KEY_PASSWORD, TLS12, TLS13, ClientTlsSettings, TlsSettings, TlsStore
from pykbroker.core.errors import StartError
from pykbroker.core.security.certificate import Certificate, MalformedCertificate, certificate
from pykbroker.tls.stores import KeyEntry, pem_of, read_identity, read_trusted
from pykbroker.world.tls_files import private_file

VERIFIES = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
ONE_CURVE = "prime256v1"
VERSIONS = {TLS12: ssl.TLSVersion.TLSv1_2, TLS13: ssl.TLSVersion.TLSv1_3}


class TlsContext(msgspec.Struct, frozen=True):
    """The contexts of a listener, and the certificate that they show."""

    context: ssl.SSLContext
    of_one_curve: ssl.SSLContext
    """The same, with P-256 as the only group. It is for clients that could choose a slow group (`client_hello`)."""
    certificate: Certificate


def server_context(settings: TlsSettings, now: float) -> TlsContext:
    """Return the contexts of a listener. `now` is in seconds since 1970."""
    identity = read_identity(settings.keystore, settings.key_password)
    trusted = None if settings.truststore is None else read_trusted(settings.truststore)
    usual, of_one_curve = (new_context(ssl.PROTOCOL_TLS_SERVER, settings) for _ in range(2))
    of_one_curve.set_ecdh_curve(ONE_CURVE)
    for context in (usual, of_one_curve):
        context.num_tickets = 1  # as in Java: each takes 5 % of the time of a handshake
        own = load_identity(context, settings.keystore, identity, now)
        if settings.truststore is not None and trusted is not None:
            trust(context, settings.truststore, trusted)
        context.verify_mode = VERIFIES[settings.client_auth]
    return TlsContext(usual, of_one_curve, own)


def client_context(settings: ClientTlsSettings, now: float) -> ssl.SSLContext:
    """Return the context of outgoing connections. `now` is in seconds since 1970."""
    context = new_context(ssl.PROTOCOL_TLS_CLIENT, settings)
    context.check_hostname = settings.checks_host
    if settings.keystore is not None:
        load_identity(context, settings.keystore, read_identity(settings.keystore, settings.key_password), now)
    if settings.truststore is None:
        context.load_default_certs()
    else:
        trust(context, settings.truststore, read_trusted(settings.truststore))
    return context


def new_context(protocol: int, settings: TlsSettings | ClientTlsSettings) -> ssl.SSLContext:
    """Return a context with the versions and cipher suites of the settings."""
    context = ssl.SSLContext(protocol)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.minimum_version = min(VERSIONS[each] for each in settings.versions)
    context.maximum_version = max(VERSIONS[each] for each in settings.versions)
    if settings.ciphers:
        context.set_ciphers(":".join(settings.ciphers))
    return context


def load_identity(context: ssl.SSLContext, store: TlsStore, identity: KeyEntry, now: float) -> Certificate:
    """Let a context show a certificate, and return its facts."""
    try:
        chain = [certificate(each) for each in identity.chain]
    except MalformedCertificate:
        raise StartError(f"{store.place}: a certificate cannot be decoded: write it again") from None
    check_chain(store, chain, now)
    password = "" if identity.password is None else identity.password.reveal()
    with private_file(f"{identity.key.reveal()}{pem_of(identity.chain)}".encode()) as path:
        try:
            context.load_cert_chain(path, password=password)  # without a password OpenSSL would ask on the terminal
        except (ssl.SSLError, ValueError) as error:  # ValueError: the password is longer than OpenSSL takes
            raise StartError(f"{store.place}: {key_problem(error, given=identity.password is not None)}") from None
    return chain[0]


def check_chain(store: TlsStore, chain: list[Certificate], now: float) -> None:
    """Raise StartError for a certificate that is not valid now, or that the next one has not signed."""
    for each in chain:
        if now < each.valid_from:
            raise StartError(
                f"{store.place}: the certificate of {each.name} is valid only from {day(each.valid_from)}: check the"
                " clock of this machine, or use another certificate"
            )
        if now > each.valid_until:
            raise StartError(
                f"{store.place}: the certificate of {each.name} expired on {day(each.valid_until)}: renew it"
            )
    for one, signer in pairwise(chain):
        if one.issuer != signer.subject:
            raise StartError(
                f"{store.place}: the chain is incomplete: the certificate of {one.name} is followed by that of"
                f" {signer.name}, which has not signed it: write each certificate before that of its signer"
            )


def key_problem(error: ssl.SSLError | ValueError, *, given: bool) -> str:
    """Return what is wrong with a private key, and what to do."""
    reason = getattr(error, "reason", None)
    if reason == "KEY_VALUES_MISMATCH":
        return "the private key does not belong to the first certificate: put the certificate of the key first"
    if reason in ("EE_KEY_TOO_SMALL", "CA_MD_TOO_WEAK", "CA_KEY_TOO_SMALL"):
        stronger = "that is signed with SHA-256" if reason == "CA_MD_TOO_WEAK" else "with a longer key"
        return f"OpenSSL refuses the certificate as too weak ({reason}): make one {stronger}"
    if given:
        return f"the private key cannot be decrypted: check {KEY_PASSWORD}"
    return f"the private key cannot be read: set {KEY_PASSWORD} if it is encrypted"


def trust(context: ssl.SSLContext, store: TlsStore, trusted: tuple[bytes, ...]) -> None:
    """Let a context trust each certificate of a store by itself, as Java does, also one that another has signed."""
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=pem_of(trusted))
    except ssl.SSLError:
        raise StartError(f"{store.place}: a certificate cannot be decoded: write it again") from None


def day(seconds: float) -> str:
    """Return a time as people write it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
