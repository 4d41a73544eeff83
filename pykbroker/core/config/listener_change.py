"""Changes of the listeners of a running broker, with the rules and messages of Apache Kafka 4.3.1.

1. A listener is opened and closed by its name in `listeners`. An open listener keeps its address and its security
   protocol, and of its own configs all but `RECONFIGURABLE`.
2. An advertised listener stays. Without `advertised.listeners` every listener is advertised.
3. Listeners of controllers neither come nor go.

A function raises ApiError INVALID_REQUEST if a rule is broken. Source: DynamicListenerConfig and SocketServerConfigs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pykbroker.core.config.config import BrokerConfig, Texts
from pykbroker.core.config.host_counts import is_name
from pykbroker.core.config.listener_configs import listener_prefix
from pykbroker.core.config.listeners import (
    ADVERTISED,
    CONTROLLERS,
    INTER_BROKER_NAME,
    LISTENERS,
    ListenerSettings,
    controllers,
    entries_of,
    inter_broker_listener,
    protocols,
    settings_of,
    shared_ports,
)
from pykbroker.core.config.row import Update
from pykbroker.core.config.table import BROKER
from pykbroker.core.config.type import text_of
from pykbroker.core.errors import StartError, bad_request
from pykbroker.core.security.protocol import SecurityProtocol

STORES = (
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
OF_ALL_LISTENERS = ("max.connections", "max.connection.creation.rate", "num.network.threads")
RECONFIGURABLE = (*STORES, *OF_ALL_LISTENERS)
"""The configs of an open listener that may change together with `listeners`."""
TRIGGERS = tuple(name for name, row in BROKER.items() if row.update is Update.PER_BROKER)
"""The configs whose change lets Kafka compare the old and the new listeners."""

Listeners = Mapping[str, ListenerSettings]


def check_listener_change(old: BrokerConfig, new: BrokerConfig) -> None:
    """Raise ApiError if the listeners of a running broker cannot change as its configs do."""
    before, wanted = old.texts, new.texts
    if all(before.get(name) == wanted.get(name) for name in TRIGGERS):
        return
    was, listeners = declared_listeners(before), declared_listeners(wanted)
    _check_roles(before, wanted, was, listeners)
    advertised = advertised_names(before, was)
    if not listeners.keys() >= {*advertised}:
        raise bad_request(
            f"Advertised listeners '{', '.join(advertised)}' must be a subset of listeners '{', '.join(listeners)}'"
        )
    for name in was.keys() & listeners.keys():
        if _fixed(before, name) != _fixed(wanted, name):
            raise bad_request(
                f"Configs cannot be updated dynamically for existing listener {name}, "
                "restart broker or create a new listener for update"
            )
        if was[name].protocol is not listeners[name].protocol:
            raise bad_request(f"Security protocol cannot be updated for existing listener {name}")
    added = [each for name, each in listeners.items() if name not in was]
    if not any(each.protocol.has_sasl for each in added):
        return
    from pykbroker.core.security.sasl.settings import sasl_listeners  # a broker without SASL starts without it

    try:
        sasl_listeners(wanted, added)
    except StartError as error:
        raise bad_request(str(error)) from None


def declared_listeners(texts: Texts) -> Listeners:
    """Return the listeners of a broker by name, with those of its controller."""
    written = texts.get(LISTENERS, text_of(BROKER[LISTENERS].default) or "")
    entries = [entry.strip() for entry in written.split(",")]
    listed = f"[{', '.join(entries)}]"
    failed, known = f"Error creating broker listeners from '{listed}'", _protocols(texts)
    addresses = {}
    for entry in entries:
        try:
            ((name, address),) = entries_of(LISTENERS, {LISTENERS: entry})
        except (StartError, ValueError):
            raise bad_request(f"{failed}: Unable to parse {entry} to a broker endpoint") from None
        if name not in known:
            raise bad_request(f"{failed}: No security protocol defined for listener {name}")
        if name in addresses:
            raise bad_request(f"{failed}: Each listener must have a different name, listeners: {listed}")
        addresses[name] = address
    for port, names in shared_ports(addresses):
        raise bad_request(f"{failed}: {_why_not_shared([addresses[name].host for name in names], listed, port)}")
    return {each.name: each for each in settings_of(addresses, {}, known)}


def _why_not_shared(hosts: list[str], listed: str, port: int) -> str:
    """Return Kafka's sentence about listeners on one port. It depends on which hosts are IP addresses."""
    addresses = [host for host in hosts if host and not is_name(host)]
    if len(hosts) - len(addresses) > 1:
        return f"Each listener must have a different port, listeners: {listed}"
    rule = "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6"
    if len(addresses) != 2:
        rule = (
            "Each listener must have a different port unless exactly one listener has an IPv4 address and the other "
            "IPv6 address"
        )
    return f"{rule}, listeners: {listed}, port: {port}"


def _protocols(texts: Texts) -> Mapping[str, SecurityProtocol]:
    try:
        return protocols(texts)
    except StartError as error:
        raise bad_request(str(error)) from None


def _check_roles(before: Texts, wanted: Texts, was: Listeners, listeners: Listeners) -> None:
    """Raise ApiError if the listener of other brokers or that of controllers is missing."""
    for_controllers = {*controllers(before)}
    if inter_broker_listener(before, [name for name in was if name not in for_controllers]) not in listeners:
        raise bad_request(
            f"{INTER_BROKER_NAME} must be a listener name defined in {ADVERTISED}. The valid options based on "
            f"currently configured listeners are {','.join(advertised_names(wanted, listeners))}"
        )
    if for_controllers & was.keys() and not for_controllers & listeners.keys():
        raise bad_request(
            f"{CONTROLLERS} must contain at least one value appearing in the '{LISTENERS}' configuration when running "
            "the KRaft controller role"
        )


def advertised_names(texts: Texts, listeners: Iterable[str]) -> list[str]:
    """Return the names of the advertised listeners: those of `advertised.listeners`, or else all for clients."""
    named = [name for name, _ in entries_of(ADVERTISED, texts)] or listeners
    return [name for name in named if name not in controllers(texts)]


def _fixed(texts: Texts, listener: str) -> dict[str, str]:
    """Return the configs of a listener that it keeps while it is open, by their names without the prefix."""
    prefix = listener_prefix(listener)
    found = {name.removeprefix(prefix): text for name, text in texts.items() if name.startswith(prefix)}
    return {name: text for name, text in found.items() if name not in RECONFIGURABLE}
