"""The place of a node in the quorum of controllers, as its configs declare it.

1. A node is a broker, or a broker and the only controller. Its roles are those of `process.roles`.
2. A node that is only a broker finds the controller at `controller.quorum.bootstrap.servers`, or at the addresses of
   `controller.quorum.voters`.
3. A controller is alone in both configs. Each of several controllers would otherwise begin a cluster of its own.
4. The same holds for brokers that would find each other by ZooKeeper.

A function raises StartError if a rule is broken. Sources: KIP-631, KIP-853.
"""

from __future__ import annotations

from pykbroker.core.address import Address, parse_address
from pykbroker.core.config.config import Texts
from pykbroker.core.config.table import FILL_IN
from pykbroker.core.errors import StartError

ROLES = "process.roles"
BOOTSTRAP, VOTERS = "controller.quorum.bootstrap.servers", "controller.quorum.voters"
BROKER, CONTROLLER = "broker", "controller"
ZOOKEEPER = "zookeeper.connect"
IDS_OF_FIRST = ("0", "1", "-1")
"""The ids that the only broker of a cluster has. ZooKeeper chose an id for a broker with the id -1."""
REPLICATION_FACTORS = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
)


def is_controller(texts: Texts) -> bool:
    """Whether this node is the controller beside being a broker."""
    roles = set(_entries(texts.get(ROLES, FILL_IN[ROLES])))
    if BROKER not in roles:
        raise StartError(
            f"{ROLES}: a node of pykbroker is always a broker: write {BROKER}, or {BROKER},{CONTROLLER} for the node"
            " that is also the controller"
        )
    return CONTROLLER in roles


def check_only_controller(texts: Texts) -> None:
    """Raise StartError if this controller has other controllers, its quorum lacks it, or it is one of several brokers.

    The brokers of a cluster with ZooKeeper have no roles, and each of them would be a controller.
    """
    if texts.get(ZOOKEEPER) and not texts.get(ROLES) and (sign := _sign_of_several(texts)):
        raise StartError(
            f"{ZOOKEEPER}: this is one of several brokers ({sign}), and would begin a cluster of its own, as there is"
            f" no ZooKeeper mode: write {ROLES}={BROKER},{CONTROLLER} on one broker, and {ROLES}={BROKER} and"
            f" {BOOTSTRAP} on all others; for a broker that is alone, remove {ZOOKEEPER}"
        )
    servers, voters = _entries(texts.get(BOOTSTRAP, "")), _entries(texts.get(VOTERS, ""))
    for config, named in ((VOTERS, voters), (BOOTSTRAP, servers)):
        if len(set(named)) > 1:
            raise StartError(
                f"{config} names {len(named)} controllers, but a cluster of pykbroker has one: write {named[0]} on"
                f" every node, and {ROLES}={BROKER} on every node but that one"
            )
    node_id = own_id(texts)
    for voter in voters:
        voter_id, at, address = voter.partition("@")
        if not at:
            raise StartError(f"{VOTERS}: {voter!r} is not ID@HOST:PORT, such as {node_id}@localhost:9093")
        if voter_id.strip() != node_id:
            raise StartError(
                f"{VOTERS} names node {voter_id}, but this controller is node {node_id}: write {node_id}@{address}, or"
                f" {ROLES}={BROKER} if node {voter_id} is the controller"
            )


def _sign_of_several(texts: Texts) -> str:
    """Return what shows that this is one of several brokers: its id, or a number of replicas. Empty: nothing does."""
    if own_id(texts) not in IDS_OF_FIRST:
        return f"its id is {own_id(texts)}"
    numbers = ((config, texts.get(config, "").strip()) for config in REPLICATION_FACTORS)
    return next((f"{config}={text}" for config, text in numbers if text.isdigit() and int(text) > 1), "")


def own_id(texts: Texts) -> str:
    """Return the id of this node, as its configs have it."""
    return (texts.get("node.id") or texts.get("broker.id") or FILL_IN["node.id"]).strip()


def quorum_addresses(texts: Texts) -> tuple[Address, ...]:
    """Return the addresses at which a node that is only a broker finds the controller."""
    named = _entries(texts.get(BOOTSTRAP, "")), [one.partition("@")[2] for one in _entries(texts.get(VOTERS, ""))]
    found = named[0] or named[1]
    if not found:
        raise StartError(f"{ROLES} is {BROKER} only: name the controller in {BOOTSTRAP}, as HOST:PORT")
    config = BOOTSTRAP if named[0] else VOTERS
    try:
        addresses = tuple(map(parse_address, found))
    except ValueError as error:
        raise StartError(f"{config}: {error}") from None
    for address in addresses:
        if not address.host:
            raise StartError(f"{config}: {address} has no host: write that of the controller before the port")
    return addresses


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]
