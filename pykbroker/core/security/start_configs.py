"""The configs of a start with users, ACLs and a certificate of its own, without a config file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pykbroker.core.config.authorizer_configs import SUPER_USERS
from pykbroker.core.config.java_classes import AUTHORIZER, STANDARD_AUTHORIZER
from pykbroker.core.config.listener_configs import listener_prefix
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.config.tls_settings import KEYSTORE, PEM
from pykbroker.core.security.own_certificates import KEYSTORE as KEYSTORE_FILE
from pykbroker.core.security.sasl.plain import PLAIN
from pykbroker.core.security.sasl.scram import SCRAM_HASHES
from pykbroker.core.security.sasl.settings import ENABLED, JAAS, PLAIN_MODULE, SCRAM_USERS


def keystore_configs(directory: str) -> dict[str, str]:
    """Return the configs of the keystore that a start makes in a directory."""
    return {f"{KEYSTORE}.type": PEM, f"{KEYSTORE}.location": f"{directory}/{KEYSTORE_FILE}"}


def log_in_configs(texts: Mapping[str, str], listeners: Iterable[ListenerSettings]) -> dict[str, str]:
    """Return the configs that let users log in by SCRAM and PLAIN on each listener with SASL, unless they are set."""
    made = {ENABLED: ",".join([*SCRAM_HASHES, PLAIN])}
    for listener in listeners:
        if listener.protocol.has_sasl:
            made[listener_prefix(listener.name, PLAIN) + JAAS] = f"{PLAIN_MODULE} required {SCRAM_USERS}=true;"
    return {name: text for name, text in made.items() if name not in texts}


def refusal_of_super_user(users: Iterable[str]) -> str | None:
    """Return why the first of these users cannot be in `super.users`, or None."""
    first = next(iter(users), "")
    if ";" not in first and first == first.strip():
        return None
    return (
        f"{first}: the first user is a super user if ACLs are required, and {SUPER_USERS} cannot have a name with a"
        " semicolon, or with a space at its end or beginning: put another user first"
    )


def authorizer_configs(texts: Mapping[str, str], super_users: Iterable[str]) -> dict[str, str]:
    """Return the configs of Kafka's authorizer, with more super users than the configs have, by name."""
    configured = texts.get(SUPER_USERS, "").strip().strip(";")
    supers = ";".join(filter(None, [configured, *(f"User:{user}" for user in super_users)]))
    return {AUTHORIZER: STANDARD_AUTHORIZER, SUPER_USERS: supers}
