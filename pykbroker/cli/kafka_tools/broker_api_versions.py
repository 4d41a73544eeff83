"""kafka-broker-api-versions: prints the versions of each API that the brokers support. Health checks use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.kafka_tools.connection import talk
from pykbroker.cli.kafka_tools.options import CONNECTION, Given, Tool

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin
    from pykbroker.client.connection import BrokerConnection


def run(given: Given) -> int:
    """Print the versions of each broker. As in Kafka, the tool does not wait for a broker: it is a health check."""
    talk(given, work, reach_s=0)
    return 0


async def work(admin: Admin) -> None:
    """Print a block for each broker, as Kafka's tool does."""
    from pykbroker.client.admin.cluster_description import describe_brokers
    from pykbroker.client.brokers import Brokers

    brokers = Brokers(admin)
    try:
        connections = await brokers.connections()
        for each in await describe_brokers(admin):
            if each.broker in connections:
                fenced = str(each.fenced).lower()
                rack = "null" if each.rack is None else each.rack
                print(f"{each.address} (id: {each.broker} rack: {rack} isFenced: {fenced}) -> (")
                print(",\n".join(lines(connections[each.broker])))
                print(")")
    finally:
        brokers.close()


def lines(connection: BrokerConnection) -> list[str]:
    """Return a line for each API of a client, and for each other one that the broker has."""
    from wire.api import ApiKey
    from wire.apis import APIS, NOT_ADVERTISED

    of_clients = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY} | (APIS.keys() - NOT_ADVERTISED)
    found = []
    for key in sorted(of_clients | connection.versions.keys()):
        name = f"{APIS[key].name if key in APIS else 'UNKNOWN'}({int(key)})"
        theirs = connection.versions.get(key)
        if theirs is None:
            found.append(f"\t{name}: UNSUPPORTED")
            continue
        span = str(theirs.first) if theirs.first == theirs.last else f"{theirs.first} to {theirs.last}"
        found.append(f"\t{name}: {span} [{usable(connection, key)}]")
    return found


def usable(connection: BrokerConnection, key: int) -> str:
    """Return the newest version of an API that this client and the broker have."""
    from pykbroker.client.errors import UnsupportedVersion
    from wire.apis import APIS

    try:
        return f"usable: {connection.newest_version(key)}"
    except (KeyError, UnsupportedVersion):
        is_old = key in APIS and connection.versions[key].last < APIS[key].accepted.first
        return f"unusable: node too {'old' if is_old else 'new'}"


TOOL = Tool("kafka-broker-api-versions", "This tool helps to retrieve broker version information.", CONNECTION, run)
