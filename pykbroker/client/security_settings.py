"""The settings of TLS and SASL: those of Java's clients, and those of kafka-python and aiokafka.

1. A setting of TLS or SASL needs a `security_protocol` that uses it. As a value it is refused, rather than forgotten.
2. The names of Java's clients and those of Python's are not mixed for TLS, and need not be for SASL.
3. Stores and files are read, and found wrong, when the client is made.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pykbroker.client.client_tls import reason_of
from pykbroker.client.security import PLAINTEXT, ClientSecurity
from pykbroker.client.tls_hints import TlsHints
from pykbroker.core.errors import StartError
from pykbroker.core.security.protocol import SecurityProtocol
from pykbroker.core.security.secret import Secret

if TYPE_CHECKING:
    from pykbroker.core.security.sasl.client import ClientMechanism

UNSUPPORTED: Mapping[str, Any] = {
    "sasl_kerberos_name": None,
    "sasl_kerberos_service_name": "kafka",
    "sasl_kerberos_domain_name": None,
    "sasl_oauth_token_provider": None,
    "proxy_url": None,
    "socks5_proxy": None,
    "kafka_client": None,
}
"""The arguments for Kerberos, tokens, proxies and other networks, with the only value that is supported."""
PYTHON_TLS: Mapping[str, Any] = {
    "ssl_context": None,
    "ssl_check_hostname": True,
    "ssl_cafile": None,
    "ssl_certfile": None,
    "ssl_keyfile": None,
    "ssl_crlfile": None,
    "ssl_password": None,
    "ssl_ciphers": None,
}
"""The settings of TLS in kafka-python, with their defaults."""
SASL: Mapping[str, Any] = {"sasl_mechanism": None, "sasl_plain_username": None, "sasl_plain_password": None}
"""The settings of SASL in kafka-python, with their defaults."""
SECURITY: Mapping[str, Any] = {"security_protocol": "PLAINTEXT", **PYTHON_TLS, **SASL, **UNSUPPORTED}
"""All arguments of kafka-python for how a client connects, with their defaults."""
JAVA_TLS = (
    "ssl_keystore_location",
    "ssl_keystore_type",
    "ssl_keystore_password",
    "ssl_keystore_key",
    "ssl_keystore_certificate_chain",
    "ssl_key_password",
    "ssl_truststore_location",
    "ssl_truststore_type",
    "ssl_truststore_password",
    "ssl_truststore_certificates",
    "ssl_enabled_protocols",
    "ssl_cipher_suites",
    "ssl_endpoint_identification_algorithm",
)
"""The settings of TLS in Java's clients that have an effect."""
WITHOUT_EFFECT = (
    "ssl_protocol",
    "ssl_provider",
    "ssl_keymanager_algorithm",
    "ssl_trustmanager_algorithm",
    "ssl_secure_random_implementation",
)
"""The settings of TLS in Java's clients that choose a part of the JVM."""
JAAS = "sasl_jaas_config"
OF_TLS, OF_SASL = (*PYTHON_TLS, *JAVA_TLS, *WITHOUT_EFFECT), (*SASL, JAAS)
KNOWN = ("security_protocol", *OF_TLS, *OF_SASL)
OF_JAVA = ("security_protocol", *JAVA_TLS, *WITHOUT_EFFECT, "sasl_mechanism", JAAS)
"""All settings of Java's clients that a client here takes."""
JAVA_CLASSES = (
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "ssl.engine.factory.class",
)
PREFIXES = ("ssl_", "sasl_", "security_")


class InvalidSetting(ValueError):
    """The error of a setting that does not exist, has a value out of its range, or contradicts another setting."""


