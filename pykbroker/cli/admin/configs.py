"""The commands of `pykbroker configs`, which describe and alter the configs of topics and brokers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from pykbroker.cli.ask import ask, asking, bootstrap_option
from pykbroker.cli.completion import topic_names
from pykbroker.cli.parameters import config
from pykbroker.cli.tables import Table, json_option, print_json
from pykbroker.core.address import Address

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin
    from wire.messages.describe_configs import DescribeConfigsResourceResult
    from wire.messages.incremental_alter_configs import AlterableConfig

SET, DELETE, APPEND, SUBTRACT = range(4)  # operations of IncrementalAlterConfigs

LOGGER = "broker-logger"

kind_argument = click.argument("kind", type=click.Choice(["topic", "broker", LOGGER]))


def resource_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the topics that begin with a text, and no brokers."""
    return topic_names(context, parameter, incomplete) if context.params.get("kind") == "topic" else []


name_argument = click.argument("name", default="", shell_complete=resource_names)


@click.group()
def configs() -> None:
    """Describe and alter the configs of topics and brokers, and the log levels of brokers."""


@configs.command()
@kind_argument
@name_argument
@click.option("--all", "everything", is_flag=True, help="Also list configs that have their defaults.")
@json_option
@asking
async def describe(admin: Admin, kind: str, name: str, everything: bool, as_json: bool) -> None:
    """Describe the configs of a topic, or of a broker by its id.

    `broker` without an id describes the dynamic defaults of all brokers. `broker-logger` with the id of a broker lists
    its loggers and their levels.
    """
    from pykbroker.core.config.entries import Source

    found = await admin.configs(resource(kind, name), name)
    listed = [each for each in found if everything or each.config_source != Source.DEFAULT_CONFIG]
    if as_json:
        print_json(list(map(document, listed)))
    else:
        Table(("config", "value", "source"), list(map(row, listed))).print()


@configs.command()
@kind_argument
@name_argument
@click.option("--set", "values", type=config, metavar="KEY=VALUE", multiple=True, help="Set a value. Repeatable.")
@click.option("--delete", "deleted", metavar="KEY", multiple=True, help="Restore the default. Repeatable.")
@click.option(
    "--append", "added", type=config, metavar="KEY=VALUE", multiple=True, help="Append to a list. Repeatable."
)
@click.option(
    "--subtract", "taken", type=config, metavar="KEY=VALUE", multiple=True, help="Remove from a list. Repeatable."
)
@click.option("--dry-run", is_flag=True, help="Only validate the changes.")
@bootstrap_option
def alter(
    kind: str,
    name: str,
    values: Sequence[tuple[str, str]],
    deleted: Sequence[str],
    added: Sequence[tuple[str, str]],
    taken: Sequence[tuple[str, str]],
    dry_run: bool,
    bootstrap: Sequence[Address],
) -> None:
    """Alter configs of a topic, or of a broker by its id. If one change is invalid, no change is made.

    `broker` without an id alters the dynamic defaults of all brokers. `broker-logger` with the id of a broker alters
    the levels of its loggers until it stops: --set pykbroker.server=DEBUG, and --delete pykbroker.server to undo it.
    """
    from wire.messages.incremental_alter_configs import AlterableConfig

    check_names(kind, [key for key, _ in (*values, *added, *taken)])
    if kind == LOGGER:
        values = [(key, level(value)) for key, value in values]
    changes: list[AlterableConfig] = [AlterableConfig(key, DELETE, None) for key in deleted]
    for operation, pairs in ((SET, values), (APPEND, added), (SUBTRACT, taken)):
        changes += [AlterableConfig(key, operation, value) for key, value in pairs]
    if not changes:
        raise click.UsageError("nothing to change: add --set KEY=VALUE, --delete KEY, --append or --subtract")

    async def work(admin: Admin) -> None:
        await admin.alter_configs(resource(kind, name), name, changes, validate_only=dry_run)
        count = "1 change" if len(changes) == 1 else f"{len(changes)} changes"
        owner = f"{kind} {name}" if name else "all brokers"
        what = "levels" if kind == LOGGER else "configs"
        click.echo(f"{count} to the {what} of {owner}: " + ("valid, but not made." if dry_run else "made."))

    ask(bootstrap, work)


def resource(kind: str, name: str) -> int:
    """Return the `ConfigResource` of a kind.

    click.UsageError: the name of a topic or the id of a broker is missing, or a broker's id is no number.
    """
    from pykbroker.core.config.resource import ConfigResource

    if kind == "topic" and not name:
        raise click.UsageError("the name of the topic is missing")
    if kind == LOGGER and not name:
        raise click.UsageError("the id of the broker is missing: each broker has its own log levels")
    if kind != "topic" and name and not (name.isascii() and name.isdigit()):
        raise click.UsageError(f"{name!r} is not a broker id, which is a number")
    return ConfigResource[kind.replace("-", "_").upper()]


def level(value: str) -> str:
    """Return Kafka's name of a log level, which may also be one of `pykbroker start --log-level`."""
    return "WARN" if value.upper() == "WARNING" else value.upper()


def check_names(kind: str, names: Iterable[str]) -> None:
    """Check the names of configs. click.UsageError: Kafka has no such config; the message suggests the nearest name.

    A broker would accept the name as the config of a plugin, without any warning. It refuses unknown loggers itself.
    """
    from pykbroker.core.config.config import known
    from pykbroker.core.config.names import nearest
    from pykbroker.core.config.table import BROKER, TOPIC

    table = TOPIC if kind == "topic" else BROKER
    for name in names if kind != LOGGER else ():
        if name not in table and not (kind == "broker" and known(name)):
            raise click.UsageError(f"there is no {kind} config {name}{nearest(name, table)}")


def row(found: DescribeConfigsResourceResult) -> tuple[str, str, str]:
    """Return the name, value and source of one config, as a table shows them."""
    value = "(hidden)" if found.is_sensitive else "(none)" if found.value is None else found.value
    return found.name, value, source_of(found) + (", read-only" if found.read_only else "")


def document(found: DescribeConfigsResourceResult) -> dict[str, Any]:
    """Return the JSON object of one config. The value of a sensitive config is null."""
    return {
        "config": found.name,
        "value": found.value,
        "source": source_of(found),
        "sensitive": found.is_sensitive,
        "read_only": found.read_only,
    }


def source_of(found: DescribeConfigsResourceResult) -> str:
    """Return where a value comes from, in words."""
    from pykbroker.core.config.entries import Source

    known = {source.value: source.name for source in Source}
    return known.get(found.config_source, "unknown").removesuffix("_CONFIG").replace("_", " ").lower()
