"""Configs that name a Java class for authentication, authorization or TLS, whose engine may refuse certificates.

This broker cannot load Java classes, so it refuses to start rather than run without access control. A config named in
`pykbroker.ignore.classes` is ignored instead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pykbroker.core.config.table import BROKER, LISTENER_PREFIX
from pykbroker.core.config.type import refuse

IGNORED = "pykbroker.ignore.classes"
AUTHORIZER = "authorizer.class.name"
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
NAMED = (
    "alter.config.policy.class.name",
    AUTHORIZER,
    "client.quota.callback.class",
    "create.topic.policy.class.name",
    "principal.builder.class",
    "ssl.engine.factory.class",
)
SASL, CLASS = "sasl.", ".class"
OF_CLIENTS = "org.apache.kafka.common.security"
SERVED: Mapping[str, tuple[str, ...]] = {
    AUTHORIZER: (STANDARD_AUTHORIZER,),
    "sasl.login.class": (f"{OF_CLIENTS}.authenticator.DefaultLogin",),
    "sasl.server.callback.handler.class": (f"{OF_CLIENTS}.plain.internals.PlainServerCallbackHandler",),
    "ssl.engine.factory.class": (f"{OF_CLIENTS}.ssl.DefaultSslEngineFactory",),
}
"""Classes of Kafka whose part pykbroker plays itself, beside Kafka's default, by config without prefixes."""


def check_no_classes(texts: Mapping[str, str], ignored: Collection[str]) -> None:
    """Raise ApiError INVALID_CONFIG for a config that names a class other than Kafka's default.

    Configs in `ignored` are not checked.
    """
    found = {name: text for name, text in texts.items() if name not in ignored and names_class(name, text)}
    if not found:
        return
    set_to = ", ".join(f"{name} is set to {text}" for name, text in sorted(found.items()))
    listed = ",".join(sorted({*ignored, *found}))
    raise refuse(
        f"{set_to}. pykbroker loads no classes of Java, and would let through what such a class may refuse. "
        f"Remove the setting, or go on without the class by {IGNORED}={listed}"
    )


def names_class(name: str, text: str) -> bool:
    """Whether a config names a class other than Kafka's default and those of `SERVED`.

    The config's name may begin with a listener prefix and a SASL mechanism prefix.
    """
    base = base_of(name)
    if base not in NAMED and not (base.startswith(SASL) and base.endswith(CLASS)):
        return False
    default = BROKER[base].default if base in BROKER else None
    return text.strip() not in ("", default, *SERVED.get(base, ()))


def base_of(name: str) -> str:
    """Return the config's name without the prefixes `listener.name.<listener>.` and `<mechanism>.`."""
    if not name.startswith(LISTENER_PREFIX):
        return name
    base = name.removeprefix(LISTENER_PREFIX).partition(".")[2]
    rest = base.partition(".")[2]
    return rest if rest.startswith(SASL) else base
