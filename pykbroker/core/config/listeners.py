"""The listeners of a broker, as its configs and options declare them.

1. Names are compared in upper case. Each listener has a port of its own. As an exception, listeners on an IPv4 and an
   IPv6 address may share a port. A listener on all interfaces has both families.
2. The listeners of `controller.listener.names` serve other brokers, not clients. Only a controller binds them.

A function raises StartError if a rule is broken. Sources: KIP-103, KIP-291, and SocketServerConfigs and KafkaConfig of
Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from pykbroker.core.address import Address, parse_address
from pykbroker.core.config.config import Texts
from pykbroker.core.config.host_counts import is_name
from pykbroker.core.config.table import BROKER, FILL_IN
from pykbroker.core.errors import StartError
from pykbroker.core.security.protocol import SecurityProtocol

LISTENERS, ADVERTISED = "listeners", "advertised.listeners"
LISTEN, ADVERTISE = "--listen", "--advertise"
PROTOCOL_MAP = "listener.security.protocol.map"
CONTROLLERS = "controller.listener.names"
INTER_BROKER_NAME, INTER_BROKER_PROTOCOL = "inter.broker.listener.name", "security.inter.broker.protocol"
MECHANISM_AT_BROKERS, MECHANISM_AT_CONTROLLERS = (
    "sasl.mechanism.inter.broker.protocol",
    "sasl.mechanism.controller.protocol",
)
"""The configs with the SASL mechanism of the log-in at other brokers, and of that at controllers."""
EARLY = "early.start.listeners"
PLAINTEXT = "PLAINTEXT"
ALL_INTERFACES = "0.0.0.0"
LOCAL = Address("127.0.0.1", 9092)
NOT_ROUTABLE = (ALL_INTERFACES, "::")

Addresses = dict[str, Address]
"""The address of each listener, by name."""


class ListenerSettings(msgspec.Struct, frozen=True):
    """A listener for clients or for controllers. Port 0 selects any free port.

    Responses tell clients the address `advertised`. If it is None, they tell each client the address to which it
    connected.
    """

    name: str = PLAINTEXT
    address: Address = LOCAL
    advertised: Address | None = None
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT


def listener_settings(
    texts: Texts, listen: Iterable[tuple[str, Address]] = (), advertise: Iterable[tuple[str, Address]] = ()
) -> tuple[ListenerSettings, ...]:
    """Return the listeners for clients: those of the option `listen`, or those of the configs if the option is empty.

    `advertise` takes precedence over `advertised.listeners`. A name may be empty in both options.
    """
    listen = list(listen)
    bound = clients_of_option(listen, texts) if listen else listeners_of_configs(texts)
    advertised = {} if listen else advertised_addresses(ADVERTISED, entries_for_clients(texts), bound)
    advertised |= advertised_addresses(ADVERTISE, [(name or only(bound), one) for name, one in advertise], bound)
    check_early(texts, [*bound, *controllers(texts)])
    return settings_of(bound, advertised, protocols(texts, bound))


def controller_listener_settings(
    texts: Texts, listen: Iterable[tuple[str, Address]] = ()
) -> tuple[ListenerSettings, ...]:
    """Return the listeners of `controller.listener.names`, in the order of that config.

    They are those of the option `listen`, or those of `listeners` if the option is empty.
    """
    listen = list(listen)
    declared = listeners_of_option(listen, texts) if listen else unique(LISTENERS, entries_of(LISTENERS, texts))
    bound = {name: declared[name] for name in controllers(texts) if name in declared}
    known = protocols(texts, bound)
    check_protocols(LISTENERS, bound, known)
    return settings_of(bound, dict(entries_of(ADVERTISED, texts)), known)


def settings_of(
    bound: Addresses, advertised: Addresses, known: Mapping[str, SecurityProtocol]
) -> tuple[ListenerSettings, ...]:
    """Return the settings of the listeners `bound`. A listener without a host is on all interfaces."""
    return tuple(
        ListenerSettings(name, Address(host or ALL_INTERFACES, port), advertised.get(name), known[name])
        for name, (host, port) in bound.items()
    )


def clients_of_option(listen: Iterable[tuple[str, Address]], texts: Texts) -> Addresses:
    """Return the addresses for clients in the option `--listen`."""
    declared = listeners_of_option(listen, texts)
    bound = {name: address for name, address in declared.items() if name not in controllers(texts)}
    if not bound:
        raise StartError(f"{LISTEN} has no listener for clients: add {LISTEN} HOST:PORT")
    return bound


def listeners_of_option(listen: Iterable[tuple[str, Address]], texts: Texts) -> Addresses:
    """Return the addresses of the option `--listen`."""
    declared = unique(LISTEN, ((name or PLAINTEXT, address) for name, address in listen))
    check_ports(LISTEN, declared)
    check_protocols(LISTEN, declared, protocols(texts, declared))
    return declared


def listeners_of_configs(texts: Texts) -> Addresses:
    """Return the addresses for clients in `listeners`.

    Without that config, return one address that only this machine can reach.
    """
    declared = unique(LISTENERS, entries_of(LISTENERS, texts))
    check_ports(LISTENERS, declared)
    bound = {name: address for name, address in declared.items() if name not in controllers(texts)}
    check_protocols(LISTENERS, bound, protocols(texts))
    if declared and not bound:
        raise StartError(
            f"{LISTENERS} has no listener for clients: add PLAINTEXT://localhost:9092 or the like, or use --listen"
        )
    return bound or {PLAINTEXT: LOCAL}


def derived_listeners(texts: Texts) -> dict[str, str]:
    """Return `listeners` with the ports of `advertised.listeners` on all interfaces, as images of Kafka derive it."""
    advertised = unique(ADVERTISED, entries_of(ADVERTISED, texts))
    derived = {name: Address(ALL_INTERFACES, port) for name, (_, port) in advertised.items()}
    check_ports(f"{ADVERTISED} without {LISTENERS}", derived)
    return {LISTENERS: ",".join(f"{name}://{address}" for name, address in derived.items())}


def inter_broker_listener(texts: Texts, names: Iterable[str], setting: str = LISTENERS) -> str:
    """Return the name of the listener for other brokers. Without a config it is PLAINTEXT, or the first listener.

    `setting` declares the listeners `names`. Raise StartError if none of them has the configured name.
    """
    names = list(names)
    given = [config for config in (INTER_BROKER_NAME, INTER_BROKER_PROTOCOL) if texts.get(config)]
    if len(given) > 1:
        raise StartError(f"{INTER_BROKER_NAME} and {INTER_BROKER_PROTOCOL} exclude each other: remove one of them")
    if not given:
        return PLAINTEXT if PLAINTEXT in names else names[0]
    name = texts[given[0]].strip().upper()
    if name not in names:
        remedy = f"write one of {', '.join(names)}"
        if name not in controllers(texts):
            added = f"add {LISTEN} {name}=HOST:PORT" if setting == LISTEN else f"add {name}://HOST:PORT to {LISTENERS}"
            remedy = f"{added}, or {remedy}"
        raise StartError(f"{given[0]}: no listener for clients is called {name}: {remedy}")
    return name


def without_stale(texts: Texts, names: Iterable[str]) -> dict[str, str]:
    """Return the configs of a node without others, without the name of a listener that `--listen` has replaced.

    The name is that of the inter-broker listener, and the replaced listeners are those of `listeners`.
    """
    replaced = {name for name, _ in entries_of(LISTENERS, texts)}.difference(names)
    of_brokers = (INTER_BROKER_NAME, INTER_BROKER_PROTOCOL)
    return {
        config: text
        for config, text in texts.items()
        if config not in of_brokers or text.strip().upper() not in replaced
    }


def entries_of(config: str, texts: Texts) -> Iterator[tuple[str, Address]]:
    """Yield the name and the address of each NAME://HOST:PORT. The host may be empty."""
    for entry in filter(None, map(str.strip, texts.get(config, "").split(","))):
        name, separator, address = entry.partition("://")
        if not separator or not name:
            raise StartError(f"{config}: {entry!r} is not NAME://HOST:PORT, such as PLAINTEXT://localhost:9092")
        try:
            yield name.upper(), parse_address(address)
        except ValueError as error:
            raise StartError(f"{config}: {error}") from None


