"""The command `pykbroker start` and its options."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from pykbroker.cli.parameters import (
    TOPIC_FORM,
    console_option,
    descriptor,
    log_level_option,
    named_address,
    set_option,
    topic,
)
from pykbroker.cli.security_options import security_options
from pykbroker.core.address import Address
from pykbroker.core.new_topic import NewTopic
from pykbroker.processes.pipe import PIPE_OPTION

if TYPE_CHECKING:
    from pykbroker.core.new_user import NewUser

LOG_FORMATS = ("text", "json")


@click.command()
@click.option(
    "--listen",
    envvar="PYKBROKER_LISTEN",
    show_envvar=True,
    type=named_address,
    metavar="[NAME=]HOST:PORT",
    multiple=True,
    help="The address that clients connect to; port 0 selects a free one. Repeatable: each address is a listener with "
    "a NAME of its own, by default PLAINTEXT. [default: 127.0.0.1:9092, this machine only]",
)
@click.option(
    "--advertise",
    envvar="PYKBROKER_ADVERTISE",
    show_envvar=True,
    type=named_address,
    metavar="[NAME=]HOST:PORT",
    multiple=True,
    help="The address that clients of a listener are told to use, for port forwarding or NAT. Repeatable. "
    "[default: the one each client used]",
)
@click.option(
    "--data-dir",
    envvar="PYKBROKER_DATA_DIR",
    show_envvar=True,
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="The directory for all data. [default: a directory of your user: $XDG_DATA_HOME/pykbroker, else "
    "~/.local/share/pykbroker, on macOS ~/Library/Application Support/pykbroker]",
)
@click.option(
    "--cluster-id",
    envvar="PYKBROKER_CLUSTER_ID",
    show_envvar=True,
    metavar="ID",
    help="The id of the cluster: an empty data directory is formatted with it, and any other must have it. [default: "
    "that of the directory, or else a random one]",
)
@click.option(
    "--memory",
    envvar="PYKBROKER_MEMORY",
    show_envvar=True,
    is_flag=True,
    help="Keep no data: use a temporary directory that is never flushed to the device, and removed at exit.",
)
@security_options
@click.option(
    "--topic",
    "topics",
    type=topic,
    metavar=TOPIC_FORM,
    multiple=True,
    help="Create this topic unless it exists. Repeatable.",
)
@set_option("Set a broker config by its Kafka name.")
@click.option(
    "--config",
    "file",
    envvar="PYKBROKER_CONFIG",
    show_envvar=True,
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Read configs from a server.properties of Kafka. Other options take precedence.",
)
@click.option(
    "--container",
    envvar="PYKBROKER_CONTAINER",
    show_envvar=True,
    is_flag=True,
    help="Read the variables of container images for Kafka, such as KAFKA_NUM_PARTITIONS, and listen on the ports of "
    "KAFKA_ADVERTISED_LISTENERS, or else on 0.0.0.0:9092, unless they name listeners.",
)
@console_option("Serve metrics to Prometheus at /metrics, and health checks at /healthz and /readyz.")
@log_level_option
@click.option(
    "--log-format",
    envvar="PYKBROKER_LOG_FORMAT",
    show_envvar=True,
    type=click.Choice(LOG_FORMATS),
    default="text",
    show_default=True,
    help="Plain text, or one JSON object a line.",
)
@click.option(PIPE_OPTION, "pipe", type=descriptor, hidden=True)  # only a program passes a descriptor
def start(
    listen: tuple[tuple[str, Address], ...],
    advertise: tuple[tuple[str, Address], ...],
    data_dir: str | None,
    cluster_id: str | None,
    memory: bool,
    tls: str | None,
    users: tuple[str, ...],
    authorize: bool,
    topics: tuple[NewTopic, ...],
    configs: tuple[tuple[str, str], ...],
    file: str | None,
    container: bool,
    console: Address | None,
    log_level: str,
    log_format: str,
    pipe: int | None,
) -> None:
    """Start a broker and run until Ctrl-C or SIGTERM.

    The first line on stdout reports the address once clients can connect. A variable such as PYKBROKER_NUM_PARTITIONS
    sets a config; --set takes precedence.
    """
    from pykbroker.cli.signals import noted_signals

    with noted_signals() as noted:
        from pykbroker.cli.start.process import garbage_collector_off

        with garbage_collector_off():
            from pykbroker.cli.start.options import Options
            from pykbroker.cli.start.run import run

            options = Options(
                listen,
                advertise,
                data_dir,
                cluster_id,
                memory,
                topics,
                dict(configs),
                file,
                container,
                dict(os.environ),
                has_own_certificate=tls is not None,
                users=named_users(users),
                authorizes=authorize,
            )
            run(options, log_level, log_format, console, noted, pipe)


def named_users(texts: tuple[str, ...]) -> tuple[NewUser, ...]:
    """Return the users that the option --user names. click.BadParameter: one is none, or is there twice."""
    if not texts:
        return ()
    from pykbroker.cli.new_users import new_users

    return new_users(texts, "--user")
