"""The offsets that can have records for the filters of a query, as far as the filters tell.

A filter on `topic` or `partition` leaves out partitions, one on `offset` cuts ranges, and a lower bound for `timestamp`
moves starts: ListOffsets returns the first offset with such a timestamp. All other filters leave everything.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from math import floor
from typing import Any, NamedTuple, Self

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.source.offset_json import OffsetMap

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "EqualTo": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "In": lambda found, values: found in values,
    "StringStartsWith": lambda found, start: str(found).startswith(start),
}
"""Spark's classes of filters that narrow a query."""
LOWER_BOUNDS = ("EqualTo", "GreaterThan", "GreaterThanOrEqual")


class Condition(NamedTuple):
    """A filter on one column."""

    column: str
    comparison: str
    value: Any

    def holds(self, found: Any) -> bool:
        """Whether a value of the column passes."""
        return COMPARISONS[self.comparison](found, self.value)


class Narrowing(NamedTuple):
    """The filters of a query that narrow it, all of which a record must pass."""

    conditions: tuple[Condition, ...] = ()

    @classmethod
    def of(cls, filters: Iterable[Any]) -> Self:
        """Return the filters that narrow a query, among those that Spark pushes down."""
        named = [(type(each).__name__, each) for each in filters]
        return cls(
            tuple(
                Condition(each.attribute[0], name, each.value)
                for name, each in named
                if name in COMPARISONS and len(each.attribute) == 1 and each.value is not None
            )
        )

    def keeps(self, partition: TopicPartition) -> bool:
        """Whether records of a partition may pass."""
        columns = {"topic": partition.topic, "partition": partition.partition}
        return all(each.holds(columns[each.column]) for each in self.conditions if each.column in columns)

    @property
    def since_ms(self) -> int | None:
        """Return the time in ms before which no record passes, or None.

        ListOffsets takes negative times for places such as the end of the log.
        """
        found = [
            floor(each.value.timestamp() * 1000)
            for each in self.conditions
            if each.column == "timestamp" and each.comparison in LOWER_BOUNDS and _is_instant(each.value)
        ]
        return max((each for each in found if each >= 0), default=None)

    def ranges(
        self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> tuple[OffsetMap, OffsetMap]:
        """Return starts and ends of ranges without the offsets at their sides that do not pass."""
        found_starts, found_ends = dict(starts), dict(ends)
        for partition, start in starts.items():
            low, high = self._offsets()
            begin, end = max(start, low), ends[partition] if high is None else min(ends[partition], high)
            found_starts[partition], found_ends[partition] = min(begin, max(end, start)), max(end, start)
        return found_starts, found_ends

    def _offsets(self) -> tuple[int, int | None]:
        """Return the least offset that may pass, and the least one above it that may not, or None."""
        lows, highs = [0], []
        for column, comparison, value in self.conditions:
            if column != "offset" or not isinstance(value, (int, tuple, list)):
                continue
            least, most = _bounds(comparison, value)
            lows += [] if least is None else [least]
            highs += [] if most is None else [most + 1]
        return max(lows), min(highs, default=None)


def _bounds(comparison: str, value: Any) -> tuple[int | None, int | None]:
    """Return the least and the greatest number that may pass a comparison, or None for no bound."""
    match comparison:
        case "EqualTo":
            return value, value
        case "GreaterThan":
            return value + 1, None
        case "GreaterThanOrEqual":
            return value, None
        case "LessThan":
            return None, value - 1
        case "LessThanOrEqual":
            return None, value
        case "In" if value:
            return min(value), max(value)
        case _:
            return None, None


def _is_instant(value: object) -> bool:
    return isinstance(value, datetime) and value.tzinfo is not None
