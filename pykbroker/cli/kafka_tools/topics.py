"""kafka-topics: lists, creates, describes, alters and deletes topics, as `pykbroker topics` does."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import click

from pykbroker.cli.kafka_tools.connection import talk
from pykbroker.cli.kafka_tools.options import CONNECTION, Given, InvalidCommandLine, Option, Tool, missing, pairs
from pykbroker.core.new_topic import PARTITIONS_MAX, REPLICAS_MAX, NewTopic
from wire.sentinels import BROKER_DEFAULT

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin
    from pykbroker.client.admin.topic_descriptions import FullTopic
    from wire.messages.describe_topic_partitions import DescribeTopicPartitionsResponsePartition as Partition

ACTIONS = ("list", "describe", "create", "alter", "delete")
MIN_ISR = "min.insync.replicas"
FILTERS: dict[str, Callable[[Partition, int], bool]] = {
    "under-replicated-partitions": lambda part, min_isr: len(part.isr_nodes) < len(part.replica_nodes),
    "unavailable-partitions": lambda part, min_isr: part.leader_id < 0,
    "under-min-isr-partitions": lambda part, min_isr: len(part.isr_nodes) < min_isr,
    "at-min-isr-partitions": lambda part, min_isr: len(part.isr_nodes) == min_isr,
}
"""The options of --describe that print only some partitions -> whether a partition is one of them."""
OPTIONS = (
    *CONNECTION,
    *map(Option, ACTIONS),
    Option("topic", "TOPIC"),
    Option("partitions", "COUNT"),
    Option("replication-factor", "COUNT"),
    Option("config", "NAME=VALUE", is_repeatable=True),
    *map(Option, ("if-exists", "if-not-exists", "exclude-internal", "topics-with-overrides")),
    *map(Option, FILTERS),
    Option("partition-size-limit-per-response", "COUNT"),
    *missing("name the topic by --topic", "topic-id", takes="ID"),
    *missing("`pykbroker topics reassign` places replicas", "replica-assignment", takes="ASSIGNMENT"),
    *missing("Kafka 4 has removed it: write kafka-configs --alter --delete-config", "delete-config", takes="NAME"),
)
ALLOWED = {
    "partitions": ("create", "alter"),
    "replication-factor": ("create",),
    "config": ("create",),
    "if-not-exists": ("create",),
    "if-exists": ("alter", "delete", "describe"),
    "exclude-internal": ("list", "describe"),
    **dict.fromkeys((*FILTERS, "topics-with-overrides"), ("describe",)),
}
"""Options that only some actions take."""
HINTS = {("config", "alter"): " (To alter topic configurations, the kafka-configs tool can be used.)"}


def run(given: Given) -> int:
    """Carry out the one action of the command line."""
    action = given.only_one(
        ACTIONS, "Command must include exactly one action: --list, --describe, --create, --alter or --delete"
    )
    given.check_allowed(action, ALLOWED, HINTS)
    if action in ("create", "alter", "delete"):
        given.require("topic")
    if action == "alter":
        given.require("partitions")
    filters = [name for name in (*FILTERS, "topics-with-overrides") if name in given]
    if "topics-with-overrides" in given and len(filters) > 1:
        raise InvalidCommandLine(f'Option "[{filters[0]}]" can\'t be used with option "[topics-with-overrides]"')
    try:
        wanted = NewTopic(  # what is wrong in it is refused before the wait for a broker
            given.text("topic"),
            counted(given, "partitions", PARTITIONS_MAX),
            pairs(given.all("config"), "config"),
            counted(given, "replication-factor", REPLICAS_MAX),
        )
    except InvalidCommandLine as error:
        raise click.ClickException(str(error)) from None  # Kafka's tool finds it out while it executes the command
    works: dict[str, Callable[[Admin], Awaitable[None]]] = {
        "list": lambda admin: list_topics(admin, given),
        "create": lambda admin: create(admin, wanted, accepts_existing="if-not-exists" in given),
        "describe": lambda admin: describe(admin, given),
        "alter": lambda admin: alter(admin, given, wanted.partitions),
        "delete": lambda admin: delete(admin, given),
    }
    talk(given, works[action])
    return 0


async def list_topics(admin: Admin, given: Given) -> None:
    """Print the names of topics, sorted."""
    print("\n".join(await chosen(admin, given)))


async def create(admin: Admin, new: NewTopic, *, accepts_existing: bool) -> None:
    """Create a topic. With `accepts_existing`, a topic that exists stays as it is, and nothing is printed."""
    from pykbroker.core.errors import ApiError
    from wire.error_codes import ErrorCode

    try:
        await admin.create_topic(new.name, new.partitions, new.replicas, new.configs)
    except ApiError as error:
        if error.code is ErrorCode.TOPIC_ALREADY_EXISTS and accepts_existing:
            return
        raise
    print(f"Created topic {new.name}.")


async def describe(admin: Admin, given: Given) -> None:
    """Print a line for each topic, and one for each of its partitions, as Kafka's tool does."""
    from pykbroker.client.admin.topic_descriptions import describe_topics
    from pykbroker.core.config.entries import Source
    from pykbroker.core.config.resource import ConfigResource

    filters = [FILTERS[name] for name in FILTERS if name in given]
    for topic in await describe_topics(admin, await existing(admin, given)):
        found = await admin.configs(ConfigResource.TOPIC, topic.name)
        min_isr = int(next((each.value or "" for each in found if each.name == MIN_ISR), "") or 1)
        configs = [f"{each.name}={each.value}" for each in found if each.config_source != Source.DEFAULT_CONFIG]
        if "topics-with-overrides" in given and not configs:
            continue
        if not filters:
            print(heading(topic, configs))
        if "topics-with-overrides" not in given:
            for part in topic.partitions:
                if not filters or any(passes(part, min_isr) for passes in filters):
                    print(line(topic.name, part))


