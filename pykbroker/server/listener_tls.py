"""The TLS of one listener: its context, the principals of certificates, and log lines about handshakes that fail."""

from __future__ import annotations

import errno
import ssl
from typing import Any

import msgspec

from pykbroker.core.config.tls_settings import TlsSettings
from pykbroker.core.errors import StartError
from pykbroker.core.security.certificate import MalformedCertificate, certificate
from pykbroker.core.security.cipher_suites import IANA_NAMES
from pykbroker.core.security.client_hello import has_quick_keys, is_cut_off
from pykbroker.core.security.principal_mapping import NoRule
from pykbroker.server.authentications import Authentications
from pykbroker.server.strangers import Strangers
from pykbroker.tls.context import TlsContext, server_context

NO_TLS = (
    "it does not speak TLS, and the listener does: set security.protocol=SSL in the client, or SASL_SSL if the"
    " listener has SASL"
)
NO_VERSION = "it has no version of TLS in common with ssl.enabled.protocols: let the client use TLSv1.2 or TLSv1.3"
NO_CIPHER = "it has no cipher suite in common with the listener: see ssl.cipher.suites and the key of the certificate"
NO_CERTIFICATE = "it shows no certificate, and ssl.client.auth is required: set ssl.keystore.location in the client"
DISTRUSTS = "it does not trust the certificate of this listener: set ssl.truststore.location in the client"
NO_NAME = "its certificate names no principal"
REASONS = {
    "HTTP_REQUEST": NO_TLS,
    "HTTPS_PROXY_REQUEST": NO_TLS,
    "WRONG_VERSION_NUMBER": NO_TLS,
    "UNKNOWN_PROTOCOL": NO_TLS,
    "UNSUPPORTED_PROTOCOL": NO_VERSION,
    "VERSION_TOO_LOW": NO_VERSION,
    "TLSV1_ALERT_PROTOCOL_VERSION": NO_VERSION,
    "NO_SHARED_CIPHER": NO_CIPHER,
    "NO_SUITABLE_SIGNATURE_ALGORITHM": NO_CIPHER,
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": NO_CERTIFICATE,
    "TLSV1_ALERT_UNKNOWN_CA": DISTRUSTS,
    "SSLV3_ALERT_BAD_CERTIFICATE": DISTRUSTS,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": DISTRUSTS,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": DISTRUSTS,
}
"""The cause of a failed handshake, and what to do, by the reason of OpenSSL."""
REMEDIES = {
    9: "it is not valid yet: check the clock of this machine",  # X509_V_ERR_CERT_NOT_YET_VALID
    10: "renew it",  # X509_V_ERR_CERT_HAS_EXPIRED
    26: "make one for the use as a client: extendedKeyUsage=clientAuth",  # X509_V_ERR_INVALID_PURPOSE
    66: "make one with a longer key",  # X509_V_ERR_EE_KEY_TOO_SMALL
    67: "make one that an authority with a longer key signs",  # X509_V_ERR_CA_KEY_TOO_SMALL
    68: "make one that is signed with SHA-256",  # X509_V_ERR_CA_MD_TOO_WEAK
}
"""The advice about the certificate of a client, by OpenSSL's number of what is wrong with it."""
TRUST = "add the one that has signed it to ssl.truststore.location of the listener"


class ListenerTls:
    """The TLS of a listener. It matches `world.net.Tls`. An open connection keeps the context that it began with.

    `names_principals` is false if clients log in by SASL, which then names them. `now` is in seconds since 1970. Raise
    StartError if the settings cannot be served.
    """

    def __init__(self, settings: TlsSettings, now: float, strangers: Strangers, *, names_principals: bool) -> None:
        self.settings, self._strangers, self._names_principals = settings, strangers, names_principals
        self.made: TlsContext = server_context(settings, now)
        self.counts = Authentications()

    def reload(self, settings: TlsSettings, made: TlsContext) -> None:
        """Use other settings, or the same with changed files, for new connections. `made` is `reloaded` of them."""
        self.settings, self.made = settings, made

    def reloaded(self, settings: TlsSettings, now: float) -> TlsContext:
        """Return the context of other settings, in any thread. Raise StartError if it may not follow the one in use."""
        made = server_context(settings, now)
        old, new = self.made.certificate, made.certificate
        if old.subject != new.subject and not settings.may_change_name:
            raise StartError(
                f"{settings.keystore.place}: the certificate is of {new.name}, and that before was of {old.name}: use"
                " one of the same name, or set ssl.allow.dn.changes=true"
            )
        if not new.hosts >= old.hosts and not settings.may_change_hosts:
            raise StartError(
                f"{settings.keystore.place}: the certificate is not for {', '.join(sorted(old.hosts - new.hosts))}, as"
                " that before was: use one for the same hosts, or set ssl.allow.san.changes=true"
            )
        return made

    def begin(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, start: bytes) -> ssl.SSLObject | None:
        """Return the state of TLS for a new connection, or None if `start` is not all of the client's first message."""
        if is_cut_off(start):
            return None
        context = self.made.context if has_quick_keys(start) else self.made.of_one_curve
        return context.wrap_bio(incoming, outgoing, server_side=True)

    def secured(self, connection: Any, certificate_der: bytes | None, cipher: tuple[str, str, int]) -> None:
        """Name the client of a connection by its certificate. Raise OSError if it has none that names one."""
        suite, version, _ = cipher
        connection.session = msgspec.structs.replace(connection.session, tls=(version, IANA_NAMES.get(suite, suite)))
        if self._names_principals:
            if certificate_der is not None:
                self._name(connection, certificate_der)
            self.counts.successes += 1
            self.counts.successes_without_again += 1

    def _name(self, connection: Any, certificate_der: bytes) -> None:
        try:
            name = self.settings.principals.name(certificate(certificate_der).name)
        except (MalformedCertificate, NoRule) as error:
            self.counts.failures += 1
            self._report(connection, NO_NAME, f" ({error})")
            raise PermissionError(errno.EACCES, str(error)) from None
        connection.session = msgspec.structs.replace(connection.session, principal=f"User:{name}")

    def failed(self, connection: Any, error: ssl.SSLError) -> None:
        """Log why a connection has ended, at a bounded rate."""
        self.counts.failures += connection.session.tls is None  # in the handshake
        self._report(connection, cause_of(error))

    def _report(self, connection: Any, cause: str, detail: str = "") -> None:
        self._strangers.report(connection.session, cause, detail)


def cause_of(error: ssl.SSLError) -> str:
    """Return why a handshake failed, and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused ({error.verify_message}): {REMEDIES.get(error.verify_code, TRUST)}"
    return REASONS.get(error.reason or "", f"TLS failed with {error.reason or error}")
