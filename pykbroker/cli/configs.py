"""`pykbroker configs`: what topics and brokers of a running cluster are configured to do, and changes of it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from pykbroker.cli.ask import ask, bootstrap_option
from pykbroker.cli.columns import print_columns
from pykbroker.cli.parameters import Address, config

if TYPE_CHECKING:
    from pykbroker.client.admin import Admin
    from wire.messages.describe_configs import DescribeConfigsResourceResult
    from wire.messages.incremental_alter_configs import AlterableConfig

SET, DELETE, APPEND, SUBTRACT = range(4)  # as IncrementalAlterConfigs counts them

kind_argument = click.argument("kind", type=click.Choice(["topic", "broker"]))
name_argument = click.argument("name", default="")


@click.group()
def configs() -> None:
    """Configs of the topics and brokers of a running cluster."""


@configs.command()
@kind_argument
@name_argument
@click.option("--all", "everything", is_flag=True, help="Also what stands at its default.")
@bootstrap_option
def describe(kind: str, name: str, everything: bool, bootstrap: Address) -> None:
    """Configs of a topic, or of a broker by its id.

    `broker` without an id shows the dynamic defaults of all brokers.
    """
    from pykbroker.core.config.entries import Source

    async def work(admin: Admin) -> None:
        found = await admin.configs(resource(kind, name), name)
        shown = [each for each in found if everything or each.config_source != Source.DEFAULT_CONFIG]
        print_columns([("CONFIG", "VALUE", "SOURCE"), *map(row, shown)])

    ask(bootstrap, work)


@configs.command()
@kind_argument
@name_argument
@click.option("--set", "values", type=config, metavar="KEY=VALUE", multiple=True, help="Give a value. Repeatable.")
@click.option("--delete", "deleted", metavar="KEY", multiple=True, help="Back to the default. Repeatable.")
@click.option("--append", "added", type=config, metavar="KEY=VALUE", multiple=True, help="Add to a list. Repeatable.")
@click.option(
    "--subtract", "taken", type=config, metavar="KEY=VALUE", multiple=True, help="Take from a list. Repeatable."
)
@click.option("--dry-run", is_flag=True, help="Only ask whether it could be done.")
@bootstrap_option
def alter(
    kind: str,
    name: str,
    values: Sequence[tuple[str, str]],
    deleted: Sequence[str],
    added: Sequence[tuple[str, str]],
    taken: Sequence[tuple[str, str]],
    dry_run: bool,
    bootstrap: Address,
) -> None:
    """Change configs of a topic, or of a broker by its id, all at once or none.

    `broker` without an id changes the dynamic defaults of all brokers.
    """
    from wire.messages.incremental_alter_configs import AlterableConfig

    check_names(kind, [key for key, _ in (*values, *added, *taken)])
    changes: list[AlterableConfig] = [AlterableConfig(key, DELETE, None) for key in deleted]
    for operation, pairs in ((SET, values), (APPEND, added), (SUBTRACT, taken)):
        changes += [AlterableConfig(key, operation, value) for key, value in pairs]
    if not changes:
        raise click.UsageError("nothing to change: say --set KEY=VALUE, --delete KEY, --append or --subtract")

    async def work(admin: Admin) -> None:
        await admin.alter_configs(resource(kind, name), name, changes, validate_only=dry_run)

    ask(bootstrap, work)


def resource(kind: str, name: str) -> int:
    """The number of a kind. click.UsageError for a topic without a name, or a broker without a number."""
    from pykbroker.core.config.resource import ConfigResource

    if kind == "topic" and not name:
        raise click.UsageError("which topic? Say its name")
    if kind == "broker" and name and not (name.isascii() and name.isdigit()):
        raise click.UsageError(f"a broker is named by its id, a number, and not {name!r}")
    return ConfigResource[kind.upper()]


def check_names(kind: str, names: Iterable[str]) -> None:
    """click.UsageError for a name that Kafka does not have, with the one that was probably meant.

    A broker would take it for the config of a plugin, and never tell.
    """
    from pykbroker.core.config.config import known
    from pykbroker.core.config.table import BROKER, TOPIC

    table = TOPIC if kind == "topic" else BROKER
    for name in names:
        if name not in table and not (kind == "broker" and known(name)):
            nearest = difflib.get_close_matches(name, table, n=1)
            hint = f"; did you mean {nearest[0]}?" if nearest else ""
            raise click.UsageError(f"there is no {kind} config {name}{hint}")


def row(found: DescribeConfigsResourceResult) -> tuple[str, str, str]:
    """Name, value and source of one config."""
    from pykbroker.core.config.entries import Source

    value = "(hidden)" if found.is_sensitive else "(none)" if found.value is None else found.value
    known = {source.value: source.name for source in Source}
    source = known.get(found.config_source, "unknown").removesuffix("_CONFIG").replace("_", " ").lower()
    return found.name, value, source + (", read-only" if found.read_only else "")
