"""The action --delete-offsets of kafka-consumer-groups: deletes committed offsets of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.kafka_tools.connection import talk_in_time
from pykbroker.cli.kafka_tools.options import Given, InvalidCommandLine
from pykbroker.cli.kafka_tools.text_table import table

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin

COLUMNS = {"TOPIC": 15, "PARTITION": 10, "STATUS": 0}


def delete_offsets(given: Given) -> int:
    """Delete the offsets of one group in topics or partitions."""
    groups, topics = given.all("group"), [part for text in given.all("topic") for part in partitions_of(text)]
    if not (groups and topics):
        raise InvalidCommandLine("Option [delete-offsets] takes the following options: [group], [topic]")
    if len(groups) > 1:
        raise InvalidCommandLine("Found multiple arguments for option group, but you asked for only one")
    talk_in_time(given, lambda admin: delete(admin, groups[0], topics))
    return 0


async def delete(admin: Admin, group: str, topics: list[tuple[str, int | None]]) -> None:
    """Delete the offsets, and print the outcome for each partition."""
    from pykbroker.client.admin import group_offsets
    from pykbroker.client.group_coordinators import GroupCoordinators
    from pykbroker.core.errors import ApiError
    from pykbroker.core.topic_partition import TopicPartition

    rows: list[tuple[str, int | None, str]] = []
    wanted: list[TopicPartition] = []
    for name, index in topics:
        try:
            found = [index] if index is not None else await indexes(admin, name)
        except ApiError as error:
            rows.append((name, None, f"Error: {error}"))
        else:
            wanted += [TopicPartition(name, each) for each in found]
    coordinators = GroupCoordinators(admin)
    try:
        outcomes = await group_offsets.delete_offsets(coordinators, group, dict.fromkeys(wanted)) if wanted else {}
    finally:
        coordinators.close()
    if any(outcomes.values()):
        print("\nError: Encountered some partition-level error, see the follow-up details.")
    else:
        print(f"Request succeeded for deleting offsets from group {group}.")
    print()
    rows += [(*each, f"Error: {error}" if error else "Successful") for each, error in outcomes.items()]
    table(COLUMNS, rows)


async def indexes(admin: Admin, name: str) -> list[int]:
    """Return the partitions of a topic. ApiError: it does not exist."""
    (topic,) = await admin.topics([name])
    return sorted(each.partition_index for each in topic.partitions)


def partitions_of(text: str) -> list[tuple[str, int | None]]:
    """Return the partitions of TOPIC or TOPIC:0,1. InvalidCommandLine: a partition is no number."""
    topic, colon, indexes = text.partition(":")
    if not colon:
        return [(topic, None)]
    if not all(index.isascii() and index.isdigit() for index in indexes.split(",")):
        raise InvalidCommandLine(f"--topic {text} is not TOPIC or TOPIC:PARTITION,...")
    return [(topic, int(index)) for index in indexes.split(",")]
