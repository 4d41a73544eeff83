"""The configs whose values differ between the brokers of a cluster on one machine."""

from __future__ import annotations

from collections.abc import Iterable

from pykbroker.core.errors import StartError

OF_EACH_BROKER = (
    "node.id",
    "broker.id",
    "process.roles",
    "controller.quorum.bootstrap.servers",
    "controller.quorum.voters",
    "listeners",
    "advertised.listeners",
    "log.dirs",
    "log.dir",
)


def check_shared(names: Iterable[str]) -> None:
    """Raise StartError if one of these configs cannot be the same for all brokers of a cluster."""
    for name in names:
        if name in OF_EACH_BROKER:
            raise StartError(f"{name} cannot be set for a whole cluster: leave it out, each broker has its own")
