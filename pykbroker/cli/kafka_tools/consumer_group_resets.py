"""The action --reset-offsets of kafka-consumer-groups: prints the new offsets of groups, and commits them."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from pykbroker.cli.kafka_tools.connection import bootstrap, talk_in_time
from pykbroker.cli.kafka_tools.consumer_group_offsets import partitions_of
from pykbroker.cli.kafka_tools.consumer_group_views import chosen_groups
from pykbroker.cli.kafka_tools.options import Given, InvalidCommandLine
from pykbroker.cli.kafka_tools.text_table import table

if TYPE_CHECKING:
    from pykbroker.cli.groups.reset_plan import PlannedOffset
    from pykbroker.client.admin.admin import Admin

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
NOT_EXECUTED = (
    "WARN: No action will be performed as the --execute option is missing. Write --execute, or --dry-run to plan."
)
COLUMNS = {"GROUP": 15, "TOPIC": 15, "PARTITION": 10, "NEW-OFFSET": 15}


def reset_offsets(given: Given) -> int:
    """Print the new offsets of groups and, with --execute, commit them.

    Return 1 if a partition cannot be shifted, without any commit.
    """
    from pykbroker.cli.groups.reset import commit
    from pykbroker.cli.groups.reset_plan import NothingToShift

    kind = given.only_one(
        [*TARGETS], "Option '[reset-offsets]' requires one of the following scenarios: " + ", ".join(TARGETS)
    )
    if kind != "from-file" and not ("topic" in given or "all-topics" in given):
        raise InvalidCommandLine("One of the reset scopes should be defined: --all-topics, --topic.")
    if "execute" in given and "dry-run" in given:
        raise InvalidCommandLine("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if "execute" not in given and "dry-run" not in given:
        print(NOT_EXECUTED, file=sys.stderr)
    try:
        plans = planned(given, kind)
    except NothingToShift as error:
        print(
            f"Cannot shift offset for partition {error.partition} since there is no current committed offset",
            file=sys.stderr,
        )
        return 1
    show(plans, exports="export" in given)
    if "execute" in given:
        for group, plan in plans.items():
            commit(bootstrap(given), group, plan, quiet=True)
    return 0


def show(plans: dict[str, list[PlannedOffset]], *, exports: bool) -> None:
    """Print the new offsets as a table, or as lines of a file for --from-file."""
    if exports:
        for group, plan in plans.items():
            for each in plan:
                owner = [group] if len(plans) > 1 else []
                print(",".join([*owner, each.partition.topic, str(each.partition.partition), str(each.new)]))
        return
    print()
    table(COLUMNS, [(group, *each.partition, each.new) for group, plan in plans.items() for each in plan])


def planned(given: Given, kind: str) -> dict[str, list[PlannedOffset]]:
    """Return the new offsets of each group. A group with members is printed as an error, and left out.

    InvalidCommandLine: an option has an invalid value. NothingToShift: a partition has no committed offset.
    """
    from pykbroker.cli.groups.reset import plan_of
    from pykbroker.cli.groups.reset_plan import NothingToShift
    from pykbroker.core.errors import ApiError

    topics = [part for text in given.all("topic") for part in partitions_of(text)] if "all-topics" not in given else []
    if kind != "from-file":
        target(given, kind, "")  # what is wrong in it is refused before the wait for a broker
    plans: dict[str, list[PlannedOffset]] = {}

    async def work(admin: Admin) -> None:
        for group in await chosen_groups(admin, given):
            try:
                plans[group] = await plan_of(admin, group, topics, TARGETS[kind], target(given, kind, group))
            except NothingToShift:
                raise
            except (click.ClickException, ApiError) as error:
                print(f"\nError: {error.message if isinstance(error, click.ClickException) else error}")

    talk_in_time(given, work)
    return plans


def target(given: Given, kind: str, group: str) -> Any:
    """Return the value of the option that says where to: an offset, a time in ms, or a file's offsets."""
    from pykbroker.cli.groups import reset
    from pykbroker.cli.groups.reset_plan import duration

    text = given.text(kind)
    try:
        match kind:
            case "to-offset" | "shift-by":
                return given.number(kind, 0)
            case "to-datetime":
                moment = datetime.fromisoformat(text)
                return round(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1000)
            case "by-duration":
                return reset.target({"by_duration": duration(text)}, group)[1]
            case "from-file":
                with open(text, encoding="utf-8") as file:
                    return reset.file_offsets(file, group)
    except (OSError, ValueError) as error:
        raise InvalidCommandLine(f"--{kind} {text}: {error}") from None
    except click.UsageError as error:
        raise InvalidCommandLine(f"--{kind}: {error.message}") from None
    return None
