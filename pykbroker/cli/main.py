"""The group that holds all commands."""

from __future__ import annotations

import click

from pykbroker.cli.configs import configs
from pykbroker.cli.dump_log import dump_log
from pykbroker.cli.features import features
from pykbroker.cli.log_dirs import log_dirs
from pykbroker.cli.producers import producers
from pykbroker.cli.quotas import quotas
from pykbroker.cli.start import start
from pykbroker.cli.topics import topics
from pykbroker.cli.transactions import transactions
from pykbroker.cli.wait import wait
from pykbroker.core.version import VERSION


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, message="%(prog)s %(version)s")
@click.pass_context
def pykbroker(context: click.Context) -> None:
    """Run a Kafka broker in Python, for unmodified Kafka clients."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for command in (start, wait, topics, configs, transactions, producers, features, quotas, log_dirs, dump_log):
    pykbroker.add_command(command)
