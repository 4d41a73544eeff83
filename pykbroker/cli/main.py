"""The group that holds all commands."""

from __future__ import annotations

import click

from pykbroker.cli.lazy_group import LazyGroup
from pykbroker.core.version import VERSION

COMMANDS = {
    name: f"pykbroker.cli.{folder}.{name.replace('-', '_')}"
    for folder, names in {
        "start": ["start"],
        "cluster": ["cluster"],
        "admin": ["wait", "brokers", "configs", "transactions", "producers", "features", "quotas"],
        "topics": ["topics"],
        "records": ["produce", "consume"],
        "bench": ["bench"],
        "groups": ["groups"],
        "users": ["users"],
        "acls": ["acls"],
        "logs": ["log-dirs", "dump-log"],
        "pipeline": ["pipeline"],
    }.items()
    for name in names
}
"""The module of each command."""


@click.group(
    cls=LazyGroup,
    modules=dict(sorted(COMMANDS.items())),
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(VERSION, message="%(prog)s %(version)s")
@click.pass_context
def pykbroker(context: click.Context) -> None:
    """Run a Kafka broker in Python, for unmodified Kafka clients."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