def entries_for_clients(texts: Texts) -> list[tuple[str, Address]]:
    """Return the entries of `advertised.listeners` except those of controller listeners."""
    return [entry for entry in entries_of(ADVERTISED, texts) if entry[0] not in controllers(texts)]


def unique(setting: str, entries: Iterable[tuple[str, Address]]) -> Addresses:
    """Return the addresses by name. Raise StartError for a repeated name."""
    found: Addresses = {}
    for name, address in entries:
        if name in found:
            raise StartError(f"{setting} has {name} twice: give each listener a name of its own")
        found[name] = address
    return found


def check_ports(setting: str, addresses: Addresses) -> None:
    """Raise StartError if listeners share a port, unless one has an IPv4 and the other an IPv6 address.

    Of all interfaces, `bind` takes both families.
    """
    for port, names in shared_ports(addresses):
        raise StartError(f"{setting}: {' and '.join(names)} share port {port}: give each listener its own")


def shared_ports(addresses: Addresses) -> Iterator[tuple[int, list[str]]]:
    """Yield each port that listeners share though they may not, and their names."""
    by_port: dict[int, list[str]] = {}
    for name, address in addresses.items():
        if address.port:
            by_port.setdefault(address.port, []).append(name)
    for port, names in by_port.items():
        hosts = [addresses[name].host for name in names]
        families = {":" in host for host in hosts if host and host not in NOT_ROUTABLE and not is_name(host)}
        if len(names) > 1 and not (len(names) == len(families) == 2):
            yield port, names


