"""The options `--user` and `--authorize`: the users of a start, and the configs by which clients log in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pykbroker.core.config.authorizer_configs import SUPER_USERS
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.errors import StartError
from pykbroker.core.security.sasl.plain import PLAIN
from pykbroker.core.security.sasl.scram import SCRAM_HASHES
from pykbroker.core.security.sasl.settings import ENABLED, sasl_settings
from pykbroker.core.settings import Serving, Settings


def check_has_log_in(listeners: Iterable[ListenerSettings]) -> None:
    """Raise StartError if users could log in nowhere: no listener has SASL."""
    listeners = list(listeners)
    if not any(listener.protocol.has_sasl for listener in listeners):
        name = listeners[0].name
        raise StartError(
            f"--user: the listener {name} has no log-in: call it SASL_SSL or SASL_PLAINTEXT, by --listen"
            f" SASL_SSL=HOST:PORT or in listeners, or write {name}:SASL_SSL in listener.security.protocol.map"
        )


def usable_mechanisms(texts: Mapping[str, str], listeners: Iterable[ListenerSettings]) -> list[str]:
    """Return the mechanisms by which users of the metadata log in on some of these listeners.

    StartError: there is none, or the configs of a listener are wrong.
    """
    found: dict[str, None] = {}
    for listener in listeners:
        if listener.protocol.has_sasl:
            settings = sasl_settings(texts, listener)
            found |= dict.fromkeys(name for name in settings.enabled if name != PLAIN or settings.users is None)
    if not found:
        raise StartError(
            f"--user: {ENABLED} has only {PLAIN}, with users of its own: add {next(iter(SCRAM_HASHES))} to it"
        )
    return list(found)


def check_has_super_user(texts: Mapping[str, str]) -> None:
    """Raise StartError if nobody could add the first ACL."""
    if not texts[SUPER_USERS]:
        raise StartError(f"--authorize needs a super user, who may add ACLs: add --user NAME, or set {SUPER_USERS}")


def new_passwords(settings: Settings, serving: Serving) -> Iterator[str]:
    """Yield a sentence for each password that was generated for a new user."""
    for user in settings.users:
        if user.is_generated and user.name in serving.new_users:
            yield f"the password of {user.name} is {user.password.reveal()}: note it, it is not shown again"


def log_in(texts: Mapping[str, str], listeners: Sequence[ListenerSettings]) -> str:
    """Return how clients log in on listeners with these configs."""
    names = sorted({each.protocol.name for each in listeners if each.protocol.has_sasl})
    *some, last = usable_mechanisms(texts, listeners)
    mechanisms = f"{', '.join(some)} or {last}" if some else last
    return f"a user logs in with security.protocol={' or '.join(names)} and with sasl.mechanism={mechanisms}"


def remarks(settings: Settings, serving: Serving) -> Iterator[str]:
    """Yield what the operator must know about the users: the passwords that were generated, and how clients log in."""
    yield from new_passwords(settings, serving)
    if settings.users:
        yield log_in(settings.config.texts, settings.listeners)
