"""The start and the end of a query: `startingOffsets`, `endingTimestamp` and similar options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.source.errors import InvalidOption
from pykbroker.pipeline.source.offset_json import TIMESTAMPS_EXAMPLE, OffsetMap, parse_offsets

EARLIEST, LATEST = -2, -1
"""The offsets that stand for the start and the end of a log."""
STRATEGIES = ("error", "latest")


class EveryPartition(NamedTuple):
    """The start or the end of the log of every partition: EARLIEST or LATEST."""

    offset: int


class SpecificOffsets(NamedTuple):
    """An offset for each partition, which may be EARLIEST or LATEST."""

    offsets: Mapping[TopicPartition, int]


class EveryTimestamp(NamedTuple):
    """The first record of every partition from a time on, in ms since 1970."""

    timestamp: int
    falls_to_latest: bool
    """Whether a starting time after the last record stands for the end of the log. It is an error otherwise."""


class SpecificTimestamps(NamedTuple):
    """The first record from a time on, in ms since 1970, for each partition."""

    timestamps: Mapping[TopicPartition, int]
    falls_to_latest: bool


OffsetLimit: TypeAlias = EveryPartition | SpecificOffsets | EveryTimestamp | SpecificTimestamps


class LimitNames(NamedTuple):
    """The options of one side of a query, as a user writes them. An earlier one takes precedence."""

    timestamp: str
    by_timestamp: str
    offsets: str


STARTING = LimitNames("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
ENDING = LimitNames("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")


def parse_limit(options: Mapping[str, str], names: LimitNames, default: int) -> OffsetLimit:
    """Return the limit that options with names in lower case describe. Raise InvalidOption."""
    strategy = options.get("startingoffsetsbytimestampstrategy", "error").lower()
    if strategy not in STRATEGIES:
        raise InvalidOption(f"startingOffsetsByTimestampStrategy={strategy} is not allowed: use error or latest")
    falls_to_latest = strategy == "latest"
    if (text := options.get(names.timestamp.lower())) is not None:
        return EveryTimestamp(_timestamp(names.timestamp, text.strip()), falls_to_latest)
    if (text := options.get(names.by_timestamp.lower())) is not None:
        found = parse_offsets(names.by_timestamp, text.strip(), TIMESTAMPS_EXAMPLE)
        return SpecificTimestamps(found, falls_to_latest)
    if (given := options.get(names.offsets.lower())) is None:
        return EveryPartition(default)
    text = given.strip()
    if text.lower() == "earliest":
        return EveryPartition(EARLIEST)
    if text.lower() == "latest":
        return EveryPartition(LATEST)
    return SpecificOffsets(parse_offsets(names.offsets, text))


def _timestamp(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidOption(f"{name}: Expected a single long value, got {text}") from None


def check_batch_limits(starting: OffsetLimit, ending: OffsetLimit) -> None:
    """Raise InvalidOption if a batch query cannot start or end there."""
    if starting == EveryPartition(LATEST):
        raise InvalidOption("starting offset can't be latest for batch queries on Kafka")
    if ending == EveryPartition(EARLIEST):
        raise InvalidOption("ending offset can't be earliest for batch queries on Kafka")
    if isinstance(starting, SpecificOffsets):
        _refuse_offset("startingOffsets", starting.offsets, LATEST, "latest")
    if isinstance(ending, SpecificOffsets):
        _refuse_offset("ending offset", ending.offsets, EARLIEST, "earliest")
    if isinstance(starting, SpecificOffsets) and isinstance(ending, SpecificOffsets):
        _check_order("offset", starting.offsets, ending.offsets)
    if isinstance(starting, SpecificTimestamps) and isinstance(ending, SpecificTimestamps):
        _check_order("timestamp", starting.timestamps, ending.timestamps)


def _refuse_offset(what: str, offsets: Mapping[TopicPartition, int], refused: int, name: str) -> None:
    for partition, offset in offsets.items():
        if offset == refused:
            raise InvalidOption(f"{what} for {partition} can't be {name} for batch queries on Kafka")


def _check_order(what: str, starting: Mapping[TopicPartition, int], ending: Mapping[TopicPartition, int]) -> None:
    """Raise InvalidOption unless both sides have the same partitions, and no start is after its end."""
    if starting.keys() != ending.keys():
        raise InvalidOption(
            f"the starting and the ending {what}s must have the same partitions: "
            f"{named(starting)} start and {named(ending)} end"
        )
    for partition, start in starting.items():
        if start > ending[partition] >= 0:
            raise InvalidOption(
                f"{partition}: the start {what} {start} is greater than the end {what} {ending[partition]}"
            )


def specified(limit: OffsetLimit) -> OffsetMap | None:
    """Return what a limit says for single partitions, or None for one that says the same for all."""
    match limit:
        case SpecificOffsets(found) | SpecificTimestamps(found, _):
            return dict(found)
        case _:
            return None


def named(partitions: Mapping[TopicPartition, object]) -> str:
    """Return the names of partitions for a message."""
    return "[" + ", ".join(map(str, sorted(partitions))) + "]"
