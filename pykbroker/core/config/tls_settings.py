"""The TLS of one listener, as its configs declare it: stores, versions, cipher suites, and what clients must show.

1. A keystore is a file of type JKS, PKCS12 or PEM, or PEM text in `ssl.keystore.key` and `.certificate.chain`. So is a
   truststore, with `ssl.truststore.certificates`. Text and file exclude each other.
2. A store of type PEM has no password. `ssl.key.password` is that of its key, and otherwise comes before that of the
   store.
3. `ssl.enabled.protocols` may name versions before 1.2, which Java and this broker never use.

A function raises StartError if a rule is broken. Sources: KIP-651, and DefaultSslEngineFactory of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import msgspec

from pykbroker.core.config.listener_configs import ListenerConfigs
from pykbroker.core.errors import ApiError, StartError
from pykbroker.core.security.cipher_suites import TLS_1_2, TLS_1_3, UNUSED
from pykbroker.core.security.principal_mapping import RULES, PrincipalMapping
from pykbroker.core.security.secret import Secret

JKS, PKCS12, PEM = "JKS", "PKCS12", "PEM"
KINDS = (JKS, PKCS12, PEM)
KEYSTORE, TRUSTSTORE = "ssl.keystore", "ssl.truststore"
KEY, CHAIN, TRUSTED = "ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.certificates"
KEY_PASSWORD, PROTOCOLS, CIPHERS = "ssl.key.password", "ssl.enabled.protocols", "ssl.cipher.suites"
CLIENT_AUTH, HOST_CHECK = "ssl.client.auth", "ssl.endpoint.identification.algorithm"
HOST_CHECKS = ("HTTPS", "LDAPS", "")
"""Java's names of the verification of a host, which is the same for all protocols. The empty name is for none."""
TLS12, TLS13 = "TLSv1.2", "TLSv1.3"
NEVER_USED = ("SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")


class TlsStore(msgspec.Struct, frozen=True):
    """A store of keys or certificates: a file, or text in PEM. `place` names it in errors."""

    place: str
    kind: str
    location: str | None = None
    text: Secret | None = None
    password: Secret | None = None


class TlsSettings(msgspec.Struct, frozen=True):
    """The TLS of the listener `listener`. `versions` has at least one of `TLS12` and `TLS13`."""

    listener: str
    keystore: TlsStore
    key_password: Secret | None
    truststore: TlsStore | None
    client_auth: str
    versions: frozenset[str]
    ciphers: tuple[str, ...]
    """The names of the cipher suites of TLS 1.2 in OpenSSL, or nothing for those of OpenSSL."""
    principals: PrincipalMapping
    may_change_name: bool = True
    """Whether a reload may bring a certificate of another subject."""
    may_change_hosts: bool = True


class ClientTlsSettings(msgspec.Struct, frozen=True):
    """The TLS of outgoing connections. Without a truststore they trust the authorities of the machine."""

    keystore: TlsStore | None
    key_password: Secret | None
    truststore: TlsStore | None
    versions: frozenset[str]
    ciphers: tuple[str, ...]
    checks_host: bool
    """Whether the certificate of a broker must be for the host that the connection is to."""


def client_tls_settings(place: str, configs: ListenerConfigs) -> ClientTlsSettings:
    """Return the TLS of outgoing connections, whose configs errors call `place`. Raise StartError as `tls_settings`."""
    try:
        return _Reader(place, configs).client_settings()
    except ApiError as error:
        raise StartError(f"{place}: {error}") from None


def tls_settings(listener: str, configs: ListenerConfigs) -> TlsSettings:
    """Return the TLS of a listener. Raise StartError if its configs contradict each other."""
    try:
        return _Reader(listener, configs).settings()
    except ApiError as error:
        raise StartError(f"{listener}: {error}") from None


