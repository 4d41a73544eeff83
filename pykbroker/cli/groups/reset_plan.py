"""The new offsets of a reset, decided from the ends of the logs and the committed offsets as Kafka's tool does."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import NamedTuple

import click

from pykbroker.cli.parameters import OFFSET_MAX
from pykbroker.core.topic_partition import TopicPartition

UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
SHORT_DURATION = re.compile(r"(\d{1,15})([smhd])", re.ASCII)
ISO_DURATION = re.compile(
    r"P(?=[\dT])(?:(?P<d>\d{1,15})D)?(?:T(?=\d)(?:(?P<h>\d{1,15})H)?(?:(?P<m>\d{1,15})M)?(?:(?P<s>\d{1,15}(?:\.\d{1,9})?)S)?)?",
    re.ASCII | re.IGNORECASE,
)
FILE_FORM = "TOPIC,PARTITION,OFFSET"


class ResetOffsets(NamedTuple):
    """The offsets that a reset may choose in a partition.

    `at_time` is the first offset from the time of the reset on, or None without such a record. `committed` is None if
    the group has committed nothing.
    """

    earliest: int
    latest: int
    committed: int | None = None
    at_time: int | None = None


class PlannedOffset(NamedTuple):
    """A partition with its committed offset, the offset that a reset commits, and a remark for the user, or ""."""

    partition: TopicPartition
    current: int | None
    new: int
    remark: str


class NothingToShift(click.ClickException):
    """The error of a shift in a partition without a committed offset."""

    def __init__(self, partition: TopicPartition) -> None:
        super().__init__(f"{partition} has no committed offset to shift: reset it to an offset or a time")
        self.partition = partition


def planned(
    kind: str, value: int | Mapping[TopicPartition, int] | None, found: Mapping[TopicPartition, ResetOffsets]
) -> list[PlannedOffset]:
    """Return the new offset of each partition. `kind` is the name of the option, such as `to_offset`.

    NothingToShift: a partition without a committed offset cannot be shifted.
    """
    plan = []
    for partition, offsets in sorted(found.items()):
        number = value[partition] if isinstance(value, Mapping) else value
        new, remark = chosen(kind, number or 0, partition, offsets)
        plan.append(PlannedOffset(partition, offsets.committed, new, remark))
    return plan


def chosen(kind: str, value: int, partition: TopicPartition, offsets: ResetOffsets) -> tuple[int, str]:
    """Return the new offset of a partition, and a remark if it is not literally the one that the user asked for."""
    match kind:
        case "to_earliest":
            return offsets.earliest, ""
        case "to_latest":
            return offsets.latest, ""
        case "to_time" | "by_duration":
            if offsets.at_time is None:
                return offsets.latest, f"{partition} has no record from this time on: its end {offsets.latest} is used"
            return offsets.at_time, ""
        case "to_current":
            if offsets.committed is None:
                return offsets.latest, f"{partition} has no committed offset: its end {offsets.latest} is used"
            return offsets.committed, ""
        case "by":
            if offsets.committed is None:
                raise NothingToShift(partition)
            return within(offsets.committed + value, partition, offsets)
    return within(value, partition, offsets)


def within(offset: int, partition: TopicPartition, offsets: ResetOffsets) -> tuple[int, str]:
    """Return the offset of the log that is nearest to this one, and a remark if it is another one."""
    if offset < offsets.earliest:
        return offsets.earliest, f"{partition} begins after offset {offset}: its start {offsets.earliest} is used"
    if offset > offsets.latest:
        return offsets.latest, f"{partition} ends before offset {offset}: its end {offsets.latest} is used"
    return offset, ""


def duration(text: str) -> int:
    """Parse a duration such as 90s, 15m, 2h or 7d, or in Kafka's form P7DT2H. Return it in ms."""
    if short := SHORT_DURATION.fullmatch(text):
        return int(short[1]) * UNIT_MS[short[2]]
    found = ISO_DURATION.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is not a duration such as 90s, 15m, 2h, 7d or P7DT2H")
    return sum(int(Decimal(count) * UNIT_MS[unit]) for unit, count in found.groupdict().items() if count)


def offsets_of_file(lines: Iterable[str], name: str, group: str) -> dict[TopicPartition, int]:
    """Parse the lines TOPIC,PARTITION,OFFSET of a file, or with the group before them, as Kafka's --export writes them.

    Lines of other groups are skipped. click.BadParameter: a line is invalid, or there is none for the group.
    """
    found: dict[TopicPartition, int] = {}
    rows = csv.reader(lines)
    for row in rows:
        cells = [cell.strip() for cell in row]
        if cells and not (len(cells) == 4 and cells[0] != group):
            partition, offset = parsed(cells[-3:] if len(cells) == 4 else cells, f"{name}:{rows.line_num}")
            if found.setdefault(partition, offset) != offset:
                raise click.BadParameter(
                    f"{name}:{rows.line_num}: {partition} has two offsets, {found[partition]} and {offset}"
                )
    if not found:
        raise click.BadParameter(f"{name} has no line {FILE_FORM} for the group {group}")
    return found


def parsed(cells: list[str], place: str) -> tuple[TopicPartition, int]:
    """Return the partition and the offset of a line."""
    if len(cells) == 3 and cells[0] and is_number(cells[1], 2**31 - 1) and is_number(cells[2], OFFSET_MAX):
        return TopicPartition(cells[0], int(cells[1])), int(cells[2])
    raise click.BadParameter(f"{place}: {','.join(cells)!r} is not {FILE_FORM}, such as orders,0,42")


def is_number(text: str, largest: int) -> bool:
    """Whether a text is a number from 0 to `largest`."""
    return text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= largest
