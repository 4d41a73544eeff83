"""The command `pykbroker cluster` and its options."""

from __future__ import annotations

import os
from collections.abc import Mapping

import click

from pykbroker.cli.parameters import TOPIC_FORM, address, console_option, log_level_option, set_option, topic
from pykbroker.cli.security_options import security_options
from pykbroker.core.address import Address
from pykbroker.core.config.replication import REPLICAS_DEFAULT

BROKERS_MAX = 100
DEFAULT = "127.0.0.1:9092"


@click.command()
@click.option("--brokers", type=click.IntRange(1, BROKERS_MAX), default=3, show_default=True, help="How many brokers.")
@click.option(
    "--replicas",
    type=click.IntRange(1, BROKERS_MAX),
    show_default="3, or the number of brokers if that is smaller",
    help="The replication factor of new topics and of the topics of groups and transactions. From 3 on, "
    "min.insync.replicas is 2.",
)
@click.option(
    "--listen",
    type=address,
    default=DEFAULT,
    show_default=True,
    metavar="HOST:PORT",
    help="The address of the first broker. The others take the ports after it, then the listeners that only brokers "
    "use: the controller's and one of each broker. Port 0 selects free ones.",
)
@click.option(
    "--advertise",
    envvar="PYKBROKER_ADVERTISE",
    show_envvar=True,
    type=address,
    metavar="HOST:PORT",
    help="The address of the first broker that clients are told to use, for port forwarding, NAT, or "
    "--listen 0.0.0.0. The others take the ports after it. [default: that of --listen]",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="The directory with a directory for the data of each broker. [default: that of `pykbroker start`, followed by "
    "-cluster]",
)
@click.option(
    "--memory",
    envvar="PYKBROKER_MEMORY",
    show_envvar=True,
    is_flag=True,
    help="Keep no data: use a temporary directory that is removed at exit.",
)
@security_options
@click.option(
    "--topic",
    "topics",
    metavar=TOPIC_FORM,
    multiple=True,
    help="Create this topic, over all brokers, unless it exists. Repeatable.",
)
@set_option("Set a config of all brokers by its Kafka name.")
@click.option("--no-restart", is_flag=True, help="End the cluster if a broker dies, instead of starting it again.")
@console_option(
    "Serve metrics of the first broker to Prometheus at /metrics, and health checks at /healthz and /readyz. The "
    "others take the ports after it."
)
@log_level_option
def cluster(
    brokers: int,
    replicas: int | None,
    listen: Address,
    advertise: Address | None,
    data_dir: str | None,
    memory: bool,
    tls: str | None,
    users: tuple[str, ...],
    authorize: bool,
    topics: tuple[str, ...],
    configs: tuple[tuple[str, str], ...],
    no_restart: bool,
    console: Address | None,
    log_level: str,
) -> None:
    """Start a cluster of several brokers on this machine, a process each, and run until Ctrl-C or SIGTERM.

    The first line on stdout reports the addresses once clients can connect to all brokers. The first broker is the
    controller, too. With --tls or --user, brokers authenticate each other by certificates. A variable such as
    PYKBROKER_NUM_PARTITIONS sets a config of all brokers; --set takes precedence.
    """
    from pykbroker.cli.cluster.plan import ClusterPlan
    from pykbroker.cli.cluster.run import run
    from pykbroker.cli.cluster.security import ClusterSecurity
    from pykbroker.cli.new_users import new_users

    check_topics(topics)
    if replicas is None:
        replicas = min(REPLICAS_DEFAULT, brokers)
    if replicas > brokers:
        raise click.UsageError(f"--replicas {replicas} needs at least {replicas} brokers: write --brokers {replicas}")
    if memory and data_dir:
        raise click.UsageError("--memory and --data-dir contradict each other: choose one of them")
    given = dict(configs)
    of_variables = configs_of_variables(given)
    new = new_users(users, "--user")
    security = ClusterSecurity(tls is not None, tuple(user.name for user in new), authorize)
    plan = ClusterPlan(
        brokers,
        replicas,
        listen,
        topics,
        tuple({**of_variables, **given}.items()),
        log_level,
        advertise,
        console,
        security,
        of_variables=frozenset(of_variables.keys() - given.keys()),
    )
    run(plan, data_dir, new, memory=memory, restarts=not no_restart)


def configs_of_variables(given: Mapping[str, str]) -> dict[str, str]:
    """Return the configs in PYKBROKER_* variables. `given` are those of --set.

    click.ClickException: a variable names no config. click.BadParameter: one of both cannot be the same for all.
    """
    from pykbroker.core.config.environment import own_configs
    from pykbroker.core.config.of_each_broker import check_shared
    from pykbroker.core.errors import StartError

    try:
        check_shared(given)
    except StartError as error:
        raise click.BadParameter(str(error), param_hint="'--set'") from None
    try:
        found = own_configs(os.environ)
    except StartError as error:
        raise click.ClickException(str(error)) from None
    try:
        check_shared(found.texts)
    except StartError as error:
        raise click.ClickException(found.blamed(str(error), ())) from None
    return dict(found.texts)


def check_topics(texts: tuple[str, ...]) -> None:
    """Raise click.BadParameter for a topic that the last broker would refuse once all others have started."""
    from pykbroker.core.config.check import check_topic
    from pykbroker.core.config.config import BrokerConfig
    from pykbroker.core.errors import ApiError

    for text in texts:
        try:
            new = topic(text)
            check_topic(new.name, new.configs, BrokerConfig.from_mapping({}))
        except (ApiError, click.BadParameter) as error:
            raise click.BadParameter(str(error), param_hint="'--topic'") from None