class _Reader:
    def __init__(self, listener: str, configs: ListenerConfigs) -> None:
        self._listener, self._configs = listener, configs

    def settings(self) -> TlsSettings:
        client_auth = str(self._configs.get(CLIENT_AUTH))
        keystore, truststore = self._keystore(), self._truststore()
        if keystore is None:
            raise self._refuse(f"{KEYSTORE}.location is missing: name a file with a key and its certificate")
        if client_auth != "none" and truststore is None:
            raise self._refuse(
                f"{CLIENT_AUTH}={client_auth} needs certificates to trust: set {TRUSTSTORE}.location,"
                f" or {CLIENT_AUTH}=none"
            )
        versions, ciphers = self._versions_and_ciphers()
        try:
            principals = PrincipalMapping(str(self._configs.get(RULES)))
        except StartError as error:
            raise self._refuse(str(error)) from None
        return TlsSettings(
            self._listener,
            keystore,
            self._key_password(keystore),
            truststore,
            client_auth,
            versions,
            ciphers,
            principals,
            bool(self._configs.get("ssl.allow.dn.changes")),
            bool(self._configs.get("ssl.allow.san.changes")),
        )

    def client_settings(self) -> ClientTlsSettings:
        keystore, truststore = self._keystore(), self._truststore()
        versions, ciphers = self._versions_and_ciphers()
        checks_host = self._checks_host()
        return ClientTlsSettings(
            keystore, self._key_password(keystore), truststore, versions, ciphers, checks_host=checks_host
        )

    def _checks_host(self) -> bool:
        """Whether a broker's certificate must be for its host. As in Java, the name of the check has any case."""
        name = str(self._configs.get(HOST_CHECK)).strip()
        if name.upper() not in HOST_CHECKS:
            raise self._refuse(f"{HOST_CHECK}={name} is unknown: write https, or nothing to accept any host")
        return bool(name)

    def _key_password(self, keystore: TlsStore | None) -> Secret | None:
        return self._secret(KEY_PASSWORD) or (None if keystore is None else keystore.password)

    def _keystore(self) -> TlsStore | None:
        key, chain = self._secret(KEY), self._secret(CHAIN)
        if key is None and chain is None:
            return self._file(KEYSTORE)
        if key is None or chain is None:
            raise self._refuse(f"{KEY} and {CHAIN} belong together: set the other one, too")
        return self._inline(KEYSTORE, KEY, Secret(f"{key.reveal()}\n{chain.reveal()}"))

    def _truststore(self) -> TlsStore | None:
        trusted = self._secret(TRUSTED)
        return self._file(TRUSTSTORE) if trusted is None else self._inline(TRUSTSTORE, TRUSTED, trusted)

    def _file(self, base: str) -> TlsStore | None:
        location, kind, password = self._text(f"{base}.location"), self._kind(base), self._secret(f"{base}.password")
        if location is None:
            return None
        if kind == PEM and password is not None:
            raise self._refuse(f"{base}.password has no place with {base}.type=PEM: remove it, or set {KEY_PASSWORD}")
        return TlsStore(f"{self._listener}: {base}.location={location}", kind, location, None, password)

    def _inline(self, base: str, config: str, text: Secret) -> TlsStore:
        if self._text(f"{base}.location") is not None:
            raise self._refuse(f"{config} and {base}.location exclude each other: remove one of them")
        if self._kind(base) != PEM:
            raise self._refuse(f"{config} is PEM, and {base}.type is {self._kind(base)}: set {base}.type=PEM")
        if self._secret(f"{base}.password") is not None:
            raise self._refuse(f"{base}.password has no place with {config}: remove it, or set {KEY_PASSWORD}")
        return TlsStore(f"{self._listener}: {config}", PEM, None, text)

    def _kind(self, base: str) -> str:
        kind = str(self._configs.get(f"{base}.type")).strip().upper()
        if kind not in KINDS:
            raise self._refuse(f"{base}.type={kind} is unknown: write {', '.join(KINDS[:-1])} or {KINDS[-1]}")
        return kind

    def _versions_and_ciphers(self) -> tuple[frozenset[str], tuple[str, ...]]:
        named = self._list(PROTOCOLS) or [TLS12, TLS13]  # as in Java, nothing stands for its default
        if unknown := [each for each in named if each not in (TLS12, TLS13, *NEVER_USED)]:
            raise self._refuse(f"{PROTOCOLS}: {unknown[0]} is unknown: write {TLS12},{TLS13}")
        suites = self._list(CIPHERS)
        if unknown := [each for each in suites if each not in (*TLS_1_3, *TLS_1_2, *UNUSED)]:
            raise self._refuse(f"{CIPHERS}: {unknown[0]} is unknown or broken: write IANA names, such as {TLS_1_3[0]}")
        ciphers = tuple(TLS_1_2[each] for each in suites if each in TLS_1_2)
        usable = {version for version in (TLS12, TLS13) if version in named}
        if suites:  # a version without a suite cannot be used
            usable &= ({TLS12} if ciphers else set()) | ({TLS13} if any(each in TLS_1_3 for each in suites) else set())
        if not usable:
            with_suites = f" with these {CIPHERS}" if suites else ""
            raise self._refuse(f"{PROTOCOLS}={','.join(named)} leaves no version of TLS{with_suites}: add {TLS13}")
        return frozenset(usable), ciphers

    def _list(self, name: str) -> list[str]:
        found = self._configs.get(name)
        assert isinstance(found, tuple)
        return [str(each) for each in found]

    def _text(self, name: str) -> str | None:
        text = self._configs.text(name)
        return text.strip() if text is not None and text.strip() else None

    def _secret(self, name: str) -> Secret | None:
        """Return a password. As in Kafka, spaces around it are none of it, such as the line end of a secret's file."""
        text = self._configs.text(name)
        return None if text is None else Secret(text.strip())

    def _refuse(self, text: str) -> StartError:
        return StartError(f"{self._listener}: {text}")
