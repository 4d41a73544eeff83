"""Broker configs in PYKBROKER_* environment variables, which every start reads.

NUM_PARTITIONS stands for num.partitions: one underscore is a dot, two are an underscore, and three are a hyphen.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

import msgspec

from pykbroker.core.cluster_id import RequiredClusterId
from pykbroker.core.config.config import known
from pykbroker.core.config.names import unknown_config
from pykbroker.core.errors import StartError
from pykbroker.core.new_topic import NewTopic

OWN_PREFIX = "PYKBROKER_"
OPTIONS = {
    *("ADVERTISE", "BOOTSTRAP", "CLIENT_CONFIG", "CLUSTER_ID", "CONFIG", "CONSOLE", "CONTAINER", "DATA_DIR"),
    *("LISTEN", "LOG_FORMAT", "LOG_LEVEL", "MEMORY", "TLS", "USER", "AUTHORIZE"),
}
"""Variables that stand for options of commands, without their prefix."""
OF_TESTS = "TEST_"


class EnvironmentConfigs(msgspec.Struct, frozen=True):
    """The configs in environment variables, and the variable of each config.

    In a container, other variables require a cluster id, create topics, or are passed over. `container_address`: they
    are those of an image that advertises an address of its container, unless a config names another one.
    """

    texts: Mapping[str, str] = msgspec.field(default_factory=dict)
    variables: Mapping[str, str] = msgspec.field(default_factory=dict)
    passed_over: tuple[str, ...] = ()
    cluster_id: RequiredClusterId | None = None
    topics: tuple[NewTopic, ...] = ()
    warnings: tuple[str, ...] = ()
    container_address: bool = False

    def __repr__(self) -> str:
        return f"EnvironmentConfigs({', '.join(self.variables.values())})"

    def place(self, name: str) -> str:
        """Return the variable of a config."""
        return self.variables[name]

    def blamed(self, reason: str, others: Container[str]) -> str:
        """Return the reason, preceded by the variable of the config that it names unless that config is in `others`."""
        words = reason.replace(":", " ").split()
        named = (place for name, place in self.variables.items() if name in words and name not in others)
        return ": ".join([*named, reason])


def own_configs(environ: Mapping[str, str]) -> EnvironmentConfigs:
    """Return the configs in PYKBROKER_* variables. StartError: a variable names no config."""
    variables = {}
    for variable in sorted(environ):
        rest = variable.removeprefix(OWN_PREFIX)
        if rest != variable and rest not in OPTIONS and not rest.startswith(OF_TESTS):
            name = config_name(rest)
            own = f"pykbroker.{name}"
            if not known(name) and not known(own):
                raise StartError(f"{variable}: {unknown_config(name)} Remove the variable, or correct its name.")
            variables[name if known(name) else own] = variable
    return EnvironmentConfigs({name: environ[variable] for name, variable in variables.items()}, variables)


def without_options(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without those that stand for options of commands."""
    of_options = {f"{OWN_PREFIX}{option}" for option in OPTIONS}
    return {name: text for name, text in environ.items() if name not in of_options}


def config_name(variable: str) -> str:
    """Return the config that a variable without its prefix stands for."""
    return variable.lower().replace("_", ".").replace("...", "-").replace("..", "_")
