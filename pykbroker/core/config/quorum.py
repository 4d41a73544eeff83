"""The place of a node in the quorum of controllers, as its configs declare it.

1. A node is a broker, or a broker and the only controller. Its roles are those of `process.roles`.
2. A node that is only a broker finds the controller at `controller.quorum.bootstrap.servers`, or at the addresses of
   `controller.quorum.voters`.

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


def is_controller(texts: Texts) -> bool:
    """Whether this node is the controller beside being a broker."""
    roles = set(_entries(texts.get(ROLES, FILL_IN[ROLES])))
    if BROKER not in roles:
        raise StartError(
            f"{ROLES}: a node of pykbroker is always a broker: write {BROKER}, or {BROKER},{CONTROLLER} for the node"
            " that is also the controller"
        )
    return CONTROLLER in roles


def quorum_addresses(texts: Texts) -> tuple[Address, ...]:
    """Return the addresses at which a node that is only a broker finds the controller."""
    named = _entries(texts.get(BOOTSTRAP, "")), [one.partition("@")[2] for one in _entries(texts.get(VOTERS, ""))]
    found = named[0] or named[1]
    if not found:
        raise StartError(f"{ROLES} is {BROKER} only: name the controller in {BOOTSTRAP}, as HOST:PORT")
    try:
        return tuple(map(parse_address, found))
    except ValueError as error:
        raise StartError(f"{BOOTSTRAP if named[0] else VOTERS}: {error}") from None


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]
