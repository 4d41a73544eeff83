"""kafka-consumer-groups: lists, describes, resets and deletes groups, as `pykbroker groups` does.

As in Kafka, a request that fails is printed as an error, and the exit code is 0 all the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from pykbroker.cli.kafka_tools.connection import bootstrap, talk
from pykbroker.cli.kafka_tools.options import CONNECTION, Given, InvalidCommandLine, Option, Tool, missing

if TYPE_CHECKING:
    from pykbroker.cli.groups.reset_plan import PlannedOffset
    from pykbroker.client.admin import Admin

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
VIEWS = ("offsets", "members", "state")
TARGETS = {
    "by-duration": "by_duration",
    "to-latest": "to_latest",
    "to-current": "to_current",
    "to-earliest": "to_earliest",
    "to-offset": "to_offset",
    "shift-by": "by",
    "from-file": "from_file",
    "to-datetime": "to_time",
}
"""The options that say where to reset offsets -> the option of `pykbroker groups reset`."""
WITH_VALUE = {
    "by-duration": "DURATION",
    "to-offset": "OFFSET",
    "shift-by": "OFFSETS",
    "from-file": "FILE",
    "to-datetime": "TIME",
}
OPTIONS = (
    *CONNECTION,
    *map(Option, ("list", "describe", "delete", "reset-offsets", "all-groups", "all-topics", "offsets", "members")),
    Option("state", "STATE,...", is_optional=True),
    Option("type", "TYPE,...", is_optional=True),
    Option("group", "GROUP", is_repeatable=True),
    Option("topic", "TOPIC[:PARTITION,...]", is_repeatable=True),
    Option("timeout", "MS"),
    *map(Option, ("execute", "dry-run", "export")),
    *(Option(name, WITH_VALUE.get(name, "")) for name in TARGETS),
    *missing("`pykbroker groups describe` prints all columns: leave it out", "verbose"),
    *missing("`pykbroker groups delete GROUP --topic TOPIC` deletes committed offsets", "delete-offsets"),
    *missing("a broker validates patterns when members subscribe", "validate-regex", takes="PATTERN"),
)
EMPTY = "Empty"
NOT_EXECUTED = (
    "WARN: No action will be performed as the --execute option is missing. Write --execute, or --dry-run to plan."
)
OFFSETS_FORM = "{:<15} {:<15} {:<10} {:<15} {:<15} {:<15} {:<15} {:<15} {}"
OFFSETS_HEADING = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID".split()
MEMBERS_FORM = "{:<15} {:<15} {:<15} {:<15} {:<15} "
MEMBERS_HEADING = ("GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS")
STATE_FORM = "{:<15} {:<25} {:<20} {:<20} {}"
STATE_HEADING = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
RESET_FORM = "{:<15} {:<15} {:<10} {:<15}"
RESET_HEADING = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")


def run(given: Given) -> int:
    """Carry out the one action of the command line."""
    action = given.only_one(
        ACTIONS, f"Command must include exactly one action: {', '.join(f'--{each}' for each in ACTIONS)}"
    )
    if action != "list" and ("group" in given) == ("all-groups" in given):
        raise InvalidCommandLine(f"Option [{action}] takes one of these options: [group], [all-groups]")
    actions: Mapping[str, Callable[[Given], None]] = {
        "list": lambda given: talk(given, lambda admin: list_groups(admin, given)),
        "describe": describe_groups,
        "delete": lambda given: talk(given, lambda admin: delete_groups(admin, given)),
        "reset-offsets": reset_offsets,
    }
    try:
        actions[action](given)
    except click.ClickException as error:
        print(f"\nError: {error.message}")
    return 0


def names_of(text: str) -> list[str]:
    """Return the words of a list, which commas separate."""
    return [word.strip() for word in text.split(",") if word.strip()]


async def list_groups(admin: Admin, given: Given) -> None:
    """Print the groups of consumers, with their types and states if these are asked for."""
    from pykbroker.client import groups

    states, types = names_of(given.text("state")), names_of(given.text("type"))
    found = await groups.list_groups(admin, [each.title() for each in states], [each.title() for each in types])
    shown = [each for each in found if each.members is not None]
    if "state" not in given and "type" not in given:
        print("\n".join(each.group for each in shown))
        return
    columns = [("GROUP", "{:<32}", [each.group for each in shown])]
    if "type" in given:
        columns.append(("TYPE", " {:<20}", [each.type for each in shown]))
    if "state" in given:
        columns.append(("STATE", " {:<20}", [each.state for each in shown]))
    form = "".join(each for _, each, _ in columns)
    table(form, [heading for heading, _, _ in columns], zip(*(cells for _, _, cells in columns), strict=True))


def table(form: str, heading: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows below their heading. None is printed as a hyphen."""
    for row in (heading, *rows):
        print(form.format(*("-" if cell is None else cell for cell in row)))


def describe_groups(given: Given) -> None:
    """Describe groups one after another."""
    view = next((each for each in VIEWS if each in given), VIEWS[0])
    if sum(each in given for each in VIEWS) > 1:
        raise InvalidCommandLine("Option [describe] takes at most one of these options: [members], [offsets], [state]")
    talk(given, lambda admin: describe(admin, given, view))


