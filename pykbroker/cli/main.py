"""The group that holds all commands. Each is imported when it runs, so that a command does not wait for the others."""

from __future__ import annotations

from importlib import import_module
from typing import cast

import click

from pykbroker.core.version import VERSION

COMMANDS = {
    name: f"pykbroker.cli.{name.replace('-', '_')}"
    for name in (
        "start",
        "cluster",
        "wait",
        "brokers",
        "topics",
        "produce",
        "consume",
        "bench",
        "configs",
        "groups",
        "transactions",
        "producers",
        "features",
        "quotas",
        "log-dirs",
        "dump-log",
        "pipeline",
    )
}
"""The module of each command, which has the command under the module's own name."""


class Commands(click.Group):
    """A group whose commands are imported when they are needed."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Return a command, or None for an unknown name."""
        if name not in COMMANDS:
            return None
        module = import_module(COMMANDS[name])
        return cast("click.Command", getattr(module, name.replace("-", "_")))


@click.group(cls=Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, message="%(prog)s %(version)s")
@click.pass_context
def pykbroker(context: click.Context) -> None:
    """Run a Kafka broker in Python, for unmodified Kafka clients."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
