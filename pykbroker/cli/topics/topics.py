"""The commands of `pykbroker topics`, for the topics of any Kafka cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from pykbroker.cli.ask import ask, asking, bootstrap_option, refuse
from pykbroker.cli.completion import topic_names
from pykbroker.cli.parameters import TOPIC_FORM, set_option, topic
from pykbroker.cli.tables import Table, counted, json_option, print_json
from pykbroker.cli.topics.elect import elect
from pykbroker.cli.topics.offsets import offsets, trim
from pykbroker.cli.topics.reassign import reassign
from pykbroker.core.address import Address
from pykbroker.core.new_topic import PARTITIONS_MAX, REPLICAS_MAX, NewTopic
from wire.sentinels import BROKER_DEFAULT

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin, TopicDescription

names_argument = click.argument("names", nargs=-1, required=True, shell_complete=topic_names)


@click.group()
def topics() -> None:
    """List, create, describe, alter, trim, reassign and delete the topics of a running broker."""


@topics.command("list")
@json_option
@asking
async def list_topics(admin: Admin, as_json: bool) -> None:
    """List all topics."""
    rows = [(topic.name, len(topic.partitions), topic.replication_factor) for topic in await admin.topics()]
    Table(("topic", "partitions", "replicas"), rows).show(as_json=as_json)


@topics.command()
@click.argument("new", type=topic, metavar=TOPIC_FORM)
@click.option("--partitions", type=click.IntRange(1, PARTITIONS_MAX), help="[default: the broker's num.partitions]")
@click.option(
    "--replicas", type=click.IntRange(1, REPLICAS_MAX), help="[default: the broker's default.replication.factor]"
)
@set_option("A topic config by its Kafka name.")
@click.option("--if-not-exists", is_flag=True, help="Succeed if the topic exists; it stays as it is.")
@bootstrap_option
def create(
    new: NewTopic,
    partitions: int | None,
    replicas: int | None,
    configs: Sequence[tuple[str, str]],
    if_not_exists: bool,
    bootstrap: Sequence[Address],
) -> None:
    """Create a topic, for example orders, orders:3, or orders:3:retention.ms=60000,cleanup.policy=delete."""
    from pykbroker.core.errors import ApiError
    from wire.error_codes import ErrorCode

    if partitions and new.partitions != BROKER_DEFAULT:
        raise click.UsageError(f"{new.name}:{new.partitions} and --partitions {partitions}: give one of them")

    async def work(admin: Admin) -> None:
        try:
            await admin.create_topic(
                new.name, partitions or new.partitions, replicas or BROKER_DEFAULT, {**new.configs, **dict(configs)}
            )
        except ApiError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS or not if_not_exists:
                raise
            click.echo(f"The topic {new.name} exists already and stays as it is.")
            return
        (created,) = await admin.topics([new.name])
        click.echo(f"Created the topic {new.name} with {counted(len(created.partitions), 'partition')}.")

    ask(bootstrap, work)


@topics.command()
@names_argument
@json_option
@asking
async def describe(admin: Admin, names: Sequence[str], as_json: bool) -> None:
    """Describe the partitions of topics, and the configs set for them.

    Topics that exist are described even if others do not.
    """
    from pykbroker.core.errors import ApiError

    found, refusals = [], []
    for name in names:
        try:
            (described,) = await admin.topics([name])
        except ApiError as error:
            refusals.append(str(error))
        else:
            found.append((described, await own_configs(admin, name)))
    if as_json:
        print_json([document(each, configs) for each, configs in found])
    else:
        for each, configs in found:
            click.echo(" ".join([each.name, *(f"{name}={value}" for name, value in sorted(configs.items()))]))
            partition_table(each).print()
    refuse(refusals)


@topics.command()
@click.argument("name", shell_complete=topic_names)
@click.option(
    "--partitions", type=click.IntRange(1, PARTITIONS_MAX), required=True, help="The new number, more than now."
)
@asking
async def alter(admin: Admin, name: str, partitions: int) -> None:
    """Add partitions to a topic. Keys are distributed differently from then on.

    `pykbroker configs alter topic NAME` alters the configs of a topic.
    """
    await admin.create_partitions(name, partitions)
    click.echo(f"The topic {name} has {partitions} partitions now.")


@topics.command()
@names_argument
@asking
async def delete(admin: Admin, names: Sequence[str]) -> None:
    """Delete topics and all their records.

    A topic that cannot be deleted does not prevent the deletion of other topics.
    """
    from pykbroker.core.errors import ApiError

    refusals = []
    for name in names:
        try:
            await admin.delete_topic(name)
            click.echo(f"Deleted the topic {name}.")
        except ApiError as error:
            refusals.append(str(error))
    refuse(refusals)


topics.add_command(offsets)
topics.add_command(trim)
topics.add_command(reassign)
topics.add_command(elect)


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


def document(topic: TopicDescription, configs: dict[str, str | None]) -> dict[str, Any]:
    """Return the JSON object of a topic."""
    return {"topic": topic.name, "configs": configs, "partitions": partition_table(topic).records()}


def partition_table(topic: TopicDescription) -> Table:
    """Return a row for each partition of a topic."""
    rows = [
        (part.partition_index, part.leader_id, part.leader_epoch, part.replica_nodes, part.isr_nodes)
        for part in topic.partitions
    ]
    return Table(("partition", "leader", "epoch", "replicas", "isr"), rows)
