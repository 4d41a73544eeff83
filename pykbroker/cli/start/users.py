"""The options `--user` and `--authorize`: the users of a start, and the configs by which clients log in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pykbroker.core.config.authorizer_configs import SUPER_USERS
from pykbroker.core.config.java_classes import AUTHORIZER, STANDARD_AUTHORIZER
from pykbroker.core.config.listener_configs import listener_prefix
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.errors import StartError
from pykbroker.core.new_user import NewUser
from pykbroker.core.security.sasl.scram import SCRAM_HASHES
from pykbroker.core.security.sasl.settings import ENABLED, JAAS, PLAIN, PLAIN_MODULE, SCRAM_USERS
from pykbroker.core.settings import Serving, Settings


def log_in_configs(texts: Mapping[str, str], listeners: Iterable[ListenerSettings]) -> dict[str, str]:
    """Return the configs that let users log in by SCRAM and PLAIN on each listener with SASL.

    Configs that are set stay. StartError: no listener has SASL.
    """
    listeners = list(listeners)
    with_sasl = [listener for listener in listeners if listener.protocol.has_sasl]
    if not with_sasl:
        name = listeners[0].name
        raise StartError(
            f"--user: the listener {name} has no log-in: call it SASL_SSL or SASL_PLAINTEXT, by --listen"
            f" SASL_SSL=HOST:PORT or in listeners, or write {name}:SASL_SSL in listener.security.protocol.map"
        )
    made = {ENABLED: ",".join([*SCRAM_HASHES, PLAIN])}
    for listener in with_sasl:
        made[listener_prefix(listener.name, PLAIN) + JAAS] = f"{PLAIN_MODULE} required {SCRAM_USERS}=true;"
    return {name: text for name, text in made.items() if name not in texts}


def authorizer_configs(texts: Mapping[str, str], made: Iterable[NewUser]) -> dict[str, str]:
    """Return the configs of `--authorize`: Kafka's authorizer, with the first user as a super user.

    StartError: no user and no super user exists, and nobody could add an ACL.
    """
    first = [f"User:{user.name}" for user in made][:1]
    supers = ";".join(filter(None, [texts.get(SUPER_USERS, "").strip().strip(";"), *first]))
    if not supers:
        raise StartError(f"--authorize needs a super user, who may add ACLs: add --user NAME, or set {SUPER_USERS}")
    return {AUTHORIZER: STANDARD_AUTHORIZER, SUPER_USERS: supers}


def remarks(settings: Settings, serving: Serving) -> Iterator[str]:
    """Yield what the operator must know about the users: the passwords that were generated, and how clients log in."""
    for user in settings.users:
        if user.is_generated and user.name in serving.new_users:
            yield f"the password of {user.name} is {user.password.reveal()}: it is told this once"
    if settings.users:
        protocols = sorted({each.protocol.name for each in settings.listeners if each.protocol.has_sasl})
        yield (
            f"a user logs in with security.protocol={' or '.join(protocols)} and with"
            f" sasl.mechanism={', '.join(SCRAM_HASHES)} or {PLAIN}"
        )
