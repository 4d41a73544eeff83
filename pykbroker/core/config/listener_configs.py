"""The configs of one listener, and of one SASL mechanism on it, in Kafka's order of precedence.

1. `listener.name.<listener>.<mechanism>.<config>` comes before `listener.name.<listener>.<config>`, and that before
   `<config>`. Listener and mechanism are in lower case.
2. A mechanism has no effect without the listener: `plain.sasl.jaas.config` is unknown.
3. `ONLY_OF_MECHANISMS` have an effect only with listener and mechanism, and `ssl.client.auth` on SASL_SSL only with the
   listener. `ignored_configs` names those that are written otherwise.

Sources: KIP-103, KIP-226, KIP-684, and AbstractConfig, ChannelBuilders and JaasContext of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from pykbroker.core.config.config import Texts
from pykbroker.core.config.listeners import ListenerSettings, controllers, protocols
from pykbroker.core.config.table import BROKER, LISTENER_PREFIX, ONLY_OF_MECHANISMS
from pykbroker.core.config.type import Value
from pykbroker.core.security.protocol import SecurityProtocol

CLIENT_AUTH = "ssl.client.auth"


class ListenerConfigs:
    """The configs of one listener.

    `texts` has those of the broker: the dynamic ones over the static ones, with and without prefixes.
    """

    def __init__(self, texts: Texts, listener: ListenerSettings) -> None:
        self._texts, self._listener = texts, listener

    def text(self, name: str, mechanism: str | None = None) -> str | None:
        """Return the text of a config, or None if it is not set."""
        if name == CLIENT_AUTH and self._listener.protocol is SecurityProtocol.SASL_SSL:
            return self._texts.get(listener_prefix(self._listener.name) + name)
        return listener_config(self._texts, self._listener.name, name, mechanism)

    def get(self, name: str, mechanism: str | None = None) -> Value:
        """Return the typed value of a config. Raise ApiError INVALID_CONFIG if it is not allowed."""
        text = self.text(name, mechanism)
        return BROKER[name].default if text is None else BROKER[name].read(text)


def listener_prefix(listener: str, mechanism: str | None = None) -> str:
    """Return the prefix of configs of this listener, and of this mechanism on it."""
    return f"{LISTENER_PREFIX}{listener.lower()}." + (f"{mechanism.lower()}." if mechanism is not None else "")


def of_no_listener(texts: Texts, listeners: Collection[ListenerSettings]) -> Iterator[str]:
    """Yield a sentence for each config whose prefix is that of no listener, such as one in upper case.

    A listener that has a security protocol may be added later, or be that of controllers.
    """
    names = {*(each.name for each in listeners), *controllers(texts), *protocols(texts)}
    prefixes = tuple(map(listener_prefix, names))
    for config in texts:
        if config.startswith(LISTENER_PREFIX) and not config.startswith(prefixes):
            name, _, rest = config.removeprefix(LISTENER_PREFIX).partition(".")
            remedy = f"write {listener_prefix(name)}{rest}"
            if name.upper() not in names:
                remedy = f"replace {name} by one of {', '.join(each.name.lower() for each in listeners)}"
            yield f"{config} has no effect, since no listener has this prefix: {remedy}"


def listener_config(texts: Texts, listener: str, name: str, mechanism: str | None = None) -> str | None:
    """Return the text of a config for a listener and a mechanism on it, or None if it is not set."""
    names = [listener_prefix(listener, mechanism) + name] if mechanism is not None else []
    if name not in ONLY_OF_MECHANISMS:
        names += [listener_prefix(listener) + name, name]
    return next((texts[each] for each in names if each in texts), None)


def ignored_configs(texts: Texts, listeners: Collection[ListenerSettings]) -> Iterator[str]:
    """Yield a sentence for each config that a listener does not take as it is written, with the remedy."""
    yield from of_no_listener(texts, listeners)
    for listener in listeners:
        prefix = listener_prefix(listener.name)
        if (
            listener.protocol is SecurityProtocol.SASL_SSL
            and CLIENT_AUTH in texts
            and prefix + CLIENT_AUTH not in texts
        ):
            yield f"{CLIENT_AUTH} has no effect on {listener.name}, which uses SASL_SSL: write {prefix}{CLIENT_AUTH}"
        for name in ONLY_OF_MECHANISMS if listener.protocol.has_sasl else ():
            for written in (prefix + name, name):
                if written in texts:
                    yield f"{written} has no effect without a SASL mechanism: write {prefix}MECHANISM.{name}"
