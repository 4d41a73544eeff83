"""The progress of reassignments: a table, and the wait for their end."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from pykbroker.cli.ask import ask
from pykbroker.cli.tables import Table
from pykbroker.cli.topics.selection import Selection, selected_partitions
from pykbroker.core.address import Address
from pykbroker.core.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin
    from pykbroker.client.admin.reassignments import Reassignment
    from wire.messages.metadata import MetadataResponsePartition

COLUMNS = ("topic", "partition", "replicas", "adding", "removing", "in_sync", "bytes_left")
POLL_S = 0.5
OUTDATED_LOOKS_MAX = 10
"""The number of looks after which the replicas of a partition count, although a broker's metadata may be outdated."""


class Look(NamedTuple):
    """A sentence about the reassignments in progress, or "", and one about each partition with other replicas."""

    progress: str
    others: list[str]


async def progress_table(admin: Admin, selected: Selection) -> Table:
    """Return a row for each reassignment in progress of the selected partitions, or of all.

    `in_sync` are the added replicas that are in the ISR, and `bytes_left` is None if a broker does not answer.
    """
    moving, parts = await moves(admin, selected)
    left = await bytes_left(admin, moving, parts)
    rows = [
        (
            *one,
            move.replicas,
            move.adding,
            move.removing,
            [broker for broker in move.adding if broker in parts[one].isr_nodes],
            left[one],
        )
        for one, move in moving.items()
    ]
    return Table(COLUMNS, rows)


async def moves(
    admin: Admin, selected: Selection
) -> tuple[dict[TopicPartition, Reassignment], dict[TopicPartition, MetadataResponsePartition]]:
    """Return the reassignments in progress of the selected partitions, and the metadata of these partitions."""
    from pykbroker.client.admin.reassignments import reassignments

    moving = await reassignments(admin)
    parts = dict(await selected_partitions(admin, selected))
    return {one: move for one, move in moving.items() if one in parts}, parts


async def bytes_left(
    admin: Admin,
    moving: Mapping[TopicPartition, Reassignment],
    parts: Mapping[TopicPartition, MetadataResponsePartition],
) -> dict[TopicPartition, int | None]:
    """Return how many bytes the added replica that is furthest behind must still copy from the leader.

    Return None for a partition without a leader, and if a broker does not answer.
    """
    from pykbroker.client.admin.reassignments import replica_bytes

    wanted = defaultdict[int, list[TopicPartition]](list)
    for one, move in moving.items():
        for broker in {parts[one].leader_id, *move.adding}:
            wanted[broker].append(one)
    sizes = await replica_bytes(admin, wanted)
    found: dict[TopicPartition, int | None] = {}
    for one, move in moving.items():
        size = sizes.get((parts[one].leader_id, one))
        copies = [sizes.get((broker, one)) for broker in move.adding if broker not in parts[one].isr_nodes]
        known = [copy for copy in copies if copy is not None]
        unknown = size is None or len(known) < len(copies)
        found[one] = None if unknown or size is None else max((max(0, size - copy) for copy in known), default=0)
    return found


def wait_until_done(
    bootstrap: Sequence[Address], targets: Mapping[TopicPartition, Sequence[int]] | None, selected: Selection
) -> None:
    """Wait until the reassignments to `targets` have ended, or without targets all of the selected partitions.

    Each look has a connection of its own, so that the loss of one broker does not end the wait.
    click.ClickException: a partition has other replicas at the end than its target.
    """
    chosen: Selection = [*targets] if targets is not None else selected
    printed, found, outdated = "", Look("", []), 0
    while outdated < OUTDATED_LOOKS_MAX:
        found = ask(bootstrap, lambda admin: look_at(admin, targets or {}, chosen))
        if found.progress not in ("", printed):
            click.echo(found.progress, err=True)
            printed = found.progress
        if not found.progress and not found.others:
            click.echo("No partition is being reassigned any more.", err=True)
            return
        outdated = 0 if found.progress else outdated + 1
        time.sleep(POLL_S)
    raise click.ClickException("another reassignment has replaced this one: " + "; ".join(found.others))


async def look_at(admin: Admin, targets: Mapping[TopicPartition, Sequence[int]], chosen: Selection) -> Look:
    """Return how far the reassignments are."""
    moving, parts = await moves(admin, chosen)
    progress = ""
    if moving:
        left = [count for count in (await bytes_left(admin, moving, parts)).values() if count is not None]
        progress = f"Partitions that are being reassigned: {len(moving)}. Bytes left: {sum(left)}."
    return Look(
        progress,
        [
            f"{one} has the replicas {listed(parts[one].replica_nodes)}, not {listed(target)}"
            for one, target in targets.items()
            if one not in moving and tuple(parts[one].replica_nodes) != tuple(target)
        ],
    )


def listed(brokers: Sequence[int]) -> str:
    """Return broker ids as text."""
    return ",".join(map(str, brokers))
