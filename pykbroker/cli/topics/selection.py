"""The partitions that a command is given as TOPIC[:PARTITION], or by --all-topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from pykbroker.cli.completion import topic_names
from pykbroker.cli.parameters import PARTITION_FORM, partition, together
from pykbroker.core.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin
    from wire.messages.metadata import MetadataResponsePartition

Selection = Sequence[tuple[str, int | None]]
"""Topics with the index of a partition, or None for all partitions of the topic."""

selection_options = together(
    click.argument("selected", nargs=-1, type=partition, metavar=f"[{PARTITION_FORM}]...", shell_complete=topic_names),
    click.option("--all-topics", is_flag=True, help="Select all partitions of all topics."),
)


def require_selection(selected: Selection, *, all_topics: bool) -> None:
    """Raise click.UsageError unless partitions are selected in exactly one way."""
    if bool(selected) == all_topics:
        raise click.UsageError("choose the partitions: name topics such as orders or orders:0, or write --all-topics")


async def selected_partitions(
    admin: Admin, selected: Selection
) -> list[tuple[TopicPartition, MetadataResponsePartition]]:
    """Return the selected partitions with their metadata, sorted. Without a selection, return those of all topics.

    Raise ApiError if a topic does not exist, and click.ClickException if a topic lacks a partition.
    """
    topics = await admin.topics(list(dict.fromkeys(name for name, _ in selected)) if selected else None)
    found = {TopicPartition(topic.name, part.partition_index): part for topic in topics for part in topic.partitions}
    for name, index in selected:
        if index is not None and TopicPartition(name, index) not in found:
            raise click.ClickException(f"Topic '{name}' has no partition {index} (UNKNOWN_TOPIC_OR_PARTITION)")
    whole = {name for name, index in selected if index is None}
    chosen = {TopicPartition(name, index) for name, index in selected if index is not None}
    return sorted(
        ((key, part) for key, part in found.items() if not selected or key in chosen or key.topic in whole),
        key=lambda one: one[0],
    )
