"""kafka-configs: describes and alters configs and log levels, as `pykbroker configs` does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from pykbroker.cli.kafka_tools.connection import file_properties, talk
from pykbroker.cli.kafka_tools.options import CONNECTION, Given, InvalidCommandLine, Option, Tool, missing

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin
    from wire.messages.describe_configs import DescribeConfigsResourceResult
    from wire.messages.incremental_alter_configs import AlterableConfig

SET, DELETE = 0, 1  # operations of IncrementalAlterConfigs
KINDS = {"topics": "topic", "brokers": "broker", "broker-loggers": "broker-logger", "groups": "group"}
"""The entity types of this tool -> the option that names an entity of the type."""
OF_QUOTAS = "`pykbroker quotas` describes quotas, and Kafka's own tool alters them"
QUOTA_KINDS = ("users", "clients", "ips")
OPTIONS = (
    *CONNECTION,
    *map(Option, ("describe", "alter", "all", "entity-default", "broker-defaults")),
    *(Option(kind, "NAME") for kind in KINDS.values()),
    Option("entity-type", "TYPE", is_repeatable=True),
    Option("entity-name", "NAME", is_repeatable=True),
    Option("add-config", "NAME=VALUE,..."),
    Option("add-config-file", "FILE"),
    Option("delete-config", "NAME,...", is_repeatable=True),
    *missing("name a broker by --bootstrap-server", "bootstrap-controller", takes="HOST:PORT"),
    *missing(OF_QUOTAS, "user", "client", "ip", takes="NAME"),
    *missing(OF_QUOTAS, "user-defaults", "client-defaults", "ip-defaults"),
    *missing("the translation has topics, brokers, broker loggers and groups", "client-metrics", takes="NAME"),
)
COMMA, EQUALS = (re.compile(rf"{sign}(?=[^\[\]]*(?:\[|$))") for sign in (",", "="))
"""The signs between configs, and between name and value, which within square brackets belong to a value."""
BRACKETS = re.compile(r"[\[\]]")


class ConfigOwner(NamedTuple):
    """The owner of configs: a kind of `KINDS`, and a name, which is "" for the defaults of all brokers."""

    kind: str
    name: str

    @property
    def resource(self) -> int:
        """Return its number in the protocol."""
        from pykbroker.core.config.resource import ConfigResource

        return ConfigResource[self.kind.replace("-", "_").upper()]


def run(given: Given) -> int:
    """Describe or alter configs."""
    action = given.only_one(("describe", "alter"), "Command must include exactly one action: --describe, --alter")
    if action == "describe":
        kind, name = entity(given)
        talk(given, lambda admin: describe(admin, kind, name, everything="all" in given))
        return 0
    changes = changes_of(given)
    if not changes:
        raise InvalidCommandLine(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )
    kind, named = entity(given)
    if named is None or (kind != "broker" and not named):
        raise InvalidCommandLine(f"An entity name must be specified with --alter of {kind}s: write --{kind} NAME")
    talk(given, lambda admin: alter(admin, ConfigOwner(kind, named), changes))
    return 0


def entity(given: Given) -> tuple[str, str | None]:
    """Return the kind of entity, and its name: None for all of the kind, and "" for the defaults of all brokers.

    InvalidCommandLine: no kind is named, or an unknown one.
    """
    named = [
        *(kind for kind in KINDS.values() if kind in given),
        *(["broker-defaults"] if "broker-defaults" in given else []),
    ]
    types = given.all("entity-type")
    for plural in types:
        if plural not in KINDS:
            advice = OF_QUOTAS if plural in QUOTA_KINDS else f"write one of {', '.join(KINDS)}"
            raise InvalidCommandLine(f"--entity-type {plural} is not translated: {advice}")
    if len(named) + len(types) != 1 or len(given.all("entity-name")) > 1:
        raise InvalidCommandLine(
            "At least one entity type must be specified" if not (named or types) else "Only one entity can be specified"
        )
    if types and "entity-default" in given:
        if types[0] != "brokers":
            raise InvalidCommandLine(f"--entity-default must not be specified for {types[0]}: write --entity-name NAME")
        if "entity-name" not in given:
            return "broker", ""
    if not types:
        return ("broker", "") if named[0] == "broker-defaults" else checked(named[0], given.text(named[0]))
    return checked(KINDS[types[0]], given.text("entity-name") if "entity-name" in given else None)


def checked(kind: str, name: str | None) -> tuple[str, str | None]:
    """Return a kind of entity and its name. InvalidCommandLine: a broker has no number."""
    if kind.startswith("broker") and name and not (name.isascii() and name.isdigit()):
        raise InvalidCommandLine(
            f"The entity name for {kind}s must be a valid integer {kind.partition('-')[0]} id, but it is: {name}"
        )
    return kind, name


def changes_of(given: Given) -> list[AlterableConfig]:
    """Return the changes of --add-config, --add-config-file and --delete-config."""
    from wire.messages.incremental_alter_configs import AlterableConfig

    if "add-config" in given and "add-config-file" in given:
        raise InvalidCommandLine("Only one of --add-config or --add-config-file must be specified")
    added = file_properties(given, "add-config-file")
    for text in given.all("add-config"):
        for pair in filter(None, COMMA.split(text)):
            name, *values = EQUALS.split(pair)
            if len(values) != 1:
                raise InvalidCommandLine(
                    'Invalid entity config: all configs to be added must be in the format "key=val" or'
                    ' "key=[val1,val2]" to group values which contain commas.'
                )
            added[name.strip()] = BRACKETS.sub("", values[0]).strip()
    deleted = [name.strip() for text in given.all("delete-config") for name in text.split(",") if name.strip()]
    return [AlterableConfig(name, DELETE, None) for name in deleted] + [
        AlterableConfig(name, SET, value) for name, value in added.items()
    ]


async def alter(admin: Admin, owner: ConfigOwner, changes: list[AlterableConfig]) -> None:
    """Make all changes, or none."""
    await admin.alter_configs(owner.resource, owner.name, changes)
    done = f"config for {owner.kind} {owner.name}" if owner.name else f"default config for {owner.kind}s in the cluster"
    print(f"Completed updating {done}.")


async def describe(admin: Admin, kind: str, name: str | None, *, everything: bool) -> None:
    """Print the configs of an entity, or of all entities of a kind. As in Kafka, an unknown topic is no failure."""
    from pykbroker.core.errors import ApiError
    from wire.error_codes import ErrorCode

    for owner in await owners(admin, kind) if name is None else [ConfigOwner(kind, name)]:
        try:
            found = await admin.configs(owner.resource, owner.name, synonyms=True)
        except ApiError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            print(f"The {kind} '{owner.name}' doesn't exist and doesn't have dynamic config.")
            continue
        if owner.name:
            print(f"{'All' if everything else 'Dynamic'} configs for {kind} {owner.name} are:")
        else:
            print(f"Default configs for {kind}s in the cluster are:")
        for each in found:
            if everything or is_own(each, owner):
                print(line(each))


async def owners(admin: Admin, kind: str) -> list[ConfigOwner]:
    """Return all topics, or all brokers and their defaults, or all groups."""
    from pykbroker.client.admin.cluster_description import describe_brokers
    from pykbroker.client.admin.groups import list_groups

    if kind == "topic":
        return [ConfigOwner(kind, each.name) for each in await admin.topics()]
    if kind in ("broker", "broker-logger"):
        defaults = [ConfigOwner(kind, "")] if kind == "broker" else []
        return [ConfigOwner(kind, str(each.broker)) for each in await describe_brokers(admin)] + defaults
    return [ConfigOwner(kind, each.group) for each in await list_groups(admin)]


def is_own(found: DescribeConfigsResourceResult, owner: ConfigOwner) -> bool:
    """Whether a config is set for this entity itself."""
    from pykbroker.core.config.entries import Source

    if owner.kind == "broker":
        return found.config_source == (
            Source.DYNAMIC_BROKER_CONFIG if owner.name else Source.DYNAMIC_DEFAULT_BROKER_CONFIG
        )
    return found.config_source in (
        Source.DYNAMIC_TOPIC_CONFIG,
        Source.DYNAMIC_GROUP_CONFIG,
        Source.DYNAMIC_BROKER_LOGGER_CONFIG,
    )


def line(found: DescribeConfigsResourceResult) -> str:
    """Return the line of a config with its synonyms, as Kafka's tool prints it."""
    from pykbroker.core.config.entries import Source

    synonyms = ", ".join(f"{Source(each.source).name}:{each.name}={each.value}" for each in found.synonyms)
    value = "null" if found.value is None else found.value
    return f"  {found.name}={value} sensitive={str(found.is_sensitive).lower()} synonyms={{{synonyms}}}"


TOOL = Tool(
    "kafka-configs",
    "This tool helps to manipulate and describe entity config for a topic, broker or group.",
    OPTIONS,
    run,
    failure="Error while executing config command: ",
)
