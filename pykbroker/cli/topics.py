"""The commands of `pykbroker topics`, which list, create, describe and delete the topics of any Kafka broker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from pykbroker.cli.ask import ask, bootstrap_option
from pykbroker.cli.columns import print_columns
from pykbroker.cli.parameters import config
from pykbroker.core.address import Address

if TYPE_CHECKING:
    from pykbroker.client.admin import Admin, TopicDescription

BROKERS_CHOICE = -1

names_argument = click.argument("names", nargs=-1, required=True)


@click.group()
def topics() -> None:
    """List, create, describe and delete the topics of a running broker."""


@topics.command("list")
@bootstrap_option
def list_topics(bootstrap: Address) -> None:
    """List all topics."""

    async def work(admin: Admin) -> None:
        rows = [(topic.name, len(topic.partitions), topic.replication_factor) for topic in await admin.topics()]
        print_columns([("TOPIC", "PARTITIONS", "REPLICAS"), *rows])

    ask(bootstrap, work)


@topics.command()
@click.argument("name")
@click.option("--partitions", type=click.IntRange(min=1), help="[default: the broker's num.partitions]")
@click.option("--replicas", type=click.IntRange(min=1), help="[default: the broker's default.replication.factor]")
@click.option(
    "--set",
    "configs",
    type=config,
    metavar="KEY=VALUE",
    multiple=True,
    help="A topic config by its Kafka name. Repeatable.",
)
@bootstrap_option
def create(
    name: str, partitions: int | None, replicas: int | None, configs: Sequence[tuple[str, str]], bootstrap: Address
) -> None:
    """Create a topic."""

    async def work(admin: Admin) -> None:
        await admin.create_topic(name, partitions or BROKERS_CHOICE, replicas or BROKERS_CHOICE, dict(configs))

    ask(bootstrap, work)


@topics.command()
@names_argument
@bootstrap_option
def describe(names: Sequence[str], bootstrap: Address) -> None:
    """Describe the partitions of topics, and the configs set for them."""

    async def work(admin: Admin) -> None:
        for topic in await admin.topics(names):
            print_topic(topic, await own_configs(admin, topic.name))

    ask(bootstrap, work)


@topics.command()
@names_argument
@bootstrap_option
def delete(names: Sequence[str], bootstrap: Address) -> None:
    """Delete topics and all their records.

    A topic that cannot be deleted does not prevent the deletion of other topics.
    """
    from pykbroker.core.errors import ApiError

    async def work(admin: Admin) -> None:
        refusals = []
        for name in names:
            try:
                await admin.delete_topic(name)
            except ApiError as error:
                refusals.append(str(error))
        if refusals:
            raise click.ClickException("\n".join(refusals))

    ask(bootstrap, work)


async def own_configs(admin: Admin, topic: str) -> dict[str, str | None]:
    """Return the configs set for this topic. Return {} if the broker does not support DescribeConfigs."""
    from pykbroker.client.errors import UnsupportedVersion
    from pykbroker.core.config.entries import Source
    from pykbroker.core.config.resource import ConfigResource

    try:
        configs = await admin.configs(ConfigResource.TOPIC, topic)
    except UnsupportedVersion:
        return {}
    return {each.name: each.value for each in configs if each.config_source == Source.DYNAMIC_TOPIC_CONFIG}


def print_topic(topic: TopicDescription, configs: dict[str, str | None]) -> None:
    """Print a topic's name and configs, then a line for each partition."""
    click.echo(" ".join([topic.name, *(f"{name}={value}" for name, value in sorted(configs.items()))]))
    rows = [
        (part.partition_index, part.leader_id, part.leader_epoch, joined(part.replica_nodes), joined(part.isr_nodes))
        for part in topic.partitions
    ]
    print_columns([("PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR"), *rows])


def joined(numbers: Iterable[int]) -> str:
    """Return node ids joined by commas."""
    return ",".join(map(str, numbers))
