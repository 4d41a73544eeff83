"""The range of the logs that a command reads: the texts of --from and --to, and their offsets in each partition."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import click

from pykbroker.cli.parameters import OFFSET_MAX, milliseconds, time
from pykbroker.core.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pykbroker.consumer import Consumer

BEGINNING, END = "beginning", "end"
START_FORM, END_FORM = "beginning|end|OFFSET|-N|TIME", "end|OFFSET|TIME"


class LastOffsets(NamedTuple):
    """A start so many offsets before the end of each partition."""

    offsets: int


Start: TypeAlias = int | LastOffsets | datetime | str
"""An offset, a number of last offsets, a time, `BEGINNING` or `END`."""
Stop: TypeAlias = int | datetime | str
"""An offset, a time, or `END`."""


class InvalidStart(ValueError):
    """The error of a start after the end of a log that is to be followed."""


class ReadRange(NamedTuple):
    """The offsets of a partition from `start` up to but not including `stop`, or without an end."""

    start: int
    stop: int | None


def start_point(text: str) -> Start:
    """Parse the value of --from."""
    if text in (BEGINNING, END):
        return text
    if text.startswith("-") and (count := offset(text[1:])):
        return LastOffsets(count)
    found = offset(text)
    return time(text, "neither beginning, end, an offset, -N nor a time") if found is None else found


def stop_point(text: str) -> Stop:
    """Parse the value of --to."""
    found = END if text == END else offset(text)
    return time(text, "neither end, an offset nor a time") if found is None else found


def offset(text: str) -> int | None:
    """Return the offset in a text, or None if it is no number. click.BadParameter: the offset is too large."""
    if not (text.isascii() and text.isdigit()):
        return None
    if int(text) > OFFSET_MAX:
        raise click.BadParameter(f"{text} is no offset, which is {OFFSET_MAX} at most")
    return int(text)


async def offset_ranges(
    consumer: Consumer, partitions: Collection[TopicPartition], start: Start, stop: Stop | None, *, follows: bool
) -> dict[TopicPartition, ReadRange]:
    """Return the range of each partition. Without a stop it has no end.

    A range is within the log, except that the stop is later if the command `follows` the log. A time after the last
    record stands for the end of the log. InvalidStart: the start is after the end of a log to follow.
    """
    firsts = await consumer.beginning_offsets(partitions)
    ends = await consumer.end_offsets(partitions)
    starts = await _offsets(consumer, start, firsts, ends)
    if follows and (late := [each for each in partitions if starts[each] > ends[each]]):
        raise InvalidStart(f"{late[0]} ends at offset {ends[late[0]]}, before --from {start}")
    stops = await stop_offsets(consumer, partitions, stop, follows=follows) if stop is not None else {}
    return {each: ReadRange(max(starts[each], firsts[each]), stops.get(each)) for each in partitions}


async def stop_offsets(
    consumer: Consumer, partitions: Collection[TopicPartition], stop: Stop, *, follows: bool
) -> dict[TopicPartition, int]:
    """Return the offset before which each partition is read."""
    ends = await consumer.end_offsets(partitions)
    found = await _offsets(consumer, stop, {}, ends)
    return {each: found[each] if follows else min(found[each], end) for each, end in ends.items()}


async def _offsets(
    consumer: Consumer, point: Start, firsts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> Mapping[TopicPartition, int]:
    """Return the offset of a point in each partition."""
    match point:
        case datetime():
            found = await consumer.offsets_for_times(dict.fromkeys(ends, milliseconds(point)))
            return {each: ends[each] if at is None else at.offset for each, at in found.items()}
        case LastOffsets():
            return {each: end - point.offsets for each, end in ends.items()}
        case int():
            return dict.fromkeys(ends, point)
    return firsts if point == BEGINNING else ends