def heading(topic: FullTopic, configs: Sequence[str]) -> str:
    """Return the first line about a topic."""
    return (
        f"Topic: {topic.name}\tTopicId: {topic.id_text}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {topic.replication_factor}\tConfigs: {','.join(configs)}"
    )


def line(name: str, part: Partition) -> str:
    """Return the line about a partition."""
    leader = "none" if part.leader_id < 0 else part.leader_id
    return (
        f"\tTopic: {name}\tPartition: {part.partition_index}\tLeader: {leader}\tReplicas: {nodes(part.replica_nodes)}"
        f"\tIsr: {nodes(part.isr_nodes)}\tElr: {nodes(part.eligible_leader_replicas)}"
        f"\tLastKnownElr: {nodes(part.last_known_elr)}"
    )


def nodes(ids: Sequence[int] | None) -> str:
    """Return node ids, separated by commas."""
    return ",".join(map(str, ids or ()))


async def alter(admin: Admin, given: Given, count: int) -> None:
    """Raise the number of partitions of topics."""
    for name in await existing(admin, given):
        await admin.create_partitions(name, count)


async def delete(admin: Admin, given: Given) -> None:
    """Delete topics."""
    if names := await existing(admin, given):
        await admin.delete_topics(names)


def counted(given: Given, option: str, most: int) -> int:
    """Return the value of --partitions or --replication-factor, -1 without it. click.ClickException: it is invalid."""
    if option in given and given.number(option, BROKER_DEFAULT) < 1:
        raise click.ClickException(f"The {option.replace('-', ' ')} must be greater than 0")
    return given.number(option, BROKER_DEFAULT, 1, most)


async def chosen(admin: Admin, given: Given) -> list[str]:
    """Return the topics that the regular expression of --topic names, in which a comma separates alternatives."""
    found = [each for each in await admin.topics() if not (each.internal and "exclude-internal" in given)]
    if "topic" not in given:
        return [each.name for each in found]
    try:
        pattern = topic_pattern(given.text("topic"))
    except re.error as error:
        raise click.ClickException(f"--topic is not a regular expression: {error}") from None
    return [each.name for each in found if pattern.fullmatch(each.name)]


def topic_pattern(text: str) -> re.Pattern[str]:
    """Return the pattern of --topic, without spaces and quotation marks around it. re.error: it is invalid."""
    return re.compile(text.replace(",", "|").replace(" ", "").strip("\"'"))


async def existing(admin: Admin, given: Given) -> list[str]:
    """Return the chosen topics. click.ClickException: none exists, and --if-exists is not given."""
    names = await chosen(admin, given)
    if not names and "topic" in given and "if-exists" not in given:
        raise click.ClickException(f"Topic '{given.text('topic')}' does not exist as expected")
    return names


TOOL = Tool(
    "kafka-topics",
    "Create, delete, describe, or change a topic.",
    OPTIONS,
    run,
    failure="Error while executing topic command : ",
    fails_on_stdout=True,
)
