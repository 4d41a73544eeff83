"""Broker configs in environment variables: PYKBROKER_* for every broker, KAFKA_* as in Apache Kafka's container image.

NUM_PARTITIONS stands for num.partitions: one underscore is a dot, two are an underscore, and three are a hyphen.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping

import msgspec

from pykbroker.core.config.config import known
from pykbroker.core.config.names import unknown_config
from pykbroker.core.errors import StartError

OWN_PREFIX, KAFKA_PREFIX = "PYKBROKER_", "KAFKA_"
OPTIONS = {"ADVERTISE", "BOOTSTRAP", "CONFIG", "CONSOLE", "DATA_DIR", "LISTEN", "LOG_FORMAT", "LOG_LEVEL", "MEMORY"}
"""Variables that stand for options of commands, without their prefix."""
OF_TESTS = "TEST_"
PASSED_OVER = re.compile(
    "KAFKA_(VERSION|HEAP_OPTS|OPTS|LOG4J_.*|TOOLS_LOG4J_.*|JMX_.*|JVM_PERFORMANCE_OPTS|GC_LOG_OPTS"
    r"|SERVICE_(HOST|PORT.*)|PORT(_[0-9]+_.*)?)|CLUSTER_ID"
)
"""Variables for a JVM, for the formatting of storage, and for a service named kafka (set by Kubernetes)."""


class EnvironmentConfigs(msgspec.Struct, frozen=True):
    """The configs in environment variables, and the variable of each config."""

    texts: Mapping[str, str] = msgspec.field(default_factory=dict)
    variables: Mapping[str, str] = msgspec.field(default_factory=dict)
    passed_over: tuple[str, ...] = ()

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


def container_configs(environ: Mapping[str, str]) -> EnvironmentConfigs:
    """Return the configs in KAFKA_* and PYKBROKER_* variables. PYKBROKER_* variables take precedence."""
    own = own_configs(environ)
    variables = {config_name(variable.removeprefix(KAFKA_PREFIX)): variable for variable in _of_kafka(environ)}
    texts = {name: environ[variable] for name, variable in variables.items()}
    passed_over = tuple(sorted(filter(PASSED_OVER.fullmatch, environ)))
    return EnvironmentConfigs({**texts, **own.texts}, {**variables, **own.variables}, passed_over)


def config_name(variable: str) -> str:
    """Return the config that a variable without its prefix stands for."""
    return variable.lower().replace("_", ".").replace("...", "-").replace("..", "_")


def _of_kafka(environ: Mapping[str, str]) -> Iterator[str]:
    for variable in sorted(environ):
        if variable.startswith(KAFKA_PREFIX) and not PASSED_OVER.fullmatch(variable):
            yield variable