def check_early(texts: Texts, names: Iterable[str]) -> None:
    """Raise StartError if `early.start.listeners` has another listener than these.

    It has no other effect: every listener opens once the ACLs are loaded.
    """
    for name in filter(None, map(str.strip, texts.get(EARLY, "").split(","))):
        if name.upper() not in names:
            raise StartError(f"{EARLY}: no listener is called {name}: write one of {', '.join(names)}")


def check_protocols(setting: str, names: Iterable[str], known: Mapping[str, SecurityProtocol]) -> None:
    """Raise StartError for a listener whose security protocol is missing."""
    for name in names:
        if name not in known:
            raise StartError(f"{setting}: {name} has no security protocol: add {name}:PLAINTEXT to {PROTOCOL_MAP}")


def outgoing_listener(texts: Texts, name: str) -> ListenerSettings:
    """Return a listener of other nodes, to which this node connects. It needs no entry in the map of protocols."""
    return ListenerSettings(name, protocol=protocols(texts, (name,))[name])


def advertised_addresses(setting: str, entries: Iterable[tuple[str, Address]], names: Iterable[str]) -> Addresses:
    """Return the advertised addresses of the named listeners. An address without a host is not advertised."""
    found = unique(setting, entries)
    for name, address in found.items():
        if name not in names:
            raise StartError(f"{setting}: no listener is called {name}: write one of {', '.join(names)}")
        if address.host in NOT_ROUTABLE:
            raise StartError(
                f"{setting}: clients cannot connect to {address}, the address of {name}: write a host that they can"
                " reach, or leave it out, and clients get the address that they connected to"
            )
    return {name: address for name, address in found.items() if address.host}


def only(names: Iterable[str]) -> str:
    """Return the only listener, which `--advertise` without a name means. Raise StartError if there are several."""
    names = list(names)
    if len(names) > 1 and PLAINTEXT not in names:
        raise StartError(f"{ADVERTISE} HOST:PORT is for one of {', '.join(names)}: write {names[0]}=HOST:PORT")
    return PLAINTEXT if PLAINTEXT in names else names[0]


def controllers(texts: Texts) -> list[str]:
    """Return the names of the listeners of controllers. Brokers connect to the first of them."""
    return [name.strip().upper() for name in texts.get(CONTROLLERS, FILL_IN[CONTROLLERS]).split(",")]


def protocols(texts: Texts, named: Iterable[str] = ()) -> dict[str, SecurityProtocol]:
    """Return the security protocol of each listener.

    Listeners of `named` need no entry in the map. They use PLAINTEXT, unless the name is that of another protocol.
    """
    of_name = SecurityProtocol.__members__
    found = {name: of_name.get(name, SecurityProtocol.PLAINTEXT) for name in named}
    for entry in filter(None, map(str.strip, protocol_map(texts).split(","))):
        name, colon, protocol = (part.strip().upper() for part in entry.partition(":"))
        if not colon or not name:
            raise StartError(f"{PROTOCOL_MAP}: {entry!r} is not NAME:PROTOCOL, such as EXTERNAL:PLAINTEXT")
        if protocol not in of_name:
            raise StartError(
                f"{PROTOCOL_MAP}: {name} has the unknown protocol {protocol}: write one of {', '.join(of_name)}"
            )
        found[name] = of_name[protocol]
    return found


def protocol_map(texts: Texts) -> str:
    """Return `listener.security.protocol.map`, or its default."""
    return texts.get(PROTOCOL_MAP, str(BROKER[PROTOCOL_MAP].default))


def with_listeners(
    texts: Texts, listeners: Iterable[ListenerSettings], of_controllers: Iterable[ListenerSettings] = ()
) -> dict[str, str]:
    """Return the configs with these listeners instead of the declared ones."""
    written = {name: text for name, text in texts.items() if name != ADVERTISED}
    listeners = [*listeners, *of_controllers]
    written[LISTENERS] = ",".join(f"{one.name}://{one.address}" for one in listeners)
    if advertised := [f"{one.name}://{one.advertised}" for one in listeners if one.advertised is not None]:
        written[ADVERTISED] = ",".join(advertised)
    if unmapped := [f"{one.name}:{one.protocol.name}" for one in listeners if one.name not in protocols(texts)]:
        written[PROTOCOL_MAP] = ",".join([protocol_map(texts), *unmapped])
    return written
