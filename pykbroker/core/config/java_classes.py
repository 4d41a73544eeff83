"""Configs that name a class of Java which decides who may do what. There is none to load here, so the broker refuses to
start rather than to run open: unless `pykbroker.ignore.classes` names the config.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pykbroker.core.config.table import BROKER, LISTENER_PREFIX
from pykbroker.core.config.type import refuse

IGNORED = "pykbroker.ignore.classes"
NAMED = (
    "alter.config.policy.class.name",
    "authorizer.class.name",
    "client.quota.callback.class",
    "create.topic.policy.class.name",
    "principal.builder.class",
)
SASL, CLASS = "sasl.", ".class"


def check_no_classes(texts: Mapping[str, str], ignored: Collection[str]) -> None:
    """ApiError INVALID_CONFIG: configs name classes that are not Kafka's defaults, and are not to be ignored."""
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
    """Whether a config, which may have a listener and a mechanism of SASL before it, is set to a class of its own."""
    base = base_of(name)
    if base not in NAMED and not (base.startswith(SASL) and base.endswith(CLASS)):
        return False
    default = BROKER[base].default if base in BROKER else None
    return text.strip() not in ("", default)


def base_of(name: str) -> str:
    """The config without `listener.name.<listener>.` and `<mechanism>.` before it."""
    if not name.startswith(LISTENER_PREFIX):
        return name
    base = name.removeprefix(LISTENER_PREFIX).partition(".")[2]
    rest = base.partition(".")[2]
    return rest if rest.startswith(SASL) else base