def split_security(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of TLS, SASL and proxies, and all others."""
    security = {name: value for name, value in given.items() if name in SECURITY or name.startswith(PREFIXES)}
    return security, {name: value for name, value in given.items() if name not in security}


def settings_of_properties(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of TLS and SASL in the properties of a Java client that have an effect.

    As in Kafka, others have none. Raise InvalidSetting for a class of the user's, which only Java can load.
    """
    protocol = protocol_of(texts.get("security.protocol", "").strip() or "PLAINTEXT")
    if protocol is SecurityProtocol.PLAINTEXT:
        return {}
    classes = [name for name, text in texts.items() if text and name in JAVA_CLASSES]
    if classes:
        raise InvalidSetting(f"{classes[0]} names a class of Java, which pykbroker cannot load: leave it out")
    names = ("security_protocol", *(JAVA_TLS if protocol.has_tls else ()))
    names += ("sasl_mechanism", JAAS) if protocol.has_sasl else ()
    return {name: texts[dotted] for name in names if (dotted := name.replace("_", ".")) in texts}


def client_security(given: Mapping[str, Any], place: str = "") -> ClientSecurity:
    """Return how a client connects. `place` names the file of a Java client that has the settings, if there is one.

    Raise InvalidSetting for a setting that is unknown, is not supported, has no effect, or does not work.
    """
    chosen = {name: value for name, value in given.items() if name not in SECURITY or value != SECURITY[name]}
    for name, value in chosen.items():
        if name in UNSUPPORTED:
            raise InvalidSetting(
                f"{name}={value!r} is not supported: this client connects by TLS and SASL (PLAIN, SCRAM) without proxy"
            )
        if name not in KNOWN:
            near = get_close_matches(name, KNOWN, 1)
            raise InvalidSetting(f"there is no setting '{name}'" + (f": do you mean '{near[0]}'?" if near else ""))
    protocol = protocol_of(chosen.get("security_protocol", "PLAINTEXT"))
    for is_used, names, what in ((protocol.has_tls, OF_TLS, "SSL"), (protocol.has_sasl, OF_SASL, "SASL_SSL")):
        if not is_used and (idle := [name for name in names if name in chosen]):
            raise InvalidSetting(
                f"{idle[0]} has no effect with security_protocol='{protocol.name}': set security_protocol='{what}'"
            )
    if protocol is SecurityProtocol.PLAINTEXT:
        return PLAINTEXT
    from pykbroker.world.system import random_bits

    context = tls_context(chosen, place) if protocol.has_tls else None
    tls = None if context is None else lambda: context
    hints = TlsHints("ssl.truststore.location", "ssl.keystore.location") if place else TlsHints()
    sasl = mechanism_of(chosen, place) if protocol.has_sasl else None
    return ClientSecurity(tls, sasl, random_bits, hints=hints)


def protocol_of(text: Any) -> SecurityProtocol:
    """Return the protocol of a setting. Raise InvalidSetting if there is no such protocol."""
    try:
        return SecurityProtocol[str(text).strip().upper()]
    except KeyError:
        names = ", ".join(each.name for each in SecurityProtocol)
        raise InvalidSetting(f"security_protocol={text!r} is not allowed: use {names}") from None


# ---- TLS


def tls_context(given: Mapping[str, Any], place: str) -> ssl.SSLContext:
    """Return the context of the settings. Raise InvalidSetting if they do not work, or are of two libraries."""
    theirs, javas = ([name for name in names if name in given] for names in (PYTHON_TLS, JAVA_TLS))
    if theirs and javas:
        raise InvalidSetting(f"{theirs[0]} and {javas[0]} exclude each other: use the names of one library")
    return java_context(given, place) if javas else python_context(given)


def java_context(given: Mapping[str, Any], place: str) -> ssl.SSLContext:
    """Return the context of the settings of Java's clients."""
    from pykbroker.core.config.listener_configs import ListenerConfigs
    from pykbroker.core.config.listeners import ListenerSettings
    from pykbroker.core.config.tls_settings import client_tls_settings
    from pykbroker.tls.context import client_context
    from pykbroker.world.system import wall_ms

    texts = {name.replace("_", "."): str(given[name]) for name in JAVA_TLS if name in given}
    try:
        settings = client_tls_settings(place or "the client", ListenerConfigs(texts, ListenerSettings("CLIENT")))
        return client_context(settings, wall_ms() / 1000)
    except StartError as error:
        raise InvalidSetting(str(error)) from None


def python_context(given: Mapping[str, Any]) -> ssl.SSLContext:
    """Return the context of the settings of kafka-python."""
    own = given.get("ssl_context")
    if isinstance(own, ssl.SSLContext):
        return own
    if own is not None:
        raise InvalidSetting(f"ssl_context={own!r} is not allowed: pass an ssl.SSLContext")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = bool(given.get("ssl_check_hostname", True))
    applied(given, "ssl_ciphers", context.set_ciphers)
    if not applied(given, "ssl_cafile", context.load_verify_locations):
        context.load_default_certs()
    if applied(given, "ssl_crlfile", context.load_verify_locations):
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    key, password = given.get("ssl_keyfile"), given.get("ssl_password")
    # Without a password OpenSSL would ask on the terminal.
    password = "" if password is None else password
    applied(given, "ssl_certfile", lambda path: context.load_cert_chain(path, key, password))
    return context


def applied(given: Mapping[str, Any], name: str, apply: Callable[[Any], None]) -> bool:
    """Apply a setting, and return whether it is there. Raise InvalidSetting if it does not work."""
    value = given.get(name)
    if value is None:
        return False
    try:
        apply(value)
    except ssl.SSLError as error:
        raise InvalidSetting(f"{name}={value!r} does not work: {reason_of(error)}") from None
    except OSError as error:
        raise InvalidSetting(f"{name}={value!r} cannot be read: {error.strerror}") from None
    return True


# ---- SASL


def mechanism_of(given: Mapping[str, Any], place: str) -> ClientMechanism:
    """Return the mechanism with the user's credentials. Raise InvalidSetting if one of them is missing or wrong."""
    from pykbroker.core.security.sasl.client import CLIENT_MECHANISMS, client_mechanism

    name = str(given.get("sasl_mechanism", "")).strip()
    setting = f"{place}: sasl.mechanism" if place else "sasl_mechanism"
    if name not in CLIENT_MECHANISMS:
        found = f"{setting}={name!r} is not supported" if name else f"{setting} is missing"
        raise InvalidSetting(f"{found}: use {', '.join(CLIENT_MECHANISMS)}")
    if JAAS in given:
        user, password = jaas_credentials(name, str(given[JAAS]), place)
    else:
        user, password = (str(given.get(each) or "") for each in ("sasl_plain_username", "sasl_plain_password"))
    if not user or not password:
        lacks = f"the user or the password of {name} is missing"
        if place:
            raise InvalidSetting(f'{place}: {lacks}: write username="…" password="…" in sasl.jaas.config')
        raise InvalidSetting(f"{lacks}: set sasl_plain_username and sasl_plain_password, or {JAAS}")
    return client_mechanism(name, user, Secret(password))


def jaas_credentials(mechanism: str, line: str, place: str) -> tuple[str, str]:
    """Return the user and the password of a JAAS line. Raise InvalidSetting if it is not that of the mechanism."""
    from pykbroker.core.security.sasl.jaas import parse_jaas
    from pykbroker.core.security.sasl.plain import PLAIN
    from pykbroker.core.security.sasl.settings import PLAIN_MODULE, SCRAM_MODULE

    try:
        module = parse_jaas(line)
    except ValueError as error:
        raise InvalidSetting(f"{place or 'the client'}: sasl.jaas.config: {error}") from None
    needed = PLAIN_MODULE if mechanism == PLAIN else SCRAM_MODULE
    if module.name != needed:
        raise InvalidSetting(
            f"{place or 'the client'}: sasl.jaas.config names the class {module.name}, and {mechanism} needs {needed}"
            " required …;"
        )
    user, password = (module.options.get(each, Secret("")).reveal() for each in ("username", "password"))
    return user, password
