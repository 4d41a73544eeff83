"""The action --describe of kafka-consumer-groups: the offsets, the members or the states of groups."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pykbroker.cli.kafka_tools.connection import talk_in_time
from pykbroker.cli.kafka_tools.options import Given, InvalidCommandLine
from pykbroker.cli.kafka_tools.text_table import table

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin

HEADINGS = {
    "offsets": {
        "GROUP": "group",
        "TOPIC": "topic",
        "PARTITION": "partition",
        "LEADER-EPOCH": "leader_epoch",
        "CURRENT-OFFSET": "current_offset",
        "LOG-END-OFFSET": "log_end_offset",
        "LAG": "lag",
        "CONSUMER-ID": "consumer_id",
        "HOST": "host",
        "CLIENT-ID": "client_id",
    },
    "members": {
        "GROUP": "group",
        "CONSUMER-ID": "consumer_id",
        "GROUP-INSTANCE-ID": "instance_id",
        "HOST": "host",
        "CLIENT-ID": "client_id",
        "#PARTITIONS": "partitions",
        "CURRENT-EPOCH": "current_epoch",
        "CURRENT-ASSIGNMENT": "current_assignment",
        "TARGET-EPOCH": "target_epoch",
        "TARGET-ASSIGNMENT": "target_assignment",
    },
    "state": {
        "GROUP": "group",
        "COORDINATOR (ID)": "coordinator",
        "ASSIGNMENT-STRATEGY": "assignment_strategy",
        "STATE": "state",
        "GROUP-EPOCH": "group_epoch",
        "TARGET-ASSIGNMENT-EPOCH": "target_assignment_epoch",
        "#MEMBERS": "members",
    },
}
"""The views, the first of which is the default -> their headings -> the columns of `pykbroker groups describe`."""
OF_STATIC_MEMBERS = "instance_id"
OF_VERBOSE = {
    *("leader_epoch", "current_epoch", "current_assignment", "target_epoch", "target_assignment"),
    *("group_epoch", "target_assignment_epoch"),
}
"""The columns that are printed with --verbose only."""
WIDTH_MIN = 15
WIDTHS_MIN = {
    "PARTITION": 10,
    "COORDINATOR (ID)": 25,
    "TARGET-ASSIGNMENT-EPOCH": 25,
    **dict.fromkeys(("ASSIGNMENT-STRATEGY", "STATE", "CURRENT-ASSIGNMENT"), 20),
}
"""The least widths of columns that are not `WIDTH_MIN`."""
REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")

ViewRow = dict[str, Any]
"""The cells of a row by the columns of `pykbroker groups describe`."""


def describe_groups(given: Given) -> int:
    """Describe groups one after another."""
    views = [each for each in HEADINGS if each in given]
    if len(views) > 1:
        raise InvalidCommandLine("Option [describe] takes at most one of these options: [members], [offsets], [state]")
    if given.text("state"):
        raise InvalidCommandLine("Option [describe] does not take a value for [state]")
    talk_in_time(given, lambda admin: describe(admin, given, views[0] if views else "offsets"))
    return 0


async def chosen_groups(admin: Admin, given: Given) -> list[str]:
    """Return the groups of --group, or all groups of consumers."""
    from pykbroker.cli.groups.describe import all_names

    return await all_names(admin) if "all-groups" in given else list(dict.fromkeys(given.all("group")))


async def describe(admin: Admin, given: Given, view: str) -> None:
    """Print one view of each group."""
    from pykbroker.client.admin.cluster_description import describe_brokers

    addresses = {each.broker: each.address for each in await describe_brokers(admin)}
    for name in await chosen_groups(admin, given):
        states, refusals = await rows_of(admin, name, "state")
        if refusals:
            print(f"\nError: Executing consumer group command failed due to {refusals[0]}")
            continue
        (state,) = states
        if state["state"] == "Empty":
            print(f"\nConsumer group '{name}' has no active members.", file=sys.stderr)
        elif state["state"] in REBALANCING:
            print(f"\nWarning: Consumer group '{name}' is rebalancing.", file=sys.stderr)
        if view == "state":
            rows = [state | {"coordinator": f"{addresses.get(state['coordinator'])}  ({state['coordinator']})"}]
        else:
            rows, _ = await rows_of(admin, name, view)
        if view == "offsets" and "verbose" in given:
            await add_epochs(admin, name, rows)
        if rows or view == "members":
            show(view, rows, is_verbose="verbose" in given)


async def rows_of(admin: Admin, group: str, view: str) -> tuple[list[ViewRow], list[str]]:
    """Return the rows of a group, or a sentence if it does not exist."""
    from pykbroker.cli.groups.describe import COLUMNS, described

    rows, refusals = await described(admin, [group], COLUMNS[view])
    return [dict(zip(COLUMNS[view], row, strict=True)) for row in rows], refusals


async def add_epochs(admin: Admin, group: str, rows: list[ViewRow]) -> None:
    """Add the leader epochs of the committed offsets to rows of the view "offsets"."""
    from pykbroker.client.admin.group_offsets import committed_with_text
    from pykbroker.client.group_coordinators import GroupCoordinators

    coordinators = GroupCoordinators(admin)
    try:
        committed = await committed_with_text(coordinators, group)
    finally:
        coordinators.close()
    epochs = {(topic, index): each.epoch for (topic, index), each in committed.items() if each.epoch >= 0}
    for row in rows:
        row["leader_epoch"] = epochs.get((row["topic"], row["partition"]))


def show(view: str, rows: list[ViewRow], *, is_verbose: bool) -> None:
    """Print the rows of one group."""
    left_out = set() if is_verbose else set(OF_VERBOSE)
    if not any(row.get(OF_STATIC_MEMBERS) for row in rows):
        left_out.add(OF_STATIC_MEMBERS)
    headings: Mapping[str, str] = {name: each for name, each in HEADINGS[view].items() if each not in left_out}
    print()
    table(
        {name: WIDTHS_MIN.get(name, WIDTH_MIN) for name in headings},
        [[text(row.get(each)) for each in headings.values()] for row in rows],
    )


def text(cell: Any) -> Any:
    """Return a cell. Partitions are printed as `orders:0,1;paid:0`."""
    return assignment(cell) if isinstance(cell, list) else cell


def assignment(partitions: Iterable[str]) -> str | None:
    """Return the partitions of a member by topic, or None if there are none."""
    indexes = defaultdict[str, list[str]](list)
    for each in partitions:
        topic, _, index = each.rpartition("-")
        indexes[topic].append(index)
    return ";".join(f"{topic}:{','.join(found)}" for topic, found in indexes.items()) or None
