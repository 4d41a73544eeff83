"""kafka-consumer-groups: lists, describes, resets and deletes groups, as `pykbroker groups` does.

As in Kafka, a request that fails is printed as an error, and the exit code is 0 all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from pykbroker.cli.kafka_tools.connection import talk_in_time
from pykbroker.cli.kafka_tools.consumer_group_offsets import delete_offsets
from pykbroker.cli.kafka_tools.consumer_group_resets import TARGETS, WITH_VALUE, reset_offsets
from pykbroker.cli.kafka_tools.consumer_group_views import REBALANCING, chosen_groups, describe_groups
from pykbroker.cli.kafka_tools.options import CONNECTION, Given, InvalidCommandLine, Option, Tool, missing
from pykbroker.cli.kafka_tools.text_table import table

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
OPTIONS = (
    *CONNECTION,
    *map(Option, ("list", "describe", "delete", "reset-offsets", "delete-offsets", "all-groups", "all-topics")),
    *map(Option, ("offsets", "members", "verbose")),
    Option("state", "STATE,...", is_optional=True),
    Option("type", "TYPE,...", is_optional=True),
    Option("group", "GROUP", is_repeatable=True),
    Option("topic", "TOPIC[:PARTITION,...]", is_repeatable=True),
    Option("timeout", "MS"),
    *map(Option, ("execute", "dry-run", "export")),
    *(Option(name, WITH_VALUE.get(name, "")) for name in TARGETS),
    *missing("a broker validates patterns when members subscribe", "validate-regex", takes="PATTERN"),
)
ALLOWED = {
    **dict.fromkeys(("members", "offsets", "verbose"), ("describe",)),
    "group": ("describe", "delete", "reset-offsets", "delete-offsets"),
    "all-groups": ("describe", "delete", "reset-offsets"),
    "topic": ("reset-offsets", "delete-offsets"),
    "state": ("describe", "list"),
    "type": ("list",),
}
"""Options that only some actions take."""
STATES = ("Dead", "Empty", "Stable", *REBALANCING)
TYPES = ("Consumer", "Classic")


def run(given: Given) -> int:
    """Carry out the one action of the command line."""
    action = given.only_one(
        ACTIONS, f"Command must include exactly one action: {', '.join(f'--{each}' for each in ACTIONS)}"
    )
    given.check_allowed(action, ALLOWED)
    if action != "list" and ("group" in given) == ("all-groups" in given):
        raise InvalidCommandLine(f"Option [{action}] takes one of these options: [group], [all-groups]")
    actions: Mapping[str, Callable[[Given], int]] = {
        "list": list_groups,
        "describe": describe_groups,
        "delete": delete_groups,
        "reset-offsets": reset_offsets,
        "delete-offsets": delete_offsets,
    }
    try:
        return actions[action](given)
    except click.ClickException as error:
        print(f"\nError: {error.message}")
    return 0


def list_groups(given: Given) -> int:
    """List the groups of consumers."""
    states = names_of(given, "state", STATES, "Invalid state list '{}'. Valid states are: {}")
    types = names_of(given, "type", TYPES, "Invalid types list '{}'. Valid types are: {}")
    talk_in_time(given, lambda admin: show_groups(admin, given, states, types))
    return 0


def names_of(given: Given, option: str, known: Sequence[str], refusal: str) -> list[str]:
    """Return the names that the value of an option lists, in any case. InvalidCommandLine: one is unknown."""
    text = given.text(option)
    found = {name.lower(): name for name in known}
    names = [word.strip().lower() for word in text.split(",") if word.strip()]
    if not found.keys() >= {*names}:
        raise InvalidCommandLine(refusal.format(text, ", ".join(known)))
    return [found[name] for name in names]


async def show_groups(admin: Admin, given: Given, states: Sequence[str], types: Sequence[str]) -> None:
    """Print the groups of consumers, with their types and states if these are asked for."""
    from pykbroker.client.admin import groups

    found = await groups.list_groups(admin, states, types)
    shown = [each for each in found if each.members is not None]
    if "state" not in given and "type" not in given:
        print("\n".join(each.group for each in shown))
        return
    columns, cells = {"GROUP": 25}, [[each.group for each in shown]]
    if "type" in given:
        columns["TYPE"] = 20
        cells.append([each.type for each in shown])
    if "state" in given:
        columns["STATE"] = 20
        cells.append([each.state for each in shown])
    table(columns, [*zip(*cells, strict=True)])


def delete_groups(given: Given) -> int:
    """Delete groups without members."""
    talk_in_time(given, lambda admin: delete(admin, given))
    return 0


async def delete(admin: Admin, given: Given) -> None:
    """Delete groups without members."""
    from pykbroker.client.admin import groups
    from pykbroker.client.group_coordinators import GroupCoordinators

    coordinators = GroupCoordinators(admin)
    try:
        outcomes = await groups.delete_groups(coordinators, await chosen_groups(admin, given))
    finally:
        coordinators.close()
    done = ", ".join(f"'{name}'" for name, error in outcomes.items() if error is None)
    failures = {name: error for name, error in outcomes.items() if error is not None}
    if not failures:
        print(f"Deletion of requested consumer groups ({done}) was successful.")
        return
    print("\nError: Deletion of some consumer groups failed:")
    for name, error in failures.items():
        print(f"* Group '{name}' could not be deleted due to: {error}")
    if done:
        print(f"\nThese consumer groups were deleted successfully: {done}")


TOOL = Tool(
    "kafka-consumer-groups",
    "This tool helps to list, describe, delete, or reset the offsets of groups of consumers.",
    OPTIONS,
    run,
)
