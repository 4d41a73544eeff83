"""The options of a cluster for tests: checked before a broker starts, and turned into the options of each broker."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pykbroker.testing.options import BrokerOptions, checked_options

BROKERS_MAX = 20
CONTROLLER = 1
"""The id of the broker that is the controller, too."""


@dataclass(frozen=True)
class ClusterOptions:
    """The number of brokers of a cluster, and the options that all of them share."""

    brokers: int
    shared: BrokerOptions

    def signed_by(self, directory: str) -> ClusterOptions:
        """Return the options of a cluster whose brokers have certificates of an authority in this directory."""
        return replace(self, shared=replace(self.shared, authority=directory))

    def of(self, broker: int, controller: str | None) -> BrokerOptions:
        """Return the options of one broker. `controller` is the address of the controller, None for itself."""
        configs = {**self.shared.configs, "node.id": str(broker)}
        if controller is None:
            return replace(self.shared, configs=configs, topics={}, controller_port=0)
        configs |= {"process.roles": "broker", "controller.quorum.bootstrap.servers": controller}
        return replace(self.shared, configs=configs, topics={}, controller=controller)


def checked_cluster_options(
    brokers: Any,
    replicas: Any,
    topics: Any,
    configs: Any,
    data_dir: str | os.PathLike[str] | None,
    start_timeout: Any,
    environ: Mapping[str, str],
    *,
    tls: Any = False,
    users: Any = None,
    authorize: Any = False,
) -> ClusterOptions:
    """Return the options of `running_cluster`. StartError: one sentence that names the option and what to write."""
    from pykbroker.core.config.of_each_broker import check_shared
    from pykbroker.core.config.replication import REPLICAS_DEFAULT, replication_configs

    number(brokers, "brokers", BROKERS_MAX)
    factor = min(REPLICAS_DEFAULT, brokers) if replicas is None else replicas
    number(factor, "replicas", brokers)
    shared = checked_options(
        0, topics, configs, data_dir, True, start_timeout, environ, tls=tls, users=users, authorize=authorize
    )
    check_shared(shared.configs)
    return ClusterOptions(brokers, replace(shared, configs={**replication_configs(factor), **shared.configs}))


def number(value: Any, option: str, largest: int) -> None:
    """Check a number. StartError: it is none from 1 to `largest`."""
    from pykbroker.core.errors import StartError

    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= largest:
        raise StartError(f"{option} is {value!r}: write a number from 1 to {largest}")