async def chosen(admin: Admin, given: Given) -> list[str]:
    """Return the groups of --group, or all groups of consumers."""
    from pykbroker.cli.groups.describe import all_names

    return await all_names(admin) if "all-groups" in given else list(dict.fromkeys(given.all("group")))


async def describe(admin: Admin, given: Given, view: str) -> None:
    """Print one view of each group."""
    from pykbroker.cli.groups.describe import COLUMNS, described
    from pykbroker.client.cluster_description import describe_brokers

    addresses = {each.broker: each.address for each in await describe_brokers(admin)}
    for name in await chosen(admin, given):
        states, refusals = await described(admin, [name], COLUMNS["state"])
        if refusals:
            print(f"\nError: Executing consumer group command failed due to {refusals[0]}")
            continue
        ((_, _, state, coordinator, strategy, _, _, members),) = states
        if state == EMPTY:
            print(f"\nConsumer group '{name}' has no active members.", file=sys.stderr)
        if view == "state":
            place = f"{addresses.get(coordinator)}  ({coordinator})"
            print()
            table(STATE_FORM, STATE_HEADING, [(name, place, strategy, state, members)])
            continue
        rows, _ = await described(admin, [name], COLUMNS[view])
        print()
        if view == "members":
            table(MEMBERS_FORM, MEMBERS_HEADING, [(row[0], row[1], row[3], row[4], row[5]) for row in rows])
        elif rows:
            table(OFFSETS_FORM, OFFSETS_HEADING, [(*row[:7], row[8], row[9]) for row in rows])


async def delete_groups(admin: Admin, given: Given) -> None:
    """Delete groups without members."""
    from pykbroker.client import groups
    from pykbroker.client.group_coordinators import GroupCoordinators

    coordinators = GroupCoordinators(admin)
    try:
        outcomes = await groups.delete_groups(coordinators, await chosen(admin, given))
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


def reset_offsets(given: Given) -> None:
    """Print the new offsets of groups and, with --execute, commit them."""
    from pykbroker.cli.groups.reset import commit

    kind = given.only_one(
        [*TARGETS], "Option '[reset-offsets]' requires one of the following scenarios: " + ", ".join(TARGETS)
    )
    if kind != "from-file" and ("topic" in given) == ("all-topics" in given):
        raise InvalidCommandLine("One of the reset scopes should be defined: --all-topics, --topic.")
    if "execute" not in given and "dry-run" not in given:
        print(NOT_EXECUTED)
    plans = planned(given, kind)
    if "export" in given:
        for group, plan in plans.items():
            for each in plan:
                owner = [group] if len(plans) > 1 else []
                print(",".join([*owner, each.partition.topic, str(each.partition.partition), str(each.new)]))
    else:
        print()
        rows = [(group, *each.partition, each.new) for group, plan in plans.items() for each in plan]
        table(RESET_FORM, RESET_HEADING, rows)
    if "execute" in given and "dry-run" not in given:
        for group, plan in plans.items():
            commit(bootstrap(given), group, plan, quiet=True)


def planned(given: Given, kind: str) -> dict[str, list[PlannedOffset]]:
    """Return the new offsets of each group. A group with members is printed as an error, and left out."""
    from pykbroker.cli.groups.reset import plan_of
    from pykbroker.core.errors import ApiError

    topics = [part for text in given.all("topic") for part in partitions(text)]
    plans: dict[str, list[PlannedOffset]] = {}

    async def work(admin: Admin) -> None:
        for group in await chosen(admin, given):
            try:
                plans[group] = await plan_of(admin, group, topics, TARGETS[kind], target(given, kind, group))
            except (click.ClickException, ApiError) as error:
                print(f"\nError: {error.message if isinstance(error, click.ClickException) else error}")

    talk(given, work)
    return plans


def partitions(text: str) -> list[tuple[str, int | None]]:
    """Return the partitions of TOPIC or TOPIC:0,1. InvalidCommandLine: a partition is no number."""
    topic, colon, indexes = text.partition(":")
    if not colon:
        return [(topic, None)]
    if not all(index.isascii() and index.isdigit() for index in indexes.split(",")):
        raise InvalidCommandLine(f"--topic {text} is not TOPIC or TOPIC:PARTITION,...")
    return [(topic, int(index)) for index in indexes.split(",")]


def target(given: Given, kind: str, group: str) -> Any:
    """Return the value of the option that says where to: an offset, a time in ms, or a file's offsets."""
    from pykbroker.cli.groups import reset as group_reset
    from pykbroker.cli.groups.reset_plan import duration

    text = given.text(kind)
    try:
        match kind:
            case "to-offset":
                return given.number(kind, 0, 0)
            case "shift-by":
                return given.number(kind, 0)
            case "to-datetime":
                moment = datetime.fromisoformat(text)
                return round(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1000)
            case "by-duration":
                return group_reset.target({"by_duration": duration(text)}, group)[1]
            case "from-file":
                with open(text, encoding="utf-8") as file:
                    return group_reset.file_offsets(file, group)
    except (OSError, ValueError) as error:
        raise InvalidCommandLine(f"--{kind} {text}: {error}") from None
    except click.UsageError as error:
        raise InvalidCommandLine(f"--{kind}: {error.message}") from None
    return None


TOOL = Tool(
    "kafka-consumer-groups",
    "This tool helps to list, describe, delete, or reset the offsets of groups of consumers.",
    OPTIONS,
    run,
)
